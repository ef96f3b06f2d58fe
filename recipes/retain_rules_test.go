package recipes_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// TestContenderSeenDuringAReleaseIsNotForgotten: it is seen when the release
// has found that the turn is to be kept, and before it is idle.
func TestContenderSeenDuringAReleaseIsNotForgotten(t *testing.T) {
	released := make(chan struct{}, 1)
	slow := event.DirectFunc(func(e event.Event) {
		if e.Kind == event.Released && len(released) > 0 {
			<-released
			time.Sleep(time.Millisecond) // of virtual time, in which the watch fires
		}
	})
	retaining(t, func(w world) {
		w.once(w.a)
		h := w.hold(w.a, w.Context(), exclusive)
		released <- struct{}{}
		go w.release(h)
		synctest.Wait()
		b := w.queued(w.b, w.Context(), 0)
		<-b.done
		if b.at != time.Millisecond { // when the release has returned
			w.Errorf("granted after %v", b.at)
		}
	}, coordinator.WithObserver(slow))
}

// TestTurnThatIsWonWhileTheSessionIsSuspendedIsGranted, as without the option,
// but it is not kept.
func TestTurnThatIsWonWhileTheSessionIsSuspendedIsGranted(t *testing.T) {
	retaining(t, func(w world) {
		w.a.link.Delay(time.Millisecond, time.Millisecond)
		w.once(w.a)
		w.once(w.b)
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropRequest: r.Op == memory.OpRenew}
		})
		time.Sleep(4 * time.Second)
		h := w.hold(w.a, w.bounded(time.Second), exclusive)
		if state, _ := h.State(); state != event.StateSuspended {
			w.Fatalf("the session is %v", state)
		}
		w.release(h)
		if n := len(w.svc.Snapshot(name)); n != 0 {
			w.Error("it is kept")
		}
		w.svc.OnRequest(nil)
	})
}

// TestKeptTurnIsHandedOver: the contender behind it needs no read of the queue.
func TestKeptTurnIsHandedOver(t *testing.T) {
	retaining(t, func(w world) {
		var passed []bool
		w.svc.OnStep(func(s memory.Step) {
			if s.Kind == memory.StepLeft {
				passed = append(passed, s.Passed)
			}
		})
		w.once(w.a)
		w.once(w.b)
		w.svc.OnStep(nil)
		if len(passed) == 0 || !passed[0] {
			w.Errorf("passed: %v", passed)
		}
	})
}

func TestNothingIsKeptWithoutAWatch(t *testing.T) {
	inWorld(t, func(w world) {
		c, _ := queueOn(w.T, plain{Driver: w.svc.Driver()})
		w.a.queue = w.retain(party{client: c})
		w.once(w.a)
		w.entries(0)
		check(w, c.Close(w.Context()))
	})
}

func TestTryDoesNotAskAHolderThatKeepsNothing(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		began := time.Now()
		_, err := w.b.queue.Acquire(w.Context(), try)
		wantErr(w.T, err, coordinator.ErrTaken)
		if d := time.Since(began); d != 0 {
			w.Errorf("it waited for %v", d)
		}
		w.release(h)
	})
}

// lingering is a driver whose joins return a little after their contexts.
type lingering struct{ *memory.Driver }

type lingeringSession struct{ driver.Session }

func (d lingering) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return lingeringSession{s}, err
}

func (s lingeringSession) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	j, err := s.Session.Join(ctx, queue, c)
	if ctx.Err() != nil {
		time.Sleep(2 * time.Millisecond)
	}
	return j, err
}

// TestCallerThatComesAfterTheLastOneGaveUp, and before the join has ended,
// joins for itself.
func TestCallerThatComesAfterTheLastOneGaveUp(t *testing.T) {
	inWorld(t, func(w world) {
		link := w.svc.Driver()
		c, _ := queueOn(w.T, lingering{link})
		w.a = party{link, c, w.retain(party{client: c})}
		w.once(w.a)
		time.Sleep(2 * retained) // it is not kept any more
		link.HoldRequests()
		ctx, cancel := context.WithCancelCause(w.Context())
		last := w.queued(w.a, ctx, 0)
		why := errors.New("given up")
		cancel(why)
		time.Sleep(time.Millisecond)
		next := w.queued(w.a, w.Context(), 0)
		link.Heal()
		<-last.done
		wantErr(w.T, last.err, why)
		if <-next.done; next.err != nil {
			w.Errorf("the next caller: %v", next.err)
		}
		check(w, c.Close(w.Context()))
	})
}

