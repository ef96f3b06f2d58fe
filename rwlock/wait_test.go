package rwlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

func TestWaitEndsWithTheCauseOfItsContextAndLeavesTheQueue(t *testing.T) {
	for _, mine := range []error{errors.New("mine"), coordinator.ErrTaken, recipes.ErrOtherMode, coordinator.ErrRemoved} {
		parties(t, func(a, b, c party) {
			w := a.lock()
			waits := []*pending{b.begin(b.l.RLock), c.begin(c.l.Lock), b.begin(b.l.RLock)}
			for i, g := range waits {
				g.cancel(mine)
				<-g.done
				if g.err != mine { //nolint:errorlint // untouched means identical
					t.Errorf("ended with %v, want %v itself", g.err, mine)
				}
				synctest.Wait()
				if n := len(a.svc.Snapshot(queue)); n != 3-i {
					t.Errorf("%d in the queue after %d gave up", n, i+1)
				}
			}
			a.unlock(w)
		})
	}
}

// TestOneThatGivesUpMakesWayForThoseBehind: a waiting writer for readers, a waiting reader for a writer.
func TestOneThatGivesUpMakesWayForThoseBehind(t *testing.T) {
	parties(t, func(a, b, c party) {
		r := a.rlock()
		w := b.begin(b.l.Lock)
		r1, r2, w2 := c.begin(c.l.RLock), b.begin(b.l.RLock), a.begin(a.l.Lock)
		w.cancel(errors.New("given up"))
		admitted(t, "ab", r1, r2, w2)
		a.unlock(r)
		r1.unlock()
		r2.unlock()
		admitted(t, "abc", r1, r2, w2)

		r1 = b.begin(b.l.RLock)
		w = c.begin(c.l.Lock)
		r1.cancel(errors.New("given up"))
		admitted(t, "", w) // the one ahead left without ever holding
		w2.unlock()
		admitted(t, "a", w)
		w.unlock()
	})
}

func TestBoundOfTheWaitDoesNotBoundTheHold(t *testing.T) {
	type key struct{}
	parties(t, func(a, _, _ party) {
		for _, f := range []take{a.l.Lock, a.l.RLock, a.l.TryLock, a.l.TryRLock} {
			ctx, cancel := context.WithTimeout(context.WithValue(a.Context(), key{}, 7), time.Second)
			l := a.take(f, ctx)
			time.Sleep(time.Minute)
			wantErr(t, l.Err())
			wantErr(t, l.Context().Err())
			if left := time.Until(l.Deadline()); l.Context().Value(key{}) != 7 || left < 5*time.Second || left > 10*time.Second {
				t.Errorf("value %v, deadline in %v", l.Context().Value(key{}), left)
			}
			if err := l.Unlock(ctx); err != nil { // dead by now
				t.Error(err)
			}
			cancel()
		}
	})
}

func TestWaiterOfALostSessionReturnsAndNeverWins(t *testing.T) {
	parties(t, func(a, b, _ party) {
		w := a.lock()
		waits := []*pending{b.begin(b.l.RLock), b.begin(b.l.Lock)}
		b.svc.Expire(b.session().ID())
		for _, g := range waits {
			<-g.done
			wantErr(t, g.err, coordinator.ErrSessionLost)
		}
		again := b.begin(b.l.RLock) // on a new session
		a.unlock(w)
		admitted(t, "a", again)
		again.unlock()
	})
}

// TestWaiterWhoseEntryIsRemovedIsToldAndNeverWins is FIELD 42: the place that is not found must not be taken for one
// at the end, or the beginning, of the queue.
func TestWaiterWhoseEntryIsRemovedIsToldAndNeverWins(t *testing.T) {
	parties(t, func(a, b, c party) {
		for _, f := range []take{b.l.RLock, b.l.Lock} {
			w := a.lock()
			g := b.begin(f)
			behind := c.begin(c.l.Lock)
			time.Sleep(2 * time.Second) // until it watches its own entry
			a.svc.Remove(queue, a.svc.Snapshot(queue)[1].Key)
			synctest.Wait()
			a.unlock(w)
			<-g.done
			wantErr(t, g.err, coordinator.ErrRemoved)
			admitted(t, "a", behind)
			behind.unlock()
		}
	})
}

func TestServiceAwayIsUnavailableAndLeavesNothing(t *testing.T) {
	parties(t, func(a, _, _ party) {
		for _, f := range []take{a.l.Lock, a.l.RLock, a.l.TryLock, a.l.TryRLock} {
			a.svc.Stop()
			ctx, cancel := context.WithTimeout(a.Context(), time.Second)
			began := time.Now()
			_, err := f(ctx)
			wantErr(t, err, coordinator.ErrUnavailable, context.DeadlineExceeded)
			if took := time.Since(began); took != time.Second {
				t.Errorf("ended after %v", took)
			}
			cancel()
			a.svc.Start()
			time.Sleep(time.Second)
			if n := len(a.svc.Snapshot(queue)); n != 0 {
				t.Errorf("%d in the queue", n)
			}
		}
	})
}

