package cli

import (
	"context"
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

// hold is what the holds of all recipes have in common.
type hold interface {
	Context() context.Context
	Deadline() time.Time
	Err() error
	Session() string
	Sequencer(ctx context.Context) (fence.Sequencer, error)
	Token() coordinator.Token
}

// grant is a hold, how it is given back, and what the command's environment says of it besides.
type grant struct {
	hold
	release func(context.Context) error
	env     []string
}

// recipe is how to get a hold.
type recipe struct {
	kind string
	op   string
	// on returns what takes the hold of a name. It does no I/O.
	on func(c *coordinator.Client, name string) (taker, error)
}

// taker takes one hold.
type taker struct {
	wait, try func(context.Context) (*grant, error)
}

// mutexRecipe and those below take their options from the flags.
func mutexRecipe(f *runFlags) recipe {
	return recipe{kind: "mutex", op: "lock", on: func(c *coordinator.Client, name string) (taker, error) {
		opts := []mutex.Option{mutex.WithPayload([]byte(f.payload))}
		if f.lockDelay != 0 {
			opts = append(opts, mutex.WithLockDelay(f.lockDelay))
		}
		m, err := mutex.New(c, name, opts...)
		if err != nil {
			return taker{}, err
		}
		granted := func(l *mutex.Lock, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			return &grant{hold: l, release: l.Unlock}, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) { return granted(m.Lock(ctx)) },
			try:  func(ctx context.Context) (*grant, error) { return granted(m.TryLock(ctx)) },
		}, nil
	}}
}

func rwlockRecipe(f *runFlags, write bool) recipe {
	op := "rlock"
	if write {
		op = "wlock"
	}
	return recipe{kind: "rwlock", op: op, on: func(c *coordinator.Client, name string) (taker, error) {
		l, err := rwlock.New(c, name, rwlock.WithPayload([]byte(f.payload)))
		if err != nil {
			return taker{}, err
		}
		wait, try := l.RLock, l.TryRLock
		if write {
			wait, try = l.Lock, l.TryLock
		}
		granted := func(l *rwlock.Lock, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			return &grant{hold: l, release: l.Unlock}, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) { return granted(wait(ctx)) },
			try:  func(ctx context.Context) (*grant, error) { return granted(try(ctx)) },
		}, nil
	}}
}

func semaphoreRecipe(f *runFlags, n, limit int, numbered bool) recipe {
	return recipe{kind: "semaphore", op: "sem", on: func(c *coordinator.Client, name string) (taker, error) {
		s, err := semaphore.New(c, name, limit, semaphore.WithPayload([]byte(f.payload)))
		if err != nil {
			return taker{}, err
		}
		granted := func(ctx context.Context, p *semaphore.Permit, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			g := &grant{hold: p, release: p.Release, env: []string{"BATON_PERMITS=" + strconv.Itoa(n)}}
			if !numbered {
				return g, nil
			}
			slots, err := p.Slots(ctx)
			if err != nil {
				_ = p.Release(ctx) // and if that fails, it ends with the session, as this process does
				return nil, err
			}
			words := make([]string, len(slots))
			for i, slot := range slots {
				words[i] = strconv.Itoa(slot)
			}
			g.env = append(g.env, "BATON_SLOTS="+strings.Join(words, " "))
			return g, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) {
				p, err := s.Acquire(ctx, n)
				return granted(ctx, p, err)
			},
			try: func(ctx context.Context) (*grant, error) {
				p, err := s.TryAcquire(ctx, n)
				return granted(ctx, p, err)
			},
		}, nil
	}}
}

func electionRecipe(f *runFlags, value string) recipe {
	return recipe{kind: "election", op: "elect", on: func(c *coordinator.Client, name string) (taker, error) {
		var opts []election.Option
		if f.lockDelay != 0 {
			opts = append(opts, election.WithLockDelay(f.lockDelay))
		}
		e, err := election.New(c, name, opts...)
		if err != nil {
			return taker{}, err
		}
		if value == "" {
			value = c.Identity()
		}
		granted := func(t *election.Term, err error) (*grant, error) {
			if err != nil {
				return nil, err
			}
			return &grant{hold: t, release: t.Resign, env: []string{"BATON_VALUE=" + value}}, nil
		}
		return taker{
			wait: func(ctx context.Context) (*grant, error) { return granted(e.Campaign(ctx, []byte(value))) },
			try:  func(ctx context.Context) (*grant, error) { return granted(e.TryCampaign(ctx, []byte(value))) },
		}, nil
	}}
}
