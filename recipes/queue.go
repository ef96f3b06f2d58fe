package recipes

import (
	"context"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Queue is the waiting queue of one name. It has no state of its own: all of
// that is at the service and in the holds. It is safe for concurrent use.
type Queue struct {
	options
	client *engine.Client
	name   string
	kind   string
	id     driver.Queue  // at the service
	key    any           // the holdKey
	shared driver.Sharer // nil, unless other clients use the queue too

	vacancy vacancy
	record  atomic.Pointer[driver.Record] // the latest that a contender joined with; see Terms
	rests   atomic.Int64                  // when the next read for strays is due, in Unix nanoseconds
}

// NewQueue returns the queue of a recipe's kind and a name. It does no I/O.
func NewQueue(c *coordinator.Client, kind, name string, opts ...Option) (*Queue, error) {
	if c == nil {
		return nil, engine.Invalid("nil client")
	}
	l := &Queue{client: engine.Of(c), name: name, kind: kind}
	for _, o := range opts {
		if o == nil {
			return nil, engine.Invalid("nil option for %s %q", kind, name)
		}
		o(&l.options)
	}
	if l.identity == "" {
		l.identity = c.Identity()
	}
	var err error
	if l.id, err = l.client.Queue(kind, name); err != nil {
		return nil, err
	}
	if err := l.check(name); err != nil {
		return nil, err
	}
	l.key, l.shared = holdKey{l.client, l.id}, l.client.Sharer()
	if l.delay != 0 && l.shared != nil {
		return nil, engine.Invalid("lock-delay %v for %q: "+
			"the other clients of a shared queue do not keep to it", l.delay, name)
	}
	if _, err := l.encode(info{Identity: l.identity, Payload: l.payload}); err != nil {
		return nil, err
	}
	return l, nil
}

// Name is the name, as given.
func (l *Queue) Name() string { return l.name }

// Request is what a recipe asks of a queue. With neither a Rule nor Terms it is
// exclusive: its rule is [Exclusive], its release hands over to the contender
// behind it without another read, and a lock-delay applies.
type Request struct {
	Op    string // names the call in errors: "lock", "read-lock", …
	Mode  string // the contender's mark in the queue, unless Terms give it
	Rule  Rule   // for contenders that share the queue
	Terms *Terms // for contenders whose rule depends on the queue's record
	// Try: do not wait.
	Try bool
	// Lesser is a mode that excludes less, in which a hold of this request can
	// be re-entered, and to which it is converted when only such handles are
	// left. Empty: there is none.
	Lesser string
	// Fresh: join the queue also when the context carries a hold.
	Fresh bool
	// Payload is shown by listings, instead of the queue's.
	Payload []byte
	// Queued, unless nil, is called when the contender has joined the queue.
	Queued func()
}

func (r *Request) exclusive() bool { return r.Rule == nil && r.Terms == nil }

// Acquire joins the queue and waits until the rule admits. A context that
// carries a live hold of this queue (see [Hold.Context]) re-enters it instead:
// no request is made, and the token is the same.
//
// On success the caller has to release the hold. On failure nothing is held,
// and the entry is removed, in the background if need be. Errors: the cause of
// ctx, untouched, when it ends while waiting behind others;
// coordinator.ErrUnavailable, together with that cause, when it ends while the
// service owes an answer; ErrSessionLost when the session ended while waiting;
// ErrRemoved when somebody deleted the entry; ErrRefused; ErrInvalid for a
// payload that is too long, or a TTL that the service does not take; ErrClosed.
func (l *Queue) Acquire(ctx context.Context, r Request) (*Hold, error) {
	switch {
	case r.Rule != nil && r.Terms != nil:
		return nil, engine.Invalid("%s %q: a request has a rule or terms, not both", r.Op, l.name)
	case r.Mode == "" && (r.Terms == nil || r.Terms.Mode == nil):
		return nil, engine.Invalid("%s %q: a request needs a mode", r.Op, l.name)
	case len(r.Payload) > MaxPayload:
		return nil, l.describe(ctx, r.Op, engine.Invalid(
			"payload has %d bytes; at most %d are allowed", len(r.Payload), MaxPayload))
	}
	h, err := l.reenter(ctx, &r)
	switch {
	case err != nil:
		return nil, l.describe(ctx, r.Op, err)
	case h != nil:
		l.client.Observe(event.Event{Kind: event.Reentered, Session: h.Session(), Op: r.Op,
			Queue: l.id, Token: h.Token(), Context: ctx})
		return h, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if h, err = l.acquire(ctx, r); err != nil {
		return nil, l.describe(ctx, r.Op, err)
	}
	return h, nil
}

// describe names the operation and the queue in an error that does not do so
// yet.
func (l *Queue) describe(ctx context.Context, op string, err error) error {
	taken, ok := err.(*TakenError) //nolint:errorlint // ours, not one in ctx's cause
	if ok && taken.Name == l.name && taken.Op == op {
		return taken
	}
	return engine.Describe(ctx, op, l.name, err)
}

// List returns all contenders in order. The rule of a mode tells which of them
// hold.
func (l *Queue) List(ctx context.Context, rule func(mode string) Rule) ([]Contender, error) {
	var entries []driver.Entry
	err := l.client.OnSession(ctx, func(s *engine.Session) (err error) {
		entries, err = s.List(ctx, l.id, 0)
		return err
	})
	if err != nil {
		return nil, engine.Describe(ctx, "list", l.name, err)
	}
	all := make([]driver.Place, len(entries))
	list := make([]Contender, len(entries))
	for i, e := range entries {
		all[i], list[i] = e.Place, l.contender(e)
		list[i].Holding = rule(e.Mode)(all[:i]).Admitted
	}
	return list, nil
}

// Describe gives err the operation and the name that a recipe's user knows, in
// place of those of the step that failed. It returns nil and the cause of ctx
// untouched.
func Describe(ctx context.Context, op, name string, err error) error {
	return engine.Describe(ctx, op, name, err)
}