// TestTurnsOfAKeptNameHaveRisingTokens, and all grants of a turn the same one,
// whether they are handed over or idle in between.
func TestTurnsOfAKeptNameHaveRisingTokens(t *testing.T) {
	retaining(t, func(w world) {
		last := coordinator.Token(0)
		for range 5 {
			h := w.hold(w.a, w.Context(), exclusive)
			x := w.queued(w.a, w.Context(), 0)
			w.release(h)
			<-x.done
			again := w.once(w.a)
			if h.Token() <= last || x.hold.Token() != h.Token() || again != h.Token() {
				w.Errorf("tokens %d, %d, %d after %d", h.Token(), x.hold.Token(), again, last)
			}
			last = w.once(w.b)
			if last <= h.Token() {
				w.Errorf("the other client has token %d after %d", last, h.Token())
			}
		}
	})
}

func TestLongestRetentionIsTheMaximum(t *testing.T) {
	inWorld(t, func(w world) {
		q, err := recipes.NewQueue(w.a.client, "test", "queue", recipes.WithRetain(recipes.MaxRetain))
		check(w, err)
		w.a.queue = q
		w.once(w.a)
		time.Sleep(recipes.MaxRetain - 1)
		synctest.Wait()
		w.entries(1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		w.entries(0)
	})
}

// bounce makes the queue of a one that is not kept for a while.
func (w world) bounce() {
	w.Helper()
	w.once(w.a)
	w.once(w.b)
	w.once(w.a)
	synctest.Wait()
	w.entries(0)
}

// TestCallersShareAnEntryBehindOneThatGoesAlone: while a name is not kept, the
// first caller has an entry of its own. Those that come before its release
// share the next one, whether it waits or holds.
func TestCallersShareAnEntryBehindOneThatGoesAlone(t *testing.T) {
	for _, waits := range []bool{false, true} {
		retaining(t, func(w world) {
			w.b.queue = newQueue(w, w.b, "queue")
			w.bounce()
			other := w.hold(w.b, w.Context(), exclusive)
			alone, want := w.queued(w.a, w.Context(), time.Second), 3
			if !waits {
				w.release(other)
				synctest.Wait()
				want = 2
			}
			var shared []*waiter
			for range 5 {
				shared = append(shared, w.queued(w.a, w.Context(), time.Second))
			}
			w.entries(want)
			if waits {
				w.release(other)
			}
			<-alone.done
			for i, x := range shared {
				<-x.done
				if x.err != nil || x.hold.Token() != shared[0].hold.Token() || x.hold.Token() == alone.hold.Token() {
					w.Errorf("caller %d: token %d, %v", i, x.hold.Token(), x.err)
				}
			}
			synctest.Wait()
			w.entries(0) // none waits, and the name is still not kept
		})
	}
}

// TestCallerThatGoesAloneIsNotAsked: its entry will not be idle, so a Try of
// another client fails at once, as behind a holder without the option.
func TestCallerThatGoesAloneIsNotAsked(t *testing.T) {
	retaining(t, func(w world) {
		w.b.queue = newQueue(w, w.b, "queue")
		w.bounce()
		h := w.hold(w.a, w.Context(), exclusive)
		began := time.Now()
		_, err := w.b.queue.Acquire(w.Context(), try)
		wantErr(w.T, err, coordinator.ErrTaken)
		if d := time.Since(began); d != 0 {
			w.Errorf("the Try has waited for %v", d)
		}
		w.release(h)
	})
}

// TestNameThatBouncesCostsWhatItCostsWithoutTheOption: as many requests and
// objects for each lock.
func TestNameThatBouncesCostsWhatItCostsWithoutTheOption(t *testing.T) {
	const locks = 2000
	inWorld(t, func(w world) {
		cost := func() (objects float64, requests int64) {
			inTurn := func(n int) {
				for range n {
					w.once(w.a)
					w.once(w.b)
				}
			}
			inTurn(2)
			sent := w.svc.Stats()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			inTurn(locks / 2)
			runtime.ReadMemStats(&after)
			// Rounded: some other goroutines allocate a few.
			return math.Round(float64(after.Mallocs-before.Mallocs) / locks),
				int64(w.svc.Stats().Since(sent).Total())
		}
		objects, requests := cost()
		w.a.queue, w.b.queue = w.retain(w.a), w.retain(w.b)
		if o, r := cost(); o != objects || r != requests {
			w.Errorf("%v objects and %d requests instead of %v and %d", o, r, objects, requests)
		}
	})
}
