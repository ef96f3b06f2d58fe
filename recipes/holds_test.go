package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// TestUncontendedHoldIsOneRequestEachWay; a Try that is not exclusive reads the
// queue first. Semaphores have their own test: they read their limit.
func TestUncontendedHoldIsOneRequestEachWay(t *testing.T) {
	worlds(t, every(), 1, func(w place, ask way) {
		if ask.name == "permits" {
			return
		}
		requests := func() int { return w.svc.Stats().Total() }
		for i, f := range []askFunc{ask.ask, ask.try} {
			want := 1
			if i == 1 && ask.name == reading.name {
				want = 2
			}
			before := requests()
			h := w.taken(f, w.Context(), 0)
			if n := requests() - before; n != want {
				w.Errorf("acquired with %d requests, want %d", n, want)
			}
			before = requests()
			w.release(h)
			if n := requests() - before; n != 1 {
				w.Errorf("released with %d requests", n)
			}
		}
	})
}

// TestHoldOutlivesTheBoundOfItsWait, keeps the values of the context, and can
// be released with that context after its end.
func TestHoldOutlivesTheBoundOfItsWait(t *testing.T) {
	type key struct{}
	worlds(t, every(), 2, func(w place, ask way) {
		for _, f := range []askFunc{ask.ask, ask.try} {
			value := context.WithValue(w.Context(), key{}, 7)
			ctx, cancel := context.WithTimeout(value, time.Second)
			h := w.taken(f, ctx, 0)
			time.Sleep(time.Minute)
			if h.err() != nil || h.ctx.Err() != nil || h.ctx.Value(key{}) != 7 {
				w.Errorf("after a minute: %v, %v, value %v", h.err(), h.ctx.Err(),
					h.ctx.Value(key{}))
			}
			left := time.Until(h.Deadline())
			if left < ttl/2 || left > ttl || h.session != w.session(0).ID() {
				w.Errorf("deadline in %v, session %s", left, h.session)
			}
			// Otherwise the answer may be faster than the end of the context.
			w.links[0].Delay(10*time.Millisecond, 10*time.Millisecond)
			w.want("release", h.release(ctx), nil)
			w.links[0].Delay(0, 0)
			w.want("cause", context.Cause(h.ctx), coordinator.ErrReleased)
			w.want("Err", h.err(), coordinator.ErrReleased)
			next := w.take(ask.other(), 1)
			w.want("second release", h.release(w.Context()), coordinator.ErrNotHeld)
			w.alone(ask, next)
			w.release(next)
			cancel()
		}
	})
}

// TestHoldEndsBeforeItsEntryLeaves: while the entry is being removed, the
// hold's context has ended and cannot be re-entered.
func TestHoldEndsBeforeItsEntryLeaves(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask, 0)
		w.links[0].Delay(time.Second, time.Second)
		released := make(chan struct{})
		go func() {
			w.release(h)
			close(released)
		}()
		synctest.Wait()
		if h.err() == nil || h.ctx.Err() == nil {
			w.Error("the hold is alive")
		}
		if len(w.svc.Snapshot(ask.queue)) != 1 {
			w.Error("the entry has left before its hold ended")
		}
		next := w.taken(ask.ask, context.WithoutCancel(h.ctx), 0)
		if next.token <= h.token {
			w.Error("re-entered a hold that is being released")
		}
		<-released
		w.release(next)
		w.release(w.take(ask, 1))
	})
}

// TestFailedReleaseHoldsNothing: the hold is over. A later attempt is queued
// behind the old entry, and is granted when that is removed.
func TestFailedReleaseHoldsNothing(t *testing.T) {
	worlds(t, every(), 1, func(w place, ask way) {
		h := w.take(ask, 0)
		w.svc.OnRequest(inOrder(memory.OpLeave, memory.Fate{Err: refusal}))
		w.want("release", h.release(w.Context()), coordinator.ErrRefused)
		w.want("Err", h.err(), coordinator.ErrReleased)
		_, err := ask.other().try(context.WithoutCancel(h.ctx), w.all[0])
		w.want("try with the context of the hold", err, coordinator.ErrTaken)
		w.want("second release", h.release(w.Context()), coordinator.ErrNotHeld)
		time.AfterFunc(time.Minute, func() { w.svc.OnRequest(nil) })
		began := time.Now()
		next := w.take(ask.other(), 0)
		took := time.Since(began)
		if took < time.Minute || took > time.Minute+5*time.Second || next.token <= h.token {
			w.Errorf("granted after %v, with token %d after %d", took, next.token, h.token)
		}
		w.release(next)
	})
}

