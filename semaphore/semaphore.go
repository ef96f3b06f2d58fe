// Package semaphore limits how much work all processes together do at once.
//
//	s, err := semaphore.New(client, "reports", semaphore.Set(10)) // at a time, everywhere
//	...
//	err = s.Do(ctx, 1, func(ctx context.Context, p *semaphore.Permit) error {
//		return report(ctx) // ctx ends if the permit is lost
//	})
//
// # Guaranteed
//
// A semaphore has a name and n permits. All processes together hold at most n:
// the context of a lost permit ends before another contender can hold it. Calls
// are served in the order in which the service received them. A call gets all
// permits that it asks for, or waits: a small request does not overtake a large
// one. When permits are released, or a session ends, the first waiter is
// admitted if its permits fit, then the next.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can continue its
// work although another process has its permits by then. Several permits are
// held at once, so a resource cannot refuse smaller tokens. Check the
// [Permit.Sequencer] with etcd.Guard, zookeeper.Guard or Client.Check: see
// package coordinator/fence. If an operator removes the holder's entry or ends
// its session, another contender may have the permits just before the holder's
// context ends. If the limit is lowered, holders keep their permits, so more
// than the new limit may be held for a while.
//
// A semaphore is not reentrant: Acquire with a permit's context waits like any
// other call, so callers that hold permits and acquire more can deadlock. With
// layout=curator or layout=kazoo in the URL, n must be 1, and there is no Slots
// and no SetLimit: see docs/interop.md.
package semaphore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// The kinds of the queues: of contenders for permits, and of the queue whose
// record has the numbers of Slots.
const (
	kind  = "semaphore"
	slots = "slots"
)

// Stored passed to [New] means the limit that the service stores. If there is
// none, Acquire returns [ErrNoLimit].
const Stored = math.MinInt32

// Set returns a limit for New: [Stored], after the first Acquire has stored n.
// So the process that started last decides: a deploy can change the limit.
func Set(n int) int {
	if n < 1 || n > MaxLimit {
		return n // New returns an error
	}
	return Stored + n // no computation of a limit gives it by chance
}

// Semaphore is a semaphore that the service stores: Semaphores with the same
// name, service and namespace share their permits. It is safe for concurrent
// use.
type Semaphore struct {
	queue   *recipes.Queue
	slots   *recipes.Queue
	locks   *recipes.Queue // nil, unless other clients use the semaphore too
	limit   atomic.Int64   // may be Stored
	initial atomic.Int64   // of Set; 0 without
	unset   atomic.Bool    // initial has still to be stored
	setting chan struct{}  // held, by sending to it, while SetLimit runs
	changes atomic.Int64   // SetLimits that have begun and that have ended; odd while one runs
}

// Option changes a default of a Semaphore.
type Option = recipes.Option

// WithIdentity changes the identity in listings: see [recipes.WithIdentity].
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// WithPayload adds up to 4096 bytes that List and `baton inspect` show.
func WithPayload(b []byte) Option { return recipes.WithPayload(b) }

// WithHoldWarning warns of long holds: see [recipes.WithHoldWarning].
func WithHoldWarning(d time.Duration) Option { return recipes.WithHoldWarning(d) }

// WithMaxHold warns, too, and ends the permit's context with the cause
// [recipes.ErrHeldTooLong]. It does not release the permit: Err returns nil.
func WithMaxHold(d time.Duration) Option { return recipes.WithMaxHold(d) }

