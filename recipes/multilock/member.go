package multilock

import (
	"context"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/internal/held"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

type release = func(ctx context.Context) error

// Member is one of the locks of a [Set].
type Member struct {
	client  *coordinator.Client
	queue   driver.Queue
	acquire func(ctx context.Context, try bool) (held.Handle, release, error)
	err     error // why it cannot be made
}

// label names the member in errors.
func (m Member) label() string { return string(m.queue) + " of " + m.client.String() }

func member[H held.Handle](
	c *coordinator.Client, kind, name string, err error,
	lock, try func(context.Context) (H, error), unlock func(H, context.Context) error,
) Member {
	m := Member{client: c, err: err}
	if err == nil {
		m.queue, m.err = engine.Of(c).Queue(kind, name)
	}
	m.acquire = func(ctx context.Context, once bool) (held.Handle, release, error) {
		acquire := lock
		if once {
			acquire = try
		}
		h, err := acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		return h, func(ctx context.Context) error { return unlock(h, ctx) }, nil
	}
	return m
}

// Mutex is the mutex of a name: see package mutex.
func Mutex(c *coordinator.Client, name string, opts ...recipes.Option) Member {
	m, err := mutex.New(c, name, opts...)
	return member(c, "mutex", name, err, m.Lock, m.TryLock, (*mutex.Lock).Unlock)
}

// Write is the write side of the read-write lock of a name: see package rwlock.
func Write(c *coordinator.Client, name string, opts ...recipes.Option) Member {
	l, err := rwlock.New(c, name, opts...)
	return member(c, "rwlock", name, err, l.Lock, l.TryLock, (*rwlock.Lock).Unlock)
}

// Read is the read side of the read-write lock of a name.
func Read(c *coordinator.Client, name string, opts ...recipes.Option) Member {
	l, err := rwlock.New(c, name, opts...)
	return member(c, "rwlock", name, err, l.RLock, l.TryRLock, (*rwlock.Lock).Unlock)
}

// Permits is n permits of the semaphore of a name and limit: see package
// semaphore. Permits of a layout shared with other clients cannot be members.
func Permits(
	c *coordinator.Client, name string, limit, n int, opts ...recipes.Option,
) Member {
	s, err := semaphore.New(c, name, limit, opts...)
	switch {
	case err != nil:
	case n < 1 || limit > 0 && n > limit: // negative are Stored and Set
		err = invalid("%d permits of semaphore %q with limit %d", n, name, limit)
	case c.Shared():
		err = invalid("permits of semaphore %q in a shared layout", name)
	}
	acquire := func(ctx context.Context) (*semaphore.Permit, error) { return s.Acquire(ctx, n) }
	try := func(ctx context.Context) (*semaphore.Permit, error) { return s.TryAcquire(ctx, n) }
	return member(c, "semaphore", name, err, acquire, try, (*semaphore.Permit).Release)
}
