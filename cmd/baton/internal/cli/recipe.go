package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// hold has the methods common to the holds of all recipes.
type hold interface {
	Context() context.Context
	Deadline() time.Time
	Err() error
	Session() string
	Sequencer(ctx context.Context) (fence.Sequencer, error)
	Token() coordinator.Token
}

// grant is a hold with its release.
type grant struct {
	hold
	release func(context.Context) error
}

// taker acquires holds of one name.
type taker struct {
	wait, try func(context.Context) (*grant, error)
	// environ returns the variables that this kind of hold adds to the
	// command's environment. It may be nil.
	environ func(context.Context, hold) ([]string, error)
}

// opener returns the taker of a name. It does no I/O.
type opener func(c *coordinator.Client, name string) (taker, error)

// newTaker makes a taker from a recipe's methods.
func newTaker[H hold](
	wait, try func(context.Context) (H, error), release func(H, context.Context) error,
) taker {
	granted := func(take func(context.Context) (H, error)) func(context.Context) (*grant, error) {
		return func(ctx context.Context) (*grant, error) {
			h, err := take(ctx)
			if err != nil {
				return nil, err
			}
			return &grant{h, func(ctx context.Context) error { return release(h, ctx) }}, nil
		}
	}
	return taker{wait: granted(wait), try: granted(try)}
}

func (f *runFlags) mutex(c *coordinator.Client, name string) (taker, error) {
	opts := []mutex.Option{mutex.WithPayload([]byte(f.payload))}
	if f.lockDelay != 0 {
		opts = append(opts, mutex.WithLockDelay(f.lockDelay))
	}
	m, err := mutex.New(c, name, opts...)
	if err != nil {
		return taker{}, err
	}
	return newTaker(m.Lock, m.TryLock, (*mutex.Lock).Unlock), nil
}

func (f *runFlags) readLock(c *coordinator.Client, name string) (taker, error) {
	l, err := rwlock.New(c, name, rwlock.WithPayload([]byte(f.payload)))
	if err != nil {
		return taker{}, err
	}
	return newTaker(l.RLock, l.TryRLock, (*rwlock.Lock).Unlock), nil
}

func (f *runFlags) writeLock(c *coordinator.Client, name string) (taker, error) {
	l, err := rwlock.New(c, name, rwlock.WithPayload([]byte(f.payload)))
	if err != nil {
		return taker{}, err
	}
	return newTaker(l.Lock, l.TryLock, (*rwlock.Lock).Unlock), nil
}

func (f *runFlags) semaphore(c *coordinator.Client, name string) (taker, error) {
	s, err := semaphore.New(c, name, f.limit, semaphore.WithPayload([]byte(f.payload)))
	if err != nil {
		return taker{}, err
	}
	t := newTaker(
		func(ctx context.Context) (*semaphore.Permit, error) {
			return s.Acquire(ctx, f.permits)
		},
		func(ctx context.Context) (*semaphore.Permit, error) {
			return s.TryAcquire(ctx, f.permits)
		},
		(*semaphore.Permit).Release)
	t.environ = func(ctx context.Context, h hold) ([]string, error) {
		env := []string{"BATON_PERMITS=" + strconv.Itoa(f.permits)}
		if !f.slots {
			return env, nil
		}
		slots, err := h.(*semaphore.Permit).Slots(ctx)
		return append(env, "BATON_SLOTS="+strings.Trim(fmt.Sprint(slots), "[]")), err
	}
	return t, nil
}

func (f *runFlags) election(c *coordinator.Client, name string) (taker, error) {
	var opts []election.Option
	if f.lockDelay != 0 {
		opts = append(opts, election.WithLockDelay(f.lockDelay))
	}
	e, err := election.New(c, name, opts...)
	if err != nil {
		return taker{}, err
	}
	value := cmp.Or(f.value, c.Identity())
	t := newTaker(
		func(ctx context.Context) (*election.Term, error) {
			return e.Campaign(ctx, []byte(value))
		},
		func(ctx context.Context) (*election.Term, error) {
			return e.TryCampaign(ctx, []byte(value))
		},
		(*election.Term).Resign)
	t.environ = func(context.Context, hold) ([]string, error) {
		return []string{"BATON_VALUE=" + value}, nil
	}
	return t, nil
}
