// Package semaphore bounds how much of something goes on at once, over all
// processes: n permits of a named limit.
//
//	s, err := semaphore.New(client, "reports", 10) // ten at a time, everywhere
//	...
//	err = s.Do(ctx, 1, func(ctx context.Context, p *semaphore.Permit) error {
//		return report(ctx) // ctx ends if the permit is lost
//	})
//
// # Guaranteed
//
// At no moment do live sessions hold more permits than the limit; see below for
// what a change of the limit means. The context of a permit ends before the
// service can give what it holds to anyone else. Permits are handed out in the
// order of asking, all that one call asks for at once or none: small requests
// do not overtake a large one. Whichever holder leaves, the first in the queue
// is admitted if it fits. A release wakes those it admits and one more at most;
// or, in a crowd (see Cost), once each session that waits. (While the service
// refuses to convert entries, for want of space or permission, contenders
// behind an admitted one may wait longer than necessary.) Every grant has a
// token, greater than those of grants asked for before.
//
// # The limit
//
// It is stored at the name, by the first who asks for a permit, and stays when
// nobody holds any. Whoever asks with another limit in mind gets a [LimitError]
// and stands in no queue: the comparison and the joining are one step at the
// service. [Semaphore.SetLimit] changes it.
//
// When a contender is admitted, all that is held is within a limit that was
// stored when it last began to read the queue, or later. There are two
// exceptions, both of a change that comes while contenders are on their way.
// One who is admitted by its first read goes by the limit by which it joined.
// And one who waited, and whose limit was changed meanwhile, does not count
// those behind it who joined by the same limit as it did, and have held for
// less than a quarter of a second: they do not say yet that they hold.
//
// For a quarter of a second after its grant a holder can look like one who
// waits to those who go by a limit that was set later: they wait for so long,
// and TryAcquire fails.
//
// # Cost
//
// An Acquire that need not wait is one request, two if others hold permits, and
// one more for the first of each Semaphore, which reads the limit: call New
// once and share what it returns. Release is one request. A permit that is held
// for longer than a quarter of a second costs two more: its entry is converted,
// so that it says that it holds, and watched. An Acquire that waited reads the
// limit once more, and converts its entry at once if somebody is behind it.
//
// A crowded queue has many contenders of few sessions: 16 to 512 contenders,
// three or more for each session. There each session reads the queue after a
// release, once for all of its contenders: two to four requests for each grant.
// When a queue becomes crowded, or stops to be, a permit can be idle for a
// quarter of a second.
//
// # Shared with other clients
//
// On a client whose layout is Curator's or Kazoo's a semaphore is that client's
// too, and is as theirs is: one permit at a time, no Slots, and the limit is
// what each caller has in mind. Kazoo's is compared with what is stored,
// Curator's with nothing. An Acquire takes part in two queues, which costs some
// nine requests, and a Release one.
//
// # Not guaranteed
//
// A process that was stopped, by SIGSTOP or a suspended machine, may go on with
// its work although another process has its permits by then. [Permit.Token] and
// [Permit.Slots] let a resource tell.
//
// Each Acquire is queued, also with the context of a permit: who holds permits
// and asks for more can wait for ever for others who do the same.
package semaphore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// The kinds of the queues: of those who ask for permits, and the one whose
// record has the numbers that Slots hands out.
const (
	kind  = "semaphore"
	slots = "slots"
)

// Stored stands, as a limit, for the one that is stored at the name.
const Stored = -1

// Semaphore is a semaphore's name on a client, and the limit that its user has
// in mind. Two of the same name are the same semaphore. It is safe for
// concurrent use.
type Semaphore struct {
	queue   *recipes.Queue
	slots   *recipes.Queue
	turns   *recipes.Queue // nil, unless other clients use the semaphore too
	limit   atomic.Int64   // Stored: whatever is stored
	setting chan struct{}  // held, by sending to it, by the caller who sets the limit
}

// Option changes a default of a Semaphore.
type Option = recipes.Option

// WithIdentity sets who holds or waits in listings: the client's identity by
// default.
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// WithPayload adds up to 4096 bytes to what listings show of the holder or
// waiter.
func WithPayload(b []byte) Option { return recipes.WithPayload(b) }

