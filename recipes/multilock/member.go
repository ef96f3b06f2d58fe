package multilock

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// Member is one of the locks of a [Set].
type Member struct {
	client    *coordinator.Client
	queue     string // the recipe's kind and the name
	lock, try func(ctx context.Context) (held, error)
	err       error // why it cannot be made
}

// handle is what the handles of all recipes have in common.
type handle interface {
	Context() context.Context
	Err() error
	Deadline() time.Time
	Token() coordinator.Token
}

// held is a member that is held.
type held struct {
	handle
	release func(ctx context.Context) error
}

func member[H handle](
	c *coordinator.Client, queue string, err error,
	lock, try func(context.Context) (H, error), release func(H, context.Context) error,
) Member {
	of := func(f func(context.Context) (H, error)) func(context.Context) (held, error) {
		return func(ctx context.Context) (held, error) {
			h, err := f(ctx)
			return held{h, func(ctx context.Context) error { return release(h, ctx) }}, err
		}
	}
	return Member{c, queue, of(lock), of(try), err}
}

// Mutex is the mutex of a name: see package mutex.
func Mutex(c *coordinator.Client, name string, opts ...recipes.Option) Member {
	m, err := mutex.New(c, name, opts...)
	return member(c, "mutex/"+name, err, m.Lock, m.TryLock, (*mutex.Lock).Unlock)
}

// Write is the write side of the read-write lock of a name: see package rwlock.
func Write(c *coordinator.Client, name string, opts ...recipes.Option) Member {
	l, err := rwlock.New(c, name, opts...)
	return member(c, "rwlock/"+name, err, l.Lock, l.TryLock, (*rwlock.Lock).Unlock)
}

// Read is the read side of the read-write lock of a name.
func Read(c *coordinator.Client, name string, opts ...recipes.Option) Member {
	l, err := rwlock.New(c, name, opts...)
	return member(c, "rwlock/"+name, err, l.RLock, l.TryRLock, (*rwlock.Lock).Unlock)
}

// Permits is n permits of the semaphore of a name and limit: see package
// semaphore.
func Permits(
	c *coordinator.Client, name string, limit, n int, opts ...recipes.Option,
) Member {
	s, err := semaphore.New(c, name, limit, opts...)
	acquire := func(ctx context.Context) (*semaphore.Permit, error) { return s.Acquire(ctx, n) }
	try := func(ctx context.Context) (*semaphore.Permit, error) { return s.TryAcquire(ctx, n) }
	return member(c, "semaphore/"+name, err, acquire, try, (*semaphore.Permit).Release)
}