// TestWaitersSurviveAnOutage: without an expiry, everybody keeps the place.
func TestWaitersSurviveAnOutage(t *testing.T) {
	parties(t, func(a, b, c party) {
		w := a.lock()
		r, w2 := b.begin(b.l.RLock), c.begin(c.l.Lock)
		a.svc.Stop()
		time.Sleep(4 * time.Second)
		a.svc.Start()
		b.link.Reset()
		time.Sleep(time.Second)
		admitted(t, "", r, w2)
		a.unlock(w)
		time.Sleep(time.Second) // the waits are tried again in rounds of half a second
		admitted(t, "a", r, w2)
		r.unlock()
		time.Sleep(time.Second)
		admitted(t, "ab", r, w2)
		w2.unlock()
	})
}

func TestLostHoldEndsBeforeTheNextIsGranted(t *testing.T) {
	parties(t, func(a, b, c party) {
		for _, f := range []take{a.l.Lock, a.l.RLock} {
			l := a.take(f, a.Context())
			var lostAt time.Time
			context.AfterFunc(l.Context(), func() { lostAt = time.Now() })
			time.Sleep(7 * time.Second)
			a.link.Cut()
			next := b.lock()
			granted := time.Now()
			synctest.Wait()
			if lostAt.IsZero() || !lostAt.Before(granted) {
				t.Errorf("told at %v, the next was granted at %v", lostAt, granted)
			}
			wantErr(t, l.Err(), coordinator.ErrSessionLost)
			a.link.Heal()
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrSessionLost)
			time.Sleep(time.Minute)
			wantErr(t, next.Err())
			b.unlock(next)
			c.unlock(c.lock())
		}
	})
}

func TestRemovedEntryEndsTheHold(t *testing.T) {
	parties(t, func(a, b, _ party) {
		for _, f := range []take{a.l.Lock, a.l.RLock} {
			l := a.take(f, a.Context())
			time.Sleep(time.Second)
			a.svc.Remove(queue, a.svc.Snapshot(queue)[0].Key)
			synctest.Wait()
			wantErr(t, context.Cause(l.Context()), coordinator.ErrRemoved)
			next := b.lock()
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrRemoved)
			wantErr(t, next.Err())
			b.unlock(next)
			wantErr(t, a.session().Err())
		}
	})
}

func TestCloseHandsOverAtOnce(t *testing.T) {
	parties(t, func(a, b, c party) {
		r := a.rlock()
		waiting := []*pending{b.begin(b.l.Lock), a.begin(a.l.RLock)}
		if err := a.client.Close(a.Context()); err != nil {
			t.Error(err)
		}
		admitted(t, "a", waiting[0])
		<-waiting[1].done
		wantErr(t, waiting[1].err, coordinator.ErrClosed)
		wantErr(t, context.Cause(r.Context()), coordinator.ErrClosed)
		wantErr(t, r.Unlock(a.Context()), coordinator.ErrClosed)
		waiting[0].unlock()
		_, err := a.l.RLock(c.Context())
		wantErr(t, err, coordinator.ErrClosed)
	})
}

// TestLockThatFindsItsSessionOverUsesANewOne: the end of the session was not heard of.
func TestLockThatFindsItsSessionOverUsesANewOne(t *testing.T) {
	parties(t, func(a, _, _ party) {
		for _, f := range []take{a.l.Lock, a.l.RLock, a.l.TryLock, a.l.TryRLock} {
			old := a.session().ID()
			a.link.HoldReplies()
			a.svc.Expire(old)
			time.AfterFunc(time.Second, a.link.Heal)
			l := a.take(f, a.Context())
			if l.Session() == old || l.Err() != nil {
				t.Errorf("session %s, then %s: %v", old, l.Session(), l.Err())
			}
			a.unlock(l)
		}
	})
}

// TestGrantThatArrivesAfterTheSessionEndedIsNone: the service has granted it, and its answer comes too late.
func TestGrantThatArrivesAfterTheSessionEndedIsNone(t *testing.T) {
	parties(t, func(a, b, _ party) {
		for _, f := range []take{b.l.RLock, b.l.Lock} {
			b.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Driver == b.link && r.Op == memory.OpJoin {
					return memory.Fate{DelayReply: time.Minute} // granted at the service, unheard
				}
				return memory.Fate{DropRequest: r.Driver == b.link && r.Op == memory.OpRenew}
			})
			g := b.begin(f)
			<-g.done
			wantErr(t, g.err, coordinator.ErrSessionLost)
			b.svc.OnRequest(nil)
			a.unlock(a.lock())
		}
	})
}