// New returns the semaphore of a name (see [coordinator.CheckName]). New does
// no I/O. The limit is [Stored]; [Set] of a number; or a number from 1 to
// [MaxLimit], on which all callers must agree: then Acquire stores it, or
// returns a [*LimitError] if another limit is stored. Share a Semaphore: its
// first Acquire in each session sends one more request.
func New(c *coordinator.Client, name string, limit int, opts ...Option) (*Semaphore, error) {
	initial := 0
	if limit > Stored && limit <= Stored+MaxLimit { // of Set
		limit, initial = Stored, limit-Stored
	}
	if limit != Stored {
		if err := check(name, "limit", limit, MaxLimit); err != nil {
			return nil, fmt.Errorf("%w, or semaphore.Stored", err)
		}
	}
	if c != nil && c.Shared() {
		return newShared(c, name, cmp.Or(initial, limit), opts)
	}
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err != nil {
		return nil, err
	}
	if err := recipes.RefuseLockDelay(queue, "semaphore"); err != nil {
		return nil, err
	}
	err = cmp.Or(recipes.RefuseRetain(queue, "semaphore"), recipes.RefuseDeadlockError(queue, "semaphore"))
	if err != nil {
		return nil, err
	}
	numbers, err := recipes.NewQueue(c, slots, name)
	if err != nil {
		return nil, err
	}
	s := &Semaphore{queue: queue, slots: numbers, setting: make(chan struct{}, 1)}
	s.limit.Store(int64(limit))
	s.initial.Store(int64(initial))
	s.unset.Store(initial != 0)
	return s, nil
}

func check(name, what string, n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("baton: %w: %s %d for semaphore %q: want 1 to %d",
			coordinator.ErrInvalid, what, n, name, most)
	}
	return nil
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.queue.Name() }

// Acquire blocks until the caller holds n permits. The caller must Release
// them. On failure nothing is held, and the call's entry is removed, in the
// background if necessary. Errors: the cause of ctx, in a [recipes.WaitError]
// if the call was queued, and with coordinator.ErrUnavailable if the service
// did not answer; ErrSessionLost;
// ErrRemoved; ErrRefused; ErrClosed; ErrInvalid, if n is not from 1 to the
// limit, or the service does not accept the TTL; [*LimitError]; [ErrNoLimit].
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Permit, error) {
	return s.acquire(ctx, n, recipes.Request{Op: "acquire"})
}

// TryAcquire is like Acquire, but does not wait for other contenders. It still
// waits for the service's answer until ctx ends. If fewer than n permits are
// free or a contender waits, it returns a [*recipes.TakenError]. It names the
// first in the queue; errors.Is(err, coordinator.ErrTaken) is true. For a
// quarter of a second after SetLimit it may fail although permits are free.
// On a semaphore that other clients share, where each acquisition holds the
// semaphore's own mutex, it may wait for that, for one second at most.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Permit, error) {
	return s.acquire(ctx, n, recipes.Request{Op: "try-acquire", Try: true})
}

func (s *Semaphore) acquire(ctx context.Context, n int, r recipes.Request) (*Permit, error) {
	most := MaxLimit
	if limit := int(s.limit.Load()); limit != Stored {
		most = limit
	} else if s.unset.Load() {
		most = int(s.initial.Load())
	}
	if err := check(s.Name(), "permits", n, most); err != nil {
		return nil, err
	}
	if s.locks != nil {
		return s.acquireShared(ctx, n, r)
	}
	if s.unset.Load() {
		if err := s.storeInitial(ctx); err != nil {
			return nil, recipes.Describe(ctx, r.Op, s.Name(), err)
		}
	}
	r.Fresh, r.Terms = true, s.terms(n)
	h, err := s.queue.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.permit(h, n), nil
}

// Do acquires n permits, calls work, and releases them, also if work panics.
// The context of work ends when ctx ends or the permits are lost or released by
// work itself; work must then return. Do returns the error of Acquire or of
// work, joined with the loss or the error of Release.
func (s *Semaphore) Do(ctx context.Context, n int, work func(context.Context, *Permit) error) error {
	if work == nil {
		return fmt.Errorf("baton: %w: nil work for semaphore %q", coordinator.ErrInvalid, s.Name())
	}
	p, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	return p.hold.Do(ctx, "release", func(ctx context.Context) error { return work(ctx, p) })
}

// enter locks a channel of capacity 1, also after the end of ctx if it is
// free. The caller unlocks it by receiving.
func enter(ctx context.Context, lock chan struct{}) error {
	select {
	case lock <- struct{}{}:
		return nil
	default:
	}
	select {
	case lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
