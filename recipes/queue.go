package recipes

import (
	"context"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Queue is the wait queue of one name. Its state is at the service and in the
// holds. It is safe for concurrent use.
type Queue struct {
	options
	client *engine.Client
	name   string
	kind   string
	id     driver.Queue  // at the service
	key    any           // a holdKey
	shared driver.Sharer // nil, unless other clients use the queue too

	vacancy vacancy
	record  atomic.Pointer[lastRecord] // the latest with which a contender joined; see Terms
}

// NewQueue returns the queue of a recipe's kind and a name. It does no I/O.
func NewQueue(c *coordinator.Client, kind, name string, opts ...Option) (*Queue, error) {
	if c == nil {
		return nil, engine.Invalid("nil client")
	}
	q := &Queue{client: engine.Of(c), name: name, kind: kind}
	for _, o := range opts {
		if o == nil {
			return nil, engine.Invalid("nil option for %s %q", kind, name)
		}
		o(&q.options)
	}
	if q.identity == "" {
		q.identity = c.Identity()
	}
	var err error
	if q.id, err = q.client.Queue(kind, name); err != nil {
		return nil, err
	}
	if err := q.check(name); err != nil {
		return nil, err
	}
	q.key, q.shared = holdKey{q.client, q.id}, q.client.Sharer()
	if q.delay != 0 && q.shared != nil {
		return nil, engine.Invalid("lock-delay %v for %q: "+
			"the other clients of a shared queue ignore it", q.delay, name)
	}
	if _, err := q.encode(info{Identity: q.identity, Payload: q.payload}); err != nil {
		return nil, err
	}
	q.client.Observe(event.Event{Kind: event.Created, Queue: q.id})
	return q, nil
}

// Name returns the name given to NewQueue.
func (q *Queue) Name() string { return q.name }

// Request describes a contender. With neither a Rule nor Terms it is exclusive:
// its rule is [Exclusive], its release admits the successor without another
// read, and a lock-delay applies.
type Request struct {
	Op    string // the call in errors: "lock", "read-lock", …
	Mode  string // the mode of the entry, unless Terms have a Mode
	Rule  Rule   // for contenders that share the queue
	Terms *Terms // for contenders whose rule depends on the queue's record
	// Try: do not wait.
	Try bool
	// Lesser is a mode that excludes less. The hold can be re-entered in it,
	// and is converted to it when only such handles are left. It may be empty.
	Lesser string
	// Fresh: join the queue also if the context carries a hold.
	Fresh bool
	// Payload is shown in listings instead of the queue's.
	Payload []byte
	// Queued, if not nil, is called when the contender has joined the queue.
	Queued func()
}

func (r *Request) exclusive() bool { return r.Rule == nil && r.Terms == nil }

// Acquire joins the queue and blocks until the rule admits the contender. The
// caller must release the hold. A context that carries a live hold of this
// queue (see [Hold.Context]) re-enters that instead: without a request, with
// the same token.
//
// On failure nothing is held, and the entry is removed, in the background if
// necessary. Errors: the cause of ctx, unwrapped, if it ends while the
// contender is queued; coordinator.ErrUnavailable with that cause, if it ends
// while the service does not answer; ErrSessionLost; ErrRemoved; ErrRefused;
// ErrInvalid, for a payload that is too long or a TTL that the service does not
// accept; ErrClosed.
func (q *Queue) Acquire(ctx context.Context, r Request) (*Hold, error) {
	switch {
	case r.Rule != nil && r.Terms != nil:
		return nil, engine.Invalid("%s %q: a request has a rule or terms, not both", r.Op, q.name)
	case r.Mode == "" && (r.Terms == nil || r.Terms.Mode == nil):
		return nil, engine.Invalid("%s %q: a request needs a mode", r.Op, q.name)
	case len(r.Payload) > MaxPayload:
		return nil, q.describe(ctx, r.Op, engine.Invalid(
			"payload has %d bytes; at most %d are allowed", len(r.Payload), MaxPayload))
	}
	h, err := q.reenter(ctx, &r)
	switch {
	case err != nil:
		return nil, q.describe(ctx, r.Op, err)
	case h != nil:
		q.client.Observe(event.Event{Kind: event.Reentered, Session: h.Session(), Op: r.Op,
			Queue: q.id, Token: h.Token(), Context: ctx})
		return h, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if h, err = q.acquire(ctx, r); err != nil {
		err = q.describe(ctx, r.Op, err)
		if failed, ok := err.(*engine.Error); ok && !engine.IsCause(ctx, err) { //nolint:errorlint // ours
			failed.Maybe = false // a join without an answer is undone: the caller holds nothing
			if ctx.Err() != nil && engine.Same(failed.Err, context.Cause(ctx)) {
				return nil, failed.Err // as if ctx had ended between two requests
			}
		}
		return nil, err
	}
	return h, nil
}

// describe adds the operation and the name to an error that lacks them.
func (q *Queue) describe(ctx context.Context, op string, err error) error {
	taken, ok := err.(*TakenError) //nolint:errorlint // ours, not one in ctx's cause
	if ok && taken.Name == q.name && taken.Op == op {
		return taken
	}
	return engine.Describe(ctx, op, q.name, err)
}

// List returns all contenders in order. Those admitted by the rule of their
// mode are holders.
func (q *Queue) List(ctx context.Context, rule func(mode string) Rule) ([]Contender, error) {
	var entries []driver.Entry
	err := q.client.OnSession(ctx, func(s *engine.Session) (err error) {
		entries, err = s.List(ctx, q.id, 0)
		return err
	})
	if err != nil {
		return nil, engine.Describe(ctx, "list", q.name, err)
	}
	all := make([]driver.Place, len(entries))
	list := make([]Contender, len(entries))
	for i, e := range entries {
		all[i], list[i] = e.Place, q.contender(e)
		list[i].Holding = rule(e.Mode)(all[:i]).Admitted
	}
	return list, nil
}

// Describe gives err the operation and the name that the recipe's user knows,
// in place of those of the failed step. It returns nil and the cause of ctx
// unchanged.
func Describe(ctx context.Context, op, name string, err error) error {
	return engine.Describe(ctx, op, name, err)
}
