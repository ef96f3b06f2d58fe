// Package multilock holds several locks at once: all of them, or none.
//
//	set, err := multilock.New(
//		multilock.Mutex(client, "account-17"),
//		multilock.Mutex(client, "account-42"),
//	)
//	err = set.Do(ctx, func(ctx context.Context, l *multilock.Lock) error {
//		return transfer(ctx, l.Tokens()) // ctx ends if either lock is lost
//	})
//
// # Guaranteed
//
// All callers acquire members in one order, whatever order New was given: by
// service, recipe and name. So callers of sets that overlap do not deadlock.
// Members may be of one client or of several. The context of a held set ends
// when a member is lost. Each member has a fencing token of its own.
//
// # Not guaranteed
//
// A caller that waits for one member holds the earlier ones, so one long hold
// also blocks the other names of each set that waits. A caller that holds a
// lock or a set and then locks another set leaves the order, and can deadlock
// with other callers.
package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/internal/held"
)

// Set is several locks that are acquired together. It has no state, and is safe
// for concurrent use.
type Set struct {
	members     []Member
	manyClients bool
}

// New returns the set of members. It does no I/O. No member, a member twice, or
// a member that breaks a rule of its recipe is coordinator.ErrInvalid.
func New(members ...Member) (*Set, error) {
	if len(members) == 0 {
		return nil, invalid("a set without members")
	}
	s := &Set{members: slices.Clone(members)}
	type one struct {
		client *coordinator.Client
		queue  driver.Queue
	}
	known := make(map[one]bool)
	for i, m := range s.members {
		switch {
		case m.err != nil:
			return nil, m.err
		case m.client == nil:
			return nil, invalid("member %d was made by no function of this package", i)
		case known[one{m.client, m.queue}]:
			return nil, invalid("%s is in the set twice", m.queue)
		}
		known[one{m.client, m.queue}] = true
		s.manyClients = s.manyClients || m.client != s.members[0].client
	}
	return s, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("baton: multilock: %w: %w", coordinator.ErrInvalid, fmt.Errorf(format, args...))
}

// Lock waits until the set is held. It acquires one member after the other, and
// waits in the queue of each. Members that ctx carries are re-entered, except
// permits.
//
// On success the caller must Unlock. On failure nothing is held: the acquired
// members are released, which may take two seconds after the end of ctx, and
// then continues in the background. The error is that of the member that failed
// or was lost meanwhile.
//
// With several clients, the first call of a session reads the identity of its
// service, since the order depends on it. If one of them shares its queues with
// other clients, by a layout, Lock returns coordinator.ErrInvalid then.
func (s *Set) Lock(ctx context.Context) (*Lock, error) { return s.acquire(ctx, false) }

// TryLock is Lock that does not wait for a member that is held or queued for:
// then errors.Is(err, coordinator.ErrTaken) is true.
func (s *Set) TryLock(ctx context.Context) (*Lock, error) { return s.acquire(ctx, true) }

// Do locks, calls work, and unlocks, also if work panics. The context of work
// ends when ctx ends or a member is lost; work must then return. Do returns the
// error of Lock or of work, joined with the loss or the error of Unlock. Work
// may itself unlock: its context ends, and Do does not unlock again.
func (s *Set) Do(ctx context.Context, work func(context.Context, *Lock) error) error {
	if work == nil {
		return invalid("nil work")
	}
	l, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	return l.holds.Do(ctx, l.Unlock, func(ctx context.Context) error { return work(ctx, l) })
}

// acquire takes the members in order. When one is lost, the wait for the next
// one ends.
func (s *Set) acquire(ctx context.Context, try bool) (*Lock, error) {
	order, err := s.order(ctx)
	if err != nil {
		return nil, err
	}
	n := len(s.members)
	l := &Lock{holds: held.New(ctx, n, n, func(i int) string { return s.members[i].label() })}
	done := false
	defer func() {
		if !done { // also if an observer panics
			_ = l.Unlock(ctx)
		}
	}()
	for _, i := range order {
		wait, stop := l.holds.Wait(recipes.DeferMaxHold(ctx))
		m := s.members[i]
		h, release, err := m.acquire(wait, try)
		stop()
		if err == nil {
			l.holds.Add(i, h, release)
		}
		switch lost := l.holds.Over(); {
		case lost != nil && (err == nil || ctx.Err() == nil):
			return nil, lost // also why the wait ended
		case err != nil && s.manyClients && ctx.Err() == nil:
			return nil, fmt.Errorf("%s: %w", m.client, err)
		case err != nil:
			return nil, err
		}
	}
	if err := l.holds.Grant(); err != nil {
		return nil, err
	}
	done = true
	return l, nil
}

// order returns the members' indexes in the order that all callers use.
func (s *Set) order(ctx context.Context) ([]int, error) {
	type one struct {
		service string
		queue   driver.Queue
	}
	known := make(map[one]int)
	services := make([]string, len(s.members))
	order := make([]int, len(s.members))
	for i, m := range s.members {
		if order[i] = i; !s.manyClients {
			continue
		}
		session, err := m.client.Session(ctx)
		if err == nil {
			services[i], err = session.Service(ctx)
		}
		if err != nil {
			return nil, err
		}
		if j, twice := known[one{services[i], m.queue}]; twice {
			return nil, invalid("members %d and %d are both %s on one service", j, i, m.queue)
		}
		known[one{services[i], m.queue}] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(services[i], services[j]),
			cmp.Compare(s.members[i].queue, s.members[j].queue))
	})
	return order, nil
}

// Lock is a handle of a held set. It is safe for concurrent use, and must not
// be copied.
type Lock struct {
	holds    *held.Holds
	unlocked atomic.Bool
}

// Unlock releases all members at once. If one was lost before, or its release
// failed, the error says so. A second Unlock returns coordinator.ErrNotHeld. A
// release that failed continues in the background. If ctx has already ended,
// Unlock tries for up to two seconds.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.unlocked.Swap(true) {
		return fmt.Errorf("baton: multilock: %w", coordinator.ErrNotHeld)
	}
	return errors.Join(l.holds.Release(ctx)...)
}

// Context ends when the hold does: when it is unlocked, with
// coordinator.ErrReleased as its cause, or when a member is lost. It re-enters
// the members, except permits.
func (l *Lock) Context() context.Context { return l.holds.Context() }

// Err returns nil while all members are held, by the clock, and then why not. A
// member that is held for longer than its WithMaxHold counts as lost; that time
// starts when the set is held.
func (l *Lock) Err() error { return l.holds.Err() }

// Deadline returns the time at which the set counts as lost if no renewal is
// acknowledged before it.
func (l *Lock) Deadline() time.Time { return l.holds.Deadline() }

// Tokens returns the fencing tokens of the members, in the order that New was
// given them. A resource refuses a request if one of them is too small. Tokens
// of different names cannot be compared.
func (l *Lock) Tokens() []coordinator.Token { return l.holds.Tokens() }