// WithHoldWarning logs a warning and notifies observers when a permit has been
// held for d. Zero is the default: no warning.
func WithHoldWarning(d time.Duration) Option { return recipes.WithHoldWarning(d) }

// WithMaxHold is WithHoldWarning, and also ends the permit's context, with
// [recipes.ErrHeldTooLong] as its cause. The permit is still held until
// Release, since the work may still run: Err returns nil.
func WithMaxHold(d time.Duration) Option { return recipes.WithMaxHold(d) }

// New returns the semaphore of a name (see [coordinator.CheckName]) with a
// limit of 1 to [MaxLimit], or [Stored]. It does no I/O: whether the limit is
// the one that is stored shows at the first Acquire.
func New(c *coordinator.Client, name string, limit int, opts ...Option) (*Semaphore, error) {
	if limit != Stored {
		if err := check(name, "limit", limit, MaxLimit); err != nil {
			return nil, err
		}
	}
	if c != nil && c.Shared() {
		return newShared(c, name, limit, opts)
	}
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err != nil {
		return nil, err
	}
	if err := recipes.RefuseLockDelay(queue, "semaphore"); err != nil {
		return nil, err
	}
	numbers, err := recipes.NewQueue(c, slots, name)
	if err != nil {
		return nil, err
	}
	s := &Semaphore{queue: queue, slots: numbers, setting: make(chan struct{}, 1)}
	s.limit.Store(int64(limit))
	return s, nil
}

func check(name, what string, n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("baton: %w: %s %d for semaphore %q: want 1 to %d",
			coordinator.ErrInvalid, what, n, name, most)
	}
	return nil
}

// Name is the semaphore's name.
func (s *Semaphore) Name() string { return s.queue.Name() }

// Acquire waits until n permits are held, all of them, in the order of asking.
//
// On success the caller has to release. On failure nothing is held, and the
// entry in the queue is removed, in the background if need be. Errors: the
// cause of ctx, if it ends while others are ahead; coordinator.ErrUnavailable
// with that cause, if it ends while the service does not answer;
// ErrSessionLost, if the session ends; ErrRemoved, if someone deletes the
// entry; ErrRefused; ErrClosed; ErrInvalid, if n is not 1 to the limit, also
// when the limit is lowered below n while the call waits; [LimitError];
// [ErrNoLimit], if none is stored and [Stored] was given, or someone deleted
// it.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Permit, error) {
	return s.acquire(ctx, n, recipes.Request{Op: "acquire"})
}

// TryAcquire is Acquire that does not wait: if fewer than n permits are free,
// or somebody waits, it returns a [*recipes.TakenError], which says who is
// first in the queue, and is coordinator.ErrTaken. It reads the queue before it
// joins it, so that a call which fails has left nothing and woken nobody,
// unless another contender joined between.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Permit, error) {
	return s.acquire(ctx, n, recipes.Request{Op: "try-acquire", Try: true})
}

func (s *Semaphore) acquire(ctx context.Context, n int, r recipes.Request) (*Permit, error) {
	most := MaxLimit
	if limit := int(s.limit.Load()); limit != Stored {
		most = limit
	}
	if err := check(s.Name(), "permits", n, most); err != nil {
		return nil, err
	}
	if s.turns != nil {
		return s.acquireShared(ctx, n, r)
	}
	r.Fresh, r.Terms = true, s.terms(n)
	h, err := s.queue.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.permit(h, n), nil
}

// Do acquires n permits, runs work, and releases them, also when work panics.
// The context of work ends when ctx does or when the permits are lost; work
// must return soon after, and not release p. Do returns the error of Acquire,
// or that of work, with the loss of the permits or a failed Release joined to
// it.
func (s *Semaphore) Do(
	ctx context.Context, n int, work func(ctx context.Context, p *Permit) error,
) error {
	if work == nil {
		return fmt.Errorf("baton: %w: nil work for semaphore %q", coordinator.ErrInvalid, s.Name())
	}
	p, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	return p.hold.Do(ctx, "release", func(ctx context.Context) error { return work(ctx, p) })
}

// enter takes a channel with one slot, if it is free also when ctx has ended.
// The caller releases it by receiving.
func enter(ctx context.Context, busy chan struct{}) error {
	select {
	case busy <- struct{}{}:
		return nil
	default:
	}
	select {
	case busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
