package multilock

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// Member is one of the locks of a [Set].
type Member struct {
	client  *coordinator.Client
	queue   driver.Queue
	acquire func(ctx context.Context, try bool) (held, error)
	err     error // why it cannot be made
}

func (m Member) same(other Member) bool { return m.client == other.client && m.queue == other.queue }

// handle is what the handles of all recipes have in common.
type handle interface {
	Context() context.Context
	Err() error
	Deadline() time.Time
	Token() coordinator.Token
}

// held is a member that is held; zero if it is not.
type held struct {
	handle
	release func(ctx context.Context) error
	stop    func() bool // the report of a loss
}

func member[H handle](
	c *coordinator.Client, kind, name string, err error,
	lock, try func(context.Context) (H, error), release func(H, context.Context) error,
) Member {
	m := Member{client: c, err: err}
	if err == nil {
		m.queue, m.err = engine.Of(c).Queue(kind, name)
	}
	m.acquire = func(ctx context.Context, once bool) (held, error) {
		acquire := lock
		if once {
			acquire = try
		}
		h, err := acquire(ctx)
		if err != nil {
			return held{}, err
		}
		return held{handle: h, release: func(ctx context.Context) error { return release(h, ctx) }}, nil
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
	case n < 1 || limit != semaphore.Stored && n > limit:
		err = invalid("%d permits of semaphore %q with limit %d", n, name, limit)
	case c.Shared():
		err = invalid("permits of semaphore %q in a shared layout", name)
	}
	acquire := func(ctx context.Context) (*semaphore.Permit, error) { return s.Acquire(ctx, n) }
	try := func(ctx context.Context) (*semaphore.Permit, error) { return s.TryAcquire(ctx, n) }
	return member(c, "semaphore", name, err, acquire, try, (*semaphore.Permit).Release)
}
