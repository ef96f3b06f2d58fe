package election

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// The kind of an election's queue, and the mode of its candidates.
const (
	kind = "election"
	mode = "x"
)

// ErrNoLeader says that nobody leads, and nobody is a candidate.
var ErrNoLeader = errors.New("no leader")

// Election is an election's name on a client. It has no state: two of the same
// name are the same election, and one may have many candidates, of one process
// too. It is safe for concurrent use.
type Election struct {
	client *coordinator.Client
	queue  *recipes.Queue
}

// Option changes a default of an Election.
type Option = recipes.Option

// WithIdentity sets who leads or waits in listings: the client's identity by
// default. It is for people, and need not be unique.
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// WithLockDelay keeps the election without a leader for d, 1 ms to a minute,
// after the leader's session is lost, so that requests it had already sent
// arrive before anyone else leads. All candidates give the option. See
// [recipes.WithLockDelay] for its cost.
func WithLockDelay(d time.Duration) Option { return recipes.WithLockDelay(d) }

// WithHoldWarning logs a warning and notifies observers when a term has lasted
// for d. Zero is the default: no warning.
func WithHoldWarning(d time.Duration) Option { return recipes.WithHoldWarning(d) }

// New returns the election of a name (see [coordinator.CheckName]). It does no
// I/O. The error is coordinator.ErrInvalid and says which argument breaks which
// rule.
func New(c *coordinator.Client, name string, opts ...Option) (*Election, error) {
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err != nil {
		return nil, err
	}
	return &Election{client: c, queue: queue}, nil
}

// Name is the election's name.
func (e *Election) Name() string { return e.queue.Name() }

// Campaign waits until the caller leads, in the order of asking. value, of at
// most recipes.MaxPayload bytes, is the Payload that Leader, Observe and
// Candidates show: an address, for instance.
//
// On success the caller has to resign. On failure nothing is held, and the
// entry in the queue is removed, in the background if need be. Errors: the
// cause of ctx, if it ends while others are ahead; coordinator.ErrUnavailable
// with that cause, if it ends while the service does not answer;
// ErrSessionLost, if the session ends; ErrRemoved, if someone deletes the
// entry; ErrRefused; ErrClosed; ErrInvalid, if value is too long, or ctx
// carries a term of this election that is not over, since the leader would wait
// for itself.
//
// Each call is a candidate of its own, in one process too.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, recipes.Request{Op: "campaign", Payload: value})
}

// TryCampaign is Campaign that does not wait: if somebody leads or waits, it
// returns a [*recipes.TakenError], which says who, and is coordinator.ErrTaken.
// It leaves nothing in the queue and wakes nobody. On ZooKeeper a follower that
// lags may still show a leader that has just resigned.
func (e *Election) TryCampaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, recipes.Request{Op: "try-campaign", Payload: value, Try: true})
}

// campaign does not re-enter a term as a mutex is re-entered: two handles of
// one term would be two leaders to their owners, with one value between them.
func (e *Election) campaign(ctx context.Context, r recipes.Request) (*Term, error) {
	if e.queue.Held(ctx) {
		return nil, invalid(r.Op, e.Name(), "the context carries a term of this election that is"+
			" not over; Proclaim changes its value, Resign ends it")
	}
	r.Mode = mode
	h, err := e.queue.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return &Term{hold: h, election: e}, nil
}

// Candidates returns all candidates in order, the leader first, as the service
// showed them at one moment; it is empty when nobody leads.
func (e *Election) Candidates(ctx context.Context) ([]recipes.Contender, error) {
	return e.queue.List(ctx, func(string) recipes.Rule { return recipes.Exclusive })
}

// Leader says who leads, as the service showed it at one moment: the first in
// the queue. For a moment that may be a candidate that does not know it yet, or
// one that has just given up.
//
// The error is ErrNoLeader when nobody leads; otherwise as for Campaign.
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

// Observe yields who leads: first as it is now, then each change, be it another
// leader, another value (see Term.Proclaim) or nobody, whose Token is zero. It
// runs in the caller's goroutine; to stop, leave the loop or end ctx.
//
//	for leader, err := range e.Observe(ctx) {
//		if err != nil {
//			return err
//		}
//		route(leader)
//	}
//
// Changes come in order: tokens never fall. After a lost session an older value
// of the same leader may be shown once more. While the loop's body runs nobody
// listens, so of several changes in a row all but the last may be left out; the
// last is never missed. "Nobody" is seldom seen between two leaders, as a
// hand-over is one step at the service.
//
// It outlives lost sessions, restarts of the service and compaction. The errors
// that it does not outlive are yielded once, as the last: the cause of ctx,
// with coordinator.ErrUnavailable if the service was away, ErrRefused,
// ErrClosed.
//
// An observer watches one entry, whatever the number of candidates and of other
// observers. What it shows is no more certain than what Leader does.
func (e *Election) Observe(ctx context.Context) iter.Seq2[recipes.Contender, error] {
	return func(yield func(recipes.Contender, error) bool) {
		follower := e.queue.Follow()
		for {
			first, _, err := follower.Next(ctx)
			if !yield(first, err) || err != nil {
				return
			}
		}
	}
}
