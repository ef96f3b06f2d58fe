package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// This file has semaphores that other clients use too, Curator's
// InterProcessSemaphoreV2 and Kazoo's Semaphore.
//
// There are two queues: of leases, one for each permit that is held, and of
// those who ask for one, which is a mutex. Whoever has that makes its lease,
// waits until there are no more than the limit, and gives the mutex back. So
// nobody makes a lease while another one looks at them.

// The kinds of the two queues, and the mode in both.
const (
	locks  = "semaphore-locks"
	leases = "semaphore-leases"
	mode   = "x"
)

func newShared(c *coordinator.Client, name string, limit int, opts []Option) (*Semaphore, error) {
	// To have that mutex for long means to wait for a lease.
	turns, err := recipes.NewQueue(c, locks, name,
		append(slices.Clone(opts), recipes.WithHoldWarning(0), recipes.WithMaxHold(0))...)
	if err != nil {
		return nil, err
	}
	queue, err := recipes.NewQueue(c, leases, name, opts...)
	if err != nil {
		return nil, err
	}
	s := &Semaphore{queue: queue, turns: turns}
	s.limit.Store(int64(limit))
	return s, nil
}

// notShared is the error of what only semaphores of Baton's own have.
func (s *Semaphore) notShared(op, why string) error {
	return recipes.Describe(context.Background(), op, s.Name(),
		fmt.Errorf("%w: other clients use the semaphore too: %s", coordinator.ErrInvalid, why))
}

// sharedLimit is the limit that the caller has in mind, after a look at what is
// stored, if the layout stores one.
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

// storedShared reads the limit, 0 if none is stored: then missing says that one
// could be. What is stored and is no number is something else, to the other
// client as well.
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

// within admits a lease when there are no more than the limit. It counts all,
// since nobody else makes one meanwhile.
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
	turn, err := s.turns.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	// The turn is over when somebody has removed it at the service, and then a
	// lease must not be waited for.
	bound, stop := turn.Under(ctx)
	defer stop()
	r.Rule = within(limit)
	lease, err := s.queue.Acquire(bound, r)
	if err == nil {
		if err = turn.Check(ctx); err != nil { // somebody else may have had it meanwhile
			err = errors.Join(recipes.Describe(ctx, r.Op, s.Name(), err), lease.Release(ctx))
		}
	}
	released := turn.Release(ctx)
	switch {
	case err != nil:
		return nil, err
	case released != nil && !coordinator.MayHaveApplied(released):
		return nil, errors.Join(recipes.Describe(ctx, r.Op, s.Name(), released), lease.Release(ctx))
	}
	return s.permit(lease, 1), nil
}

// listShared shows the leases, and behind them those who wait for their turn.
// Whoever has the turn and waits for a lease to go may be among both.
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
	waiting, err := s.turns.List(ctx, func(string) recipes.Rule {
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
