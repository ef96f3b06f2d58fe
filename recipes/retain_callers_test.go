package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// TestTryOnATurnThatIsOfNoUseWaitsForNobody: the session is suspended while the
// turn is idle. The Try does not join for others, which would get its error.
func TestTryOnATurnThatIsOfNoUseWaitsForNobody(t *testing.T) {
	retaining(t, func(w world) {
		w.once(w.a)
		w.a.link.Cut()
		time.Sleep(4 * time.Second)
		tried := make(chan error, 1)
		go func() {
			h, err := w.a.queue.Acquire(context.Background(), try)
			if err == nil {
				w.release(h)
			}
			tried <- err
		}()
		synctest.Wait()
		x := w.queued(w.a, w.Context(), time.Millisecond)
		time.Sleep(time.Second)
		w.a.link.Heal()
		if err := <-tried; err != nil && !errors.Is(err, coordinator.ErrTaken) {
			w.Errorf("try: %v", err)
		}
		if <-x.done; x.err != nil {
			w.Errorf("lock: %v", x.err)
		}
	})
}

// TestHolderOfAKeptTurnIsWantedByItsOwnProcess, whose callers have no entry.
func TestHolderOfAKeptTurnIsWantedByItsOwnProcess(t *testing.T) {
	retaining(t, func(w world) {
		for _, first := range []string{"caller", "Wanted"} {
			h := w.hold(w.a, w.Context(), exclusive)
			var x *waiter
			if first == "caller" {
				x = w.queued(w.a, w.Context(), 0)
			}
			wanted := make(chan error, 1)
			go func() { wanted <- h.Wanted(w.bounded(time.Minute)) }()
			synctest.Wait()
			if x == nil {
				x = w.queued(w.a, w.Context(), 0)
			}
			if err := <-wanted; err != nil {
				w.Errorf("%s first: wanted: %v", first, err)
			}
			w.release(h)
			<-x.done
		}
	})
}

// TestLaterGrantOfATurnEndsWithItsOuterHold, if the context also carries an
// earlier grant of the turn, which was taken within that hold and released.
func TestLaterGrantOfATurnEndsWithItsOuterHold(t *testing.T) {
	retaining(t, func(w world) {
		outer, err := recipes.NewQueue(w.b.client, "test", "outer")
		check(w, err)
		o, err := outer.Acquire(w.Context(), exclusive)
		check(w, err)
		first := w.hold(w.a, o.Context(), exclusive)
		w.release(first)
		again := w.hold(w.a, context.WithoutCancel(first.Context()), exclusive)
		if again.Token() != first.Token() {
			w.Errorf("token %d after %d", again.Token(), first.Token())
		}
		w.svc.Expire(o.Session())
		synctest.Wait()
		if cause := context.Cause(again.Context()); !errors.Is(cause, coordinator.ErrSessionLost) {
			w.Errorf("the context has ended with %v", cause)
		}
		w.release(again)
		_ = o.Release(w.Context())
	})
}

// TestEachEntryOfAKeptTurnEndsOnce in the events, also if all its callers give
// up when it is admitted, or at any other moment.
func TestEachEntryOfAKeptTurnEndsOnce(t *testing.T) {
	type entry struct {
		session string
		token   coordinator.Token
	}
	var mu sync.Mutex
	open := map[entry]int{}
	count := event.ObserverFunc(func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		at := entry{e.Session, e.Token}
		switch {
		case e.Token == 0 || e.Local:
		case e.Kind == event.Joined:
			open[at]++
		case e.Kind == event.Granted, e.Kind == event.NotGranted:
			open[at]--
		}
	})
	retaining(t, func(w world) {
		for range 300 {
			h := w.hold(w.b, w.Context(), exclusive)
			x := w.queued(w.a, w.bounded(time.Millisecond), 0)
			y := w.queued(w.a, w.bounded(time.Millisecond), 0)
			time.Sleep(time.Millisecond)
			w.release(h)
			<-x.done
			<-y.done
		}
	}, coordinator.WithObserver(count))
	for at, n := range open {
		if n != 0 {
			t.Errorf("%v has %d ends too few", at, n)
		}
	}
}

// TestCallersOfAKeptTurnSayHowLongTheyWereQueued: each for itself, in the local
// queue of a turn, or behind another client with an entry that they share.
func TestCallersOfAKeptTurnSayHowLongTheyWereQueued(t *testing.T) {
	for _, holder := range []string{"own", "other"} {
		retaining(t, func(w world) {
			p := w.a
			if holder == "other" {
				p = w.b
			}
			h := w.hold(p, w.Context(), exclusive)
			var all []*waiter
			for range 3 { // the last one takes the entry with it
				why := errors.New("enough")
				ctx, cancel := context.WithTimeoutCause(w.Context(), 3*time.Second, why)
				defer cancel()
				all = append(all, w.queued(w.a, ctx, 0))
				time.Sleep(time.Second)
			}
			for i, x := range all {
				<-x.done
				var wait *recipes.WaitError
				if !errors.As(x.err, &wait) || wait.Queued != 3*time.Second || wait.Err.Error() != "enough" {
					w.Errorf("%s, %d: %v", holder, i, x.err)
				}
			}
			w.release(h)
		})
	}
}

// TestCancelledCallersSayWhetherTheServiceAnswers, whether they are the last
// or not: while there is no session, and while it is suspended.
func TestCancelledCallersSayWhetherTheServiceAnswers(t *testing.T) {
	for _, state := range []string{"no session", "suspended", "connected"} {
		retaining(t, func(w world) {
			if state != "no session" {
				w.once(w.b)
				w.once(w.a)
				h := w.hold(w.b, w.Context(), exclusive)
				defer w.release(h)
			}
			if state != "connected" {
				w.a.link.Cut()
				defer time.Sleep(time.Minute) // for sessions whose opening was cancelled
				defer w.a.link.Heal()
				time.Sleep(4 * time.Second)
			}
			ctx, cancel := context.WithCancel(w.Context())
			defer cancel()
			second, stop := context.WithCancel(w.Context())
			defer stop()
			one, two := w.queued(w.a, ctx, 0), w.queued(w.a, second, 0)
			time.Sleep(time.Second)
			cancel()
			<-one.done
			stop()
			<-two.done
			for i, x := range []*waiter{one, two} {
				wantErr(w.T, x.err, context.Canceled)
				if away := errors.Is(x.err, coordinator.ErrUnavailable); away != (state != "connected") {
					w.Errorf("%s, %d: %v", state, i, x.err)
				}
			}
		})
	}
}

// TestTurnWhoseWriteIsUnderWayIsNotKept: the payload of a released hold, which
// may be written later or have been written without a reply, is not shown for
// the next one.
func TestTurnWhoseWriteIsUnderWayIsNotKept(t *testing.T) {
	for what, fate := range map[string]memory.Fate{
		"late": {DelayRequest: time.Second}, "lost reply": {DropReply: true},
	} {
		retaining(t, func(w world) {
			h := w.hold(w.a, w.Context(), exclusive)
			next := w.queued(w.a, w.Context(), time.Second)
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op == memory.OpWrite {
					return fate
				}
				return memory.Fate{}
			})
			go func() { _ = h.Write(w.bounded(2*time.Second), []byte("of the first")) }()
			time.Sleep(time.Millisecond)
			w.release(h)
			if <-next.done; next.hold.Token() == h.Token() {
				w.Errorf("%s: kept", what)
			}
			w.svc.OnRequest(nil)
			time.Sleep(time.Minute)
		})
	}
}