// TestLossReachesTheHolderBeforeTheNextIsGranted, which is within a TTL. Calls
// of the lost hold affect no other contender.
func TestLossReachesTheHolderBeforeTheNextIsGranted(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask, 0)
		var lostAt time.Time
		context.AfterFunc(h.ctx, func() { lostAt = time.Now() })
		time.Sleep(33 * time.Second)
		w.links[0].Cut()
		cut := time.Now()
		next := w.take(ask.other(), 1)
		granted := time.Now()
		synctest.Wait()
		if lostAt.IsZero() || !lostAt.Before(granted) || granted.Sub(cut) > ttl {
			w.Errorf("cut at %v, noticed at %v, the next granted at %v", cut, lostAt, granted)
		}
		w.links[0].Heal()
		w.want("Err", h.err(), coordinator.ErrSessionLost)
		w.want("release", h.release(w.Context()), coordinator.ErrSessionLost)
		w.want("second release", h.release(w.Context()), coordinator.ErrNotHeld)
		time.Sleep(time.Minute)
		w.alone(ask, next)
		w.release(next)
		again := w.take(ask, 0) // on a new session
		if again.token <= next.token {
			w.Errorf("token %d after %d", again.token, next.token)
		}
		w.release(again)
	})
}

// TestLossOfOneClientDoesNotReachAnother: the hold of one client is the context
// of an attempt on another.
func TestLossOfOneClientDoesNotReachAnother(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask.other(), 0)
		w.links[1].Delay(time.Second, time.Second)
		time.AfterFunc(500*time.Millisecond, func() { w.svc.Expire(h.session) })
		if _, err := ask.ask(h.ctx, w.all[1]); !lost(err) {
			w.Errorf("an attempt continued without its context: %v", err)
		}
		time.Sleep(5 * time.Second)
		w.want("the session of the other client", w.session(1).Err(), nil)
		w.links[1].Delay(0, 0)
	})
}

// TestLossMayBeHandledWhereItIsReported: a function that runs at the end of a
// hold may acquire at once, and a slow one blocks no other.
func TestLossMayBeHandledWhereItIsReported(t *testing.T) {
	for name, end := range map[string]func(w place, ask way, h held){
		"released": func(w place, _ way, h held) { w.release(h) },
		"expired":  func(w place, _ way, h held) { w.svc.Expire(h.session) },
		"removed": func(w place, ask way, _ held) {
			w.svc.Remove(ask.queue, w.svc.Snapshot(ask.queue)[0].Key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, every(), 2, func(w place, ask way) {
				h := w.take(ask, 0)
				time.Sleep(time.Second)
				again, slow := make(chan held, 1), make(chan struct{})
				context.AfterFunc(h.ctx, func() { again <- w.take(ask, 0) })
				context.AfterFunc(h.ctx, func() { <-slow })
				end(w, ask, h)
				next := <-again
				if next.err() != nil || next.token <= h.token {
					w.Errorf("token %d after %d: %v", next.token, h.token, next.err())
				}
				w.release(next)
				w.release(w.take(ask, 1))
				close(slow)
			})
		})
	}
}

// TestRemovalEndsTheHoldOnly: if an operator removes the entry of a hold, the
// session stays alive, and a release returns an error and deletes nothing. A
// young hold does not watch its entry yet: its release finds it gone.
func TestRemovalEndsTheHoldOnly(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		m, err := mutex.New(w.all[0], "other")
		w.want("New", err, nil)
		other, err := m.Lock(w.Context())
		w.want("Lock", err, nil)
		for age, want := range map[time.Duration]error{
			0: coordinator.ErrNotHeld, time.Second: coordinator.ErrRemoved,
		} {
			h := w.take(ask, 0)
			time.Sleep(age)
			w.svc.Remove(ask.queue, w.svc.Snapshot(ask.queue)[0].Key)
			synctest.Wait()
			next := w.take(ask.other(), 1)
			if age > 0 {
				w.want("cause", context.Cause(h.ctx), coordinator.ErrRemoved)
			}
			w.want("release", h.release(w.Context()), want)
			w.want("second release", h.release(w.Context()), coordinator.ErrNotHeld)
			w.alone(ask, next)
			w.release(next)
		}
		w.want("the other hold of the session", other.Err(), nil)
		w.want("Unlock", other.Unlock(w.Context()), nil)
	})
}

