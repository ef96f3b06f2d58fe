package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// hold has the methods common to the holds of all recipes.
type hold interface {
	Context() context.Context
	Deadline() time.Time
	Err() error
}

// fenced is a hold of one name, with a fencing token.
type fenced interface {
	hold
	Session() string
	Sequencer(ctx context.Context) (fence.Sequencer, error)
	Token() coordinator.Token
}

// grant is a hold with its release, and the variables that it adds to the
// command's environment.
type grant struct {
	hold
	release func(context.Context) error
	environ func(context.Context) ([]string, error)
}

// taker acquires holds of the names of a command line.
type taker struct {
	wait, try func(context.Context) (*grant, error)
}

// opener returns the taker of names, of which all kinds but a mutex have one.
// It does no I/O.
type opener func(c *coordinator.Client, names []string) (taker, error)

// newTaker makes a taker from a recipe's methods.
func newTaker[H hold](
	wait, try func(context.Context) (H, error), release func(H, context.Context) error,
	environ func(context.Context, H) ([]string, error),
) taker {
	granted := func(take func(context.Context) (H, error)) func(context.Context) (*grant, error) {
		return func(ctx context.Context) (*grant, error) {
			h, err := take(ctx)
			if err != nil {
				return nil, err
			}
			return &grant{
				hold:    h,
				release: func(ctx context.Context) error { return release(h, ctx) },
				environ: func(ctx context.Context) ([]string, error) { return environ(ctx, h) },
			}, nil
		}
	}
	return taker{wait: granted(wait), try: granted(try)}
}

// variables describes a hold in the environment. Their names end in suffix.
func variables(ctx context.Context, name, suffix string, h fenced) ([]string, error) {
	env := []string{
		"BATON_SESSION=" + h.Session(),
		"BATON_NAME" + suffix + "=" + name,
		"BATON_TOKEN" + suffix + "=" + h.Token().String(),
	}
	seq, err := h.Sequencer(ctx)
	switch {
	case err == nil:
		return append(env, "BATON_SEQUENCER"+suffix+"="+seq.String()), nil
	case errors.Is(err, coordinator.ErrInvalid): // a queue shared with other clients has none
		return env, nil
	}
	return nil, err
}

// variablesOf is variables of a name, without a suffix.
func variablesOf[H fenced](name string) func(context.Context, H) ([]string, error) {
	return func(ctx context.Context, h H) ([]string, error) { return variables(ctx, name, "", h) }
}

func (f *runFlags) mutex(c *coordinator.Client, names []string) (taker, error) {
	opts := []mutex.Option{mutex.WithPayload([]byte(f.payload))}
	if f.lockDelay != 0 {
		opts = append(opts, mutex.WithLockDelay(f.lockDelay))
	}
	mutexes := make([]*mutex.Mutex, len(names))
	members := make([]multilock.Member, len(names))
	for i, name := range names {
		var err error
		if mutexes[i], err = mutex.New(c, name, opts...); err != nil {
			return taker{}, err
		}
		members[i] = multilock.Mutex(c, name, opts...)
	}
	if m := mutexes[0]; len(names) == 1 {
		return newTaker(m.Lock, m.TryLock, (*mutex.Lock).Unlock, variablesOf[*mutex.Lock](m.Name())), nil
	}
	set, err := multilock.New(members...)
	if err != nil {
		return taker{}, err
	}
	hold := func(take func(context.Context) (*multilock.Lock, error)) func(context.Context) (*locks, error) {
		return func(ctx context.Context) (*locks, error) {
			l, err := take(ctx)
			if err != nil {
				return nil, err
			}
			return newLocks(ctx, l, mutexes)
		}
	}
	return newTaker(hold(set.Lock), hold(set.TryLock), (*locks).Unlock,
		func(ctx context.Context, l *locks) ([]string, error) { return l.variables(ctx, names) }), nil
}

// locks are mutexes that are held together. All are of one session.
type locks struct {
	*multilock.Lock
	each []*mutex.Lock // in the order of the command line
}

// newLocks enters each of the mutexes that l holds again, without a request.
func newLocks(ctx context.Context, l *multilock.Lock, mutexes []*mutex.Mutex) (*locks, error) {
	all := &locks{Lock: l}
	for _, m := range mutexes {
		one, err := m.TryLock(l.Context())
		if err != nil {
			return nil, errors.Join(err, all.Unlock(ctx))
		}
		all.each = append(all.each, one)
	}
	return all, nil
}

