package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

// mutex is a round with a mutex.
func (a *actor) mutex(ctx context.Context, m *mutex.Mutex, generation int) bool {
	if !a.w.isEnding() {
		switch n := a.r.IntN(8); {
		case n == 0 && a.w.swarm.on("do"):
			do(ctx, a, "do", m.Do, func(ctx context.Context) (lock, error) { return m.Lock(ctx) },
				generation)
			return false
		case n == 1 && a.w.swarm.on("list"):
			_ = a.call(ctx, "list", 0, func(ctx context.Context) error {
				list, err := m.Contenders(ctx)
				a.w.say("%s: lists %d", a.label, len(list))
				return err
			})
			return false
		}
	}
	what, take := "lock", m.Lock
	if !a.w.isEnding() && a.does("try", 4) {
		what, take = "try-lock", m.TryLock
	}
	var l *mutex.Lock
	floor, asked := a.w.ask(a.label, a.name)
	err := a.call(ctx, what, 0, func(ctx context.Context) (err error) {
		l,
			err = take(ctx)
		return err
	})
	if err != nil {
		return false
	}
	x := a.held(l, true, 1, floor, asked, generation)
	held := []entered{{l, x}}
	for range a.times("re-enter") {
		a.dwell(l.Context())
		if again := a.enter(x, true, func() (lock,
			error) {
			return m.Lock(l.Context())
		}); again.lock != nil {
			held = append(held, again)
		}
	}
	a.dwell(l.Context())
	a.revive(x, true, generation, func(ctx context.Context) (lock, error) { return m.Lock(ctx) })
	return a.leaveAll(held)
}

// lock is a handle of a mutex or a read-write lock.
type lock interface {
	handleOf
	Unlock(context.Context) error
}

// entered is a handle of an actor's grant.
type entered struct {
	lock
	*handle
}

// enter re-enters a hold. It sends nothing, and cannot fail while the hold is
// alive.
func (a *actor) enter(x *handle, writes bool, take func() (lock, error)) entered {
	if x.ctx.Err() != nil {
		return entered{} // it would be queued
	}
	l, err := take()
	if err != nil {
		if x.ctx.Err() == nil {
			a.w.blame("%s: re-entering %d: %v", a.label, x.hold.token, err)
		}
		return entered{}
	}
	return entered{l, a.w.reentered(x, claim{name: a.name, who: a.label, token: l.Token(),
		session: l.Session(), ctx: l.Context(), also: []context.Context{derived(l.Context())},
		writes: writes})}
}

// revive acquires with the values of a lost hold's context, but without its
// end: there is nothing to re-enter, so the call is queued. take gets the bound
// of the wait.
func (a *actor) revive(x *handle, writes bool, generation int,
	take func(context.Context) (lock, error)) {
	if x.ctx.Err() == nil || !a.does("lock anew", 2) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), a.w.ttl/2)
	defer cancel()
	var l lock
	floor, asked := a.w.ask(a.label, a.name)
	err := a.call(ctx, "lock anew", 0,
		func(ctx context.Context) (err error) { l, err = take(ctx); return err })
	if err != nil {
		return
	}
	a.back(a.held(l, writes, 1, floor, asked, generation), "unlock", l.Unlock)
}

// leaveAll releases handles in any order.
func (a *actor) leaveAll(held []entered) bool {
	well := true
	for _, i := range a.r.Perm(len(held)) {
		well = a.back(held[i].handle, "unlock", held[i].Unlock) && well
		if a.r.IntN(2) == 0 {
			a.dwell(a.ctx)
		}
	}
	return well
}

// workTime bounds a call with work after the end of its context: the work
// releases its handles, and then the call does.
func workTime(w *world) time.Duration { return w.ttl + 5*time.Second }

// do runs work under a lock, and re-enters it.
func do[H handleOf](ctx context.Context, a *actor, what string,
	do func(context.Context, func(context.Context, H) error) error,
	again func(context.Context) (lock, error), generation int,
) {
	floor, asked := a.w.ask(a.label, a.name)
	writes := what != "read-do"
	worked := false
	var x *handle
	err := a.call(ctx, what, workTime(a.w), func(ctx context.Context) error {
		return do(ctx, func(inner context.Context, h H) error {
			worked = true
			if inner.Err() != nil {
				return context.Cause(inner)
			}
			l, err := again(inner)
			if err != nil {
				return err
			}
			x = a.held(inWork{h, inner}, writes, 1, floor, asked, generation)
			again := a.w.reentered(x, claim{name: a.name, who: a.label, token: l.Token(),
				session: l.Session(), ctx: l.Context(), writes: writes})
			a.dwell(inner)
			a.back(again, "unlock", l.Unlock)
			a.w.giving(x)
			return nil
		})
	}, coordinator.ErrNotHeld) // if an operator removed the entry
	if x != nil {
		a.w.gave(a.name, x, err)
	}
	if err == nil && !worked {
		a.w.blame("%s: %s returned nil but did not call work", a.label, what)
	}
}

// rwlock is a round with a read-write lock.
func (a *actor) rwlock(ctx context.Context, l *rwlock.RWLock, generation int) bool {
	writes := !a.reads()
	if !a.w.isEnding() && a.does("do", 8) {
		if writes {
			do(ctx, a, "do", l.Do, func(ctx context.Context) (lock, error) { return l.Lock(ctx) },
				generation)
		} else {
			do(ctx, a, "read-do", l.RDo,
				func(ctx context.Context) (lock, error) { return l.RLock(ctx) }, generation)
		}
		return false
	}
	what, take := "read-lock", l.RLock
	tries := !a.w.isEnding() && a.does("try", 4)
	switch {
	case writes && tries:
		what, take = "try-lock", l.TryLock
	case writes:
		what, take = "lock", l.Lock
	case tries:
		what, take = "try-read-lock", l.TryRLock
	}
	var got *rwlock.Lock
	floor, asked := a.w.ask(a.label, a.name)
	err := a.call(ctx, what, 0, func(ctx context.Context) (err error) {
		got,
			err = take(ctx)
		return err
	})
	if err != nil {
		return false
	}
	x := a.held(got, writes, 1, floor, asked, generation)
	held := []entered{{got, x}}
	for range a.times("re-enter") {
		a.dwell(got.Context())
		in := got.Context()
		switch reads := a.r.IntN(2) == 0; {
		case reads: // within a write lock: it may outlive that
			held = a.also(held, a.enter(x, false, func() (lock, error) { return l.RLock(in) }))
		case writes:
			held = a.also(held, a.enter(x, true, func() (lock, error) { return l.Lock(in) }))
		default:
			if _, err := l.TryLock(in); !errors.Is(err, rwlock.ErrUpgrade) && in.Err() == nil {
				a.w.blame("%s: Lock with a read lock: %v", a.label, err)
			}
		}
	}
	a.dwell(got.Context())
	a.revive(x, false, generation, func(ctx context.Context) (lock, error) { return l.RLock(ctx) })
	return a.leaveAll(held)
}

func (a *actor) also(held []entered, e entered) []entered {
	if e.lock == nil {
		return held
	}
	return append(held, e)
}