// TestRefusedWatchDoesNotHideARemoval: a holder that may not watch its entry
// for a while notices later that it was removed.
func TestRefusedWatchDoesNotHideARemoval(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask, 0)
		refusals := 0
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op != memory.OpWatch || refusals == 3 {
				return memory.Fate{}
			}
			refusals++
			return memory.Fate{Err: driver.ErrRefused}
		})
		time.Sleep(time.Second)
		w.svc.Remove(ask.queue, w.svc.Snapshot(ask.queue)[0].Key)
		time.Sleep(time.Second)
		w.want("cause", context.Cause(h.ctx), coordinator.ErrRemoved)
		if refusals != 3 {
			w.Errorf("%d watches were refused", refusals)
		}
	})
}

// TestCloseHandsOverAtOnce: the holds and the attempts of a closed client end.
func TestCloseHandsOverAtOnce(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask, 0)
		next := w.queue(w.Context(), ask.other(), 1)
		own := w.queue(w.Context(), ask, 0)
		began := time.Now()
		w.want("Close", w.all[0].Close(w.Context()), nil)
		w.release(w.granted(next))
		if took := next.at.Sub(began); took != 0 {
			w.Errorf("the next holder waited %v", took)
		}
		<-own.done
		w.want("waiter", own.err, coordinator.ErrClosed)
		w.want("cause", context.Cause(h.ctx), coordinator.ErrClosed)
		w.want("release", h.release(w.Context()), coordinator.ErrClosed)
	})
}

// TestReenteringCostsNoRequestAndCounts: the last release of a handle releases
// the grant, in any order.
func TestReenteringCostsNoRequestAndCounts(t *testing.T) {
	worlds(t, reentrant(), 2, func(w place, ask way) {
		outer := w.take(ask, 0)
		before := w.svc.Stats().Total()
		inner := w.taken(ask.ask, outer.ctx, 0)
		innermost := w.taken(ask.try, inner.ctx, 0)
		if outer.token != inner.token || inner.token != innermost.token {
			w.Error("entering gave another token")
		}
		w.release(outer)
		w.release(innermost)
		if n := w.svc.Stats().Total() - before; n != 0 {
			w.Errorf("%d requests", n)
		}
		if inner.err() != nil || inner.ctx.Err() != nil {
			w.Errorf("held by the last handle: %v, %v", inner.err(), inner.ctx.Err())
		}
		_, err := ask.other().try(w.Context(), w.all[1])
		w.want("try of another client", err, coordinator.ErrTaken)
		w.release(inner)
		w.release(w.take(ask.other(), 1))
	})
}

// TestHandleIsReleasedOnce: a second release of the inner handle does not
// release the outer one, and a late release does not release the next hold.
func TestHandleIsReleasedOnce(t *testing.T) {
	worlds(t, reentrant(), 2, func(w place, ask way) {
		outer := w.take(ask, 0)
		inner := w.taken(ask.ask, outer.ctx, 0)
		w.release(inner)
		w.want("second release", inner.release(w.Context()), coordinator.ErrNotHeld)
		w.want("Err of a released handle", inner.err(), coordinator.ErrReleased)
		w.want("outer", outer.err(), nil)
		w.release(outer)
		next := w.take(ask.other(), 1)
		for _, h := range []held{inner, outer} {
			w.want("late release", h.release(w.Context()), coordinator.ErrNotHeld)
		}
		w.alone(ask, next)
		w.release(next)
	})
}

func TestContextOfAReleasedHoldIsNotEntered(t *testing.T) {
	worlds(t, reentrant(), 1, func(w place, ask way) {
		h := w.take(ask, 0)
		w.release(h)
		_, err := ask.ask(h.ctx, w.all[0])
		w.want("with the context of a released hold", err, coordinator.ErrReleased)
		again := w.taken(ask.ask, context.WithoutCancel(h.ctx), 0)
		if again.token <= h.token {
			w.Errorf("token %d after %d", again.token, h.token)
		}
		w.release(again)
	})
}