// Deadline is that of the session, also after a name was lost. That of the set
// is then over, and the command would have no time to end.
func (l *locks) Deadline() time.Time { return l.each[0].Deadline() }

// Unlock releases the names at once. Its error is that of the set.
func (l *locks) Unlock(ctx context.Context) error {
	for _, one := range l.each {
		_ = one.Unlock(ctx) // sends nothing: the set holds too
	}
	return l.Lock.Unlock(ctx)
}

// variables numbers the variables of the names.
func (l *locks) variables(ctx context.Context, names []string) (all []string, err error) {
	for i, one := range l.each {
		env, err := variables(ctx, names[i], "_"+strconv.Itoa(i+1), one)
		if err != nil {
			return nil, err
		}
		all = append(all, env...)
	}
	return all, nil
}

func (f *runFlags) readLock(c *coordinator.Client, names []string) (taker, error) {
	l, err := rwlock.New(c, names[0], rwlock.WithPayload([]byte(f.payload)))
	if err != nil {
		return taker{}, err
	}
	return newTaker(l.RLock, l.TryRLock, (*rwlock.Lock).Unlock, variablesOf[*rwlock.Lock](l.Name())), nil
}

func (f *runFlags) writeLock(c *coordinator.Client, names []string) (taker, error) {
	l, err := rwlock.New(c, names[0], rwlock.WithPayload([]byte(f.payload)))
	if err != nil {
		return taker{}, err
	}
	return newTaker(l.Lock, l.TryLock, (*rwlock.Lock).Unlock, variablesOf[*rwlock.Lock](l.Name())), nil
}

func (f *runFlags) semaphore(c *coordinator.Client, names []string) (taker, error) {
	limit := f.limit
	if f.setLimit {
		if limit == semaphore.Stored {
			return taker{}, usage(errors.New("--set-limit needs --limit"))
		}
		limit = semaphore.Set(limit)
	}
	s, err := semaphore.New(c, names[0], limit, semaphore.WithPayload([]byte(f.payload)))
	if err != nil {
		return taker{}, err
	}
	return newTaker(
		func(ctx context.Context) (*semaphore.Permit, error) {
			return s.Acquire(ctx, f.permits)
		},
		func(ctx context.Context) (*semaphore.Permit, error) {
			return s.TryAcquire(ctx, f.permits)
		},
		(*semaphore.Permit).Release,
		func(ctx context.Context, p *semaphore.Permit) ([]string, error) {
			env, err := variables(ctx, s.Name(), "", p)
			env = append(env, "BATON_PERMITS="+strconv.Itoa(f.permits))
			if err != nil || !f.slots {
				return env, err
			}
			slots, err := p.Slots(ctx)
			return append(env, "BATON_SLOTS="+strings.Trim(fmt.Sprint(slots), "[]")), err
		}), nil
}

func (f *runFlags) election(c *coordinator.Client, names []string) (taker, error) {
	var opts []election.Option
	if f.lockDelay != 0 {
		opts = append(opts, election.WithLockDelay(f.lockDelay))
	}
	e, err := election.New(c, names[0], opts...)
	if err != nil {
		return taker{}, err
	}
	value := cmp.Or(f.value, c.Identity())
	return newTaker(
		func(ctx context.Context) (*election.Term, error) {
			return e.Campaign(ctx, []byte(value))
		},
		func(ctx context.Context) (*election.Term, error) {
			return e.TryCampaign(ctx, []byte(value))
		},
		(*election.Term).Resign,
		func(ctx context.Context, t *election.Term) ([]string, error) {
			env, err := variables(ctx, e.Name(), "", t)
			return append(env, "BATON_VALUE="+value), err
		}), nil
}

// member is the taker of a membership, which nobody waits for.
func (f *runFlags) member(c *coordinator.Client, names []string) (taker, error) {
	g, err := group.New(c, names[0])
	if err != nil {
		return taker{}, err
	}
	value := cmp.Or(f.value, c.Identity())
	join := func(ctx context.Context) (*group.Member, error) { return g.Join(ctx, []byte(value)) }
	return newTaker(join, join, (*group.Member).Leave,
		func(_ context.Context, m *group.Member) ([]string, error) {
			return []string{"BATON_NAME=" + g.Name(), "BATON_TOKEN=" + m.Token().String(),
				"BATON_VALUE=" + value}, nil
		}), nil
}
