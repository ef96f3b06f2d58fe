package election

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// The kind of an election's queue, and the mode of its candidates.
const (
	kind = "election"
	mode = "x"
)

var (
	// ErrNoLeader is the error of Leader if there are no candidates.
	ErrNoLeader = errors.New("no leader")
	// ErrNoCandidate says that no waiting candidate has a transfer's identity.
	ErrNoCandidate = errors.New("no candidate")
	// ErrStepDown is an error of work that is no failure: it is logged at Info.
	ErrStepDown = errors.New("step down")
	// ErrStalled ends the context of work that hangs: see [WithProgress].
	ErrStalled = errors.New("work has made no progress")
	// ErrOverrun says that work did not return within the bound of [WithDrain].
	// It may still run while another process leads: then end this one.
	ErrOverrun = errors.New("work has not returned")
)

// Election is the same for one name, service and namespace. It can be shared.
type Election struct {
	client *coordinator.Client
	queue  *recipes.Queue
	next   driver.Queue // has the record of a transfer; empty if there is none

	mu      sync.Mutex
	current *Term // the latest term; it may be over
}

// Option changes a default of an Election.
type Option = recipes.Option

// WithIdentity changes the identity in listings: see [recipes.WithIdentity].
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// WithLockDelay delays the term after a loss by d: see [recipes.WithLockDelay].
func WithLockDelay(d time.Duration) Option { return recipes.WithLockDelay(d) }

// WithHoldWarning warns of long terms: see [recipes.WithHoldWarning].
func WithHoldWarning(d time.Duration) Option { return recipes.WithHoldWarning(d) }

// New does no I/O. The error is ErrInvalid: see [coordinator.CheckName].
func New(c *coordinator.Client, name string, opts ...Option) (*Election, error) {
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err == nil {
		err = recipes.RefuseMaxHold(queue, kind)
	}
	if err == nil {
		err = cmp.Or(recipes.RefuseRetain(queue, kind), recipes.RefuseDeadlockError(queue, kind))
	}
	if err != nil {
		return nil, err
	}
	e := &Election{client: c, queue: queue}
	if e.engine().Sharer() == nil {
		e.next, err = e.engine().Queue(nextKind, name)
	}
	return e, err
}

// Name returns the election's name.
func (e *Election) Name() string { return e.queue.Name() }

// Campaign blocks until the caller leads; the caller must Resign. Each call is
// a separate candidate, with value as Payload. On failure nothing is held, and
// the entry is removed. Errors: the cause of ctx, with ErrUnavailable if the
// service did not answer; ErrSessionLost; ErrRemoved; ErrRefused; ErrClosed;
// ErrInvalid, for a value above [recipes.MaxPayload], a TTL that is not
// accepted, or a ctx with a live term.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, recipes.Request{Op: "campaign", Payload: value}, false)
}

// TryCampaign waits only for the service. If there are candidates, or during a
// lock-delay, the error is a [*recipes.TakenError], which names them; on
// ZooKeeper also just after a resignation, if the server is behind.
func (e *Election) TryCampaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, recipes.Request{Op: "try-campaign", Payload: value, Try: true}, false)
}

// campaign does not re-enter a term, as a mutex does: the owners of two handles
// would both believe to lead, with one value between them.
//
// A term of Run has its base before any goroutine can see it: one that was
// asked to stop a moment too early would resign while the work begins.
func (e *Election) campaign(ctx context.Context, r recipes.Request, run bool) (*Term, error) {
	if e.queue.Held(ctx) {
		return nil, invalid(r.Op, e.Name(), "the context carries a term of this election that is"+
			" not over; Proclaim changes its value, Resign ends it")
	}
	r.Mode, r.Waits = cmp.Or(r.Mode, mode), recipes.WaitsForAll
	h, err := e.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	t := &Term{hold: h, election: e, began: time.Now()}
	if run {
		t.base, t.ask = context.WithCancelCause(ctx)
	}
	e.show(t)
	return t, nil
}

// acquire queues until the candidate is admitted and has nobody to let pass.
func (e *Election) acquire(ctx context.Context, r recipes.Request) (*recipes.Hold, error) {
	for {
		h, err := e.queue.Acquire(ctx, r)
		if err != nil || e.next == "" || h.HandedOver() {
			return h, err
		}
		passes, err := e.letsPass(ctx, h)
		if err == nil && !passes {
			return h, nil
		}
		if left := e.leave(ctx, h); err == nil {
			err = left
		}
		switch {
		case err != nil:
			return nil, recipes.Describe(ctx, r.Op, e.Name(), err)
		case r.Try:
			return nil, &recipes.TakenError{Op: r.Op, Name: e.Name()}
		}
	}
}

// leave removes the entry of a candidate that does not lead, in the background
// if ctx ends. The error is the cause of ctx. That the entry has already gone
// is none: the candidate joins again.
func (e *Election) leave(ctx context.Context, h *recipes.Hold) error {
	h.NoHandoff()
	left := make(chan struct{})
	if !e.engine().Go(func() {
		defer close(left)
		_ = h.Release(context.WithoutCancel(ctx))
	}) {
		return coordinator.ErrClosed
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// show makes t the current term, unless it is over by now and another goroutine
// has come first with a later one. After a loss of data tokens begin anew; then
// the term with the greater one is over.
func (e *Election) show(t *Term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.current; c != nil && c.Token() > t.Token() {
		select {
		case <-c.Context().Done(): // not Err, which may ask the service
		default:
			return
		}
	}
	e.current = t
}

// Current returns the live term of this Election, from Run or Campaign in any
// goroutine, or nil. It sends no request, but see [Term.Err].
func (e *Election) Current() *Term {
	e.mu.Lock()
	t := e.current
	e.mu.Unlock()
	if t == nil || t.Err() != nil {
		return nil
	}
	return t
}

// Candidates returns a snapshot of all candidates in order, the leader first.
func (e *Election) Candidates(ctx context.Context) ([]recipes.Contender, error) {
	return e.queue.List(ctx, func(string) recipes.Rule { return recipes.Exclusive })
}

// Leader returns the first candidate. Only its [Term] proves that it leads: it
// may wait for a lock-delay. The error is ErrNoLeader, or as of Campaign.
func (e *Election) Leader(ctx context.Context) (recipes.Contender, error) {
	first, ok, err := e.queue.Follow().Next(ctx)
	switch {
	case err != nil:
		err = recipes.Describe(ctx, "leader", e.Name(), err)
	case !ok:
		err = &coordinator.Error{Op: "leader", Name: e.Name(), Err: ErrNoLeader}
	}
	return first, err
}

// Observe yields the leader and then each change: another leader, another
// value, or none, with Token 0. It may skip states, but never the latest.
// Tokens never fall, unless the service lost data. When the session is
// suspended or lost, it yields the last state again, with Stale set; the next
// is confirmed, but may be of just before. An error of Campaign ends it.
func (e *Election) Observe(ctx context.Context) iter.Seq2[recipes.Contender, error] {
	return func(yield func(recipes.Contender, error) bool) {
		follower := e.queue.Follow()
		for {
			first, _, err := follower.NextOrStale(ctx)
			if !yield(first, err) || err != nil {
				return
			}
		}
	}
}
