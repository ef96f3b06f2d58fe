package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// This file has semaphores on the layouts of Curator's InterProcessSemaphoreV2
// and Kazoo's Semaphore.
//
// There are two queues: of leases, one for each permit that is held, and of
// contenders, which is a mutex. The holder of the mutex creates its lease,
// waits until there are no more leases than the limit, and unlocks. So the
// leases do not grow while a contender counts them.

// The kinds of the two queues, and the mode in both.
const (
	locks  = "semaphore-locks"
	leases = "semaphore-leases"
	mode   = "x"
)

func newShared(c *coordinator.Client, name string, limit int, opts []Option) (*Semaphore, error) {
	// A long hold of the mutex only means that no lease is free.
	mutex, err := recipes.NewQueue(c, locks, name,
		append(slices.Clone(opts), recipes.WithHoldWarning(0), recipes.WithMaxHold(0))...)
	if err != nil {
		return nil, err
	}
	queue, err := recipes.NewQueue(c, leases, name, opts...)
	if err == nil {
		err = recipes.RefuseDeadlockError(queue, "semaphore")
	}
	if err != nil {
		return nil, err
	}
	s := &Semaphore{queue: queue, locks: mutex}
	s.limit.Store(int64(limit))
	return s, nil
}

// notShared is the error of operations that only Baton's own layout supports.
func (s *Semaphore) notShared(op, why string) error {
	return recipes.Describe(context.Background(), op, s.Name(),
		fmt.Errorf("%w: other clients use the semaphore too: %s", coordinator.ErrInvalid, why))
}

// sharedLimit returns the limit given to New, after comparing it with the
// stored limit if the layout has one.
func (s *Semaphore) sharedLimit(ctx context.Context) (int, error) {
	limit := int(s.limit.Load())
	for {
		stored, missing, err := s.storedShared(ctx)
		if err == nil && missing && limit != Stored {
			err = s.queue.SetRecord(ctx, []byte(strconv.Itoa(limit)), 0)
			if recipes.Overtaken(ctx, err) {
				continue
			}
			stored = limit
		}
		switch {
		case err != nil:
			return 0, err
		case limit == Stored && stored == 0:
			return 0, ErrNoLimit
		case limit == Stored:
			return stored, nil
		case stored != 0 && stored != limit:
			return 0, &LimitError{Name: s.Name(), Asked: limit, Stored: stored}
		}
		return limit, nil
	}
}

// storedShared reads the limit: 0 if none is stored, and then missing says
// whether the layout stores limits. Like the other client it ignores a record
// that is not a number.
func (s *Semaphore) storedShared(ctx context.Context) (limit int, missing bool, err error) {
	r, err := s.queue.Record(ctx)
	switch {
	case errors.Is(err, coordinator.ErrInvalid):
		return 0, false, nil
	case err != nil || r.Version == 0:
		return 0, err == nil, err
	}
	if n, err := strconv.Atoi(string(r.Value)); err == nil && n > 0 {
		return n, false, nil
	}
	return 0, false, nil
}

// within admits a lease if there are no more leases than the limit. It counts
// all of them, since only the holder of the mutex creates one.
func within(limit int) recipes.Rule {
	return func(others []driver.Place) recipes.Verdict {
		if len(others) < limit {
			return recipes.Verdict{Admitted: true}
		}
		return recipes.Verdict{Watch: others}
	}
}

func (s *Semaphore) acquireShared(ctx context.Context, n int, r recipes.Request) (*Permit, error) {
	if n != 1 {
		return nil, s.notShared(r.Op, "it gives one permit at a time")
	}
	limit, err := s.sharedLimit(ctx)
	if err != nil {
		return nil, recipes.Describe(ctx, r.Op, s.Name(), err)
	}
	r.Mode, r.Fresh = mode, true
	lock, err := s.lockShared(ctx, limit, r)
	if err != nil {
		return nil, err
	}
	// Do not wait for a lease after the lock was lost.
	bound, stop := lock.Under(ctx)
	defer stop()
	r.Rule = within(limit)
	lease, err := s.queue.Acquire(bound, r)
	if err == nil {
		if err = lock.Check(ctx); err != nil { // another contender may have counted too
			err = errors.Join(recipes.Describe(ctx, r.Op, s.Name(), err), lease.Release(ctx))
		}
	}
	released := lock.Release(ctx)
	switch {
	case err != nil:
		return nil, err
	case released != nil && !coordinator.MayHaveApplied(released):
		return nil, errors.Join(recipes.Describe(ctx, r.Op, s.Name(), released), lease.Release(ctx))
	}
	return s.permit(lease, 1), nil
}

// tryBound is how long a try waits for contenders that are acquiring.
const tryBound = time.Second

// lockShared locks the contenders' mutex. Each acquisition holds it for some
// requests, so a try that fails at once when it is locked would fail although
// permits are free. A contender that waits for a lease holds it, too, for as
// long as that takes: then no permit is free, and the try fails at once.
func (s *Semaphore) lockShared(ctx context.Context, limit int, r recipes.Request) (*recipes.Hold, error) {
	lock, taken := s.locks.Acquire(ctx, r)
	if !r.Try || !errors.Is(taken, coordinator.ErrTaken) {
		return lock, taken
	}
	held, err := s.queue.List(ctx, func(string) recipes.Rule { return within(limit) })
	if err != nil || len(held) >= limit {
		return nil, taken
	}
	bound, stop := context.WithTimeout(ctx, tryBound)
	defer stop()
	r.Try = false
	lock, err = s.locks.Acquire(bound, r)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return nil, taken
	}
	return lock, err
}

// listShared returns the leases, and behind them the contenders for the mutex.
// Its holder may be among both.
func (s *Semaphore) listShared(ctx context.Context) (Listing, error) {
	var l Listing
	var err error
	if l.Limit, err = s.sharedLimit(ctx); err != nil {
		return l, recipes.Describe(ctx, "list", s.Name(), err)
	}
	held, err := s.queue.List(ctx, func(string) recipes.Rule { return within(l.Limit) })
	if err != nil {
		return l, err
	}
	waiting, err := s.locks.List(ctx, func(string) recipes.Rule {
		return func([]driver.Place) recipes.Verdict { return recipes.Verdict{} }
	})
	if err != nil {
		return l, err
	}
	for _, c := range slices.Concat(held, waiting) {
		l.Contenders = append(l.Contenders, Contender{c, 1})
		if c.Holding {
			l.Held++
		}
	}
	return l, nil
}
