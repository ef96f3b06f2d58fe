package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// losses are the ways in which a hold can be lost, with their causes. The hold
// is lost when lose returns.
var losses = map[string]struct {
	lose  func(w world, h *recipes.Hold)
	cause error
}{
	"the service ends the session": {func(w world, h *recipes.Hold) { w.svc.Expire(h.Session()) },
		coordinator.ErrSessionLost},
	"the client is cut off": {func(w world,
		_ *recipes.Hold) {
		w.a.link.Cut()
		time.Sleep(time.Minute)
	}, coordinator.ErrSessionLost},
	"the service is away": {func(w world,
		_ *recipes.Hold) {
		w.svc.Stop()
		time.Sleep(time.Minute)
		w.svc.Start()
	},
		coordinator.ErrSessionLost},
	"a renewal finds the session gone": {func(w world, h *recipes.Hold) {
		w.a.link.HoldReplies() // also the notification
		w.svc.Expire(h.Session())
		time.Sleep(time.Minute)
	}, coordinator.ErrSessionLost},
	"Err notices it first, by the clock": {func(w world, h *recipes.Hold) {
		w.a.link.Cut()
		time.Sleep(time.Until(h.Deadline()))
		_ = h.Err()
	}, coordinator.ErrSessionLost},
	"an operator deletes a settled entry": {func(w world, h *recipes.Hold) {
		time.Sleep(time.Second)
		w.svc.Remove(name, h.Place().Key)
	}, coordinator.ErrRemoved},
	"a write finds the entry deleted": {func(w world, h *recipes.Hold) {
		w.svc.Remove(name, h.Place().Key)
		_ = h.Write(w.Context(), nil)
	}, coordinator.ErrRemoved},
	"a conversion finds the entry deleted": {func(w world, h *recipes.Hold) {
		w.svc.Remove(name, h.Place().Key)
		_ = h.Convert(w.Context(), "r")
	}, coordinator.ErrRemoved},
	"the release finds the entry deleted": {func(w world, h *recipes.Hold) {
		w.svc.Remove(name, h.Place().Key)
	}, coordinator.ErrRemoved},
	"the client is closed": {func(w world, _ *recipes.Hold) { _ = w.a.client.Close(w.Context()) },
		coordinator.ErrClosed},
}

// TestEachLossIsLoggedAndObservedOnce for each cause, however many handles the
// hold has.
func TestEachLossIsLoggedAndObservedOnce(t *testing.T) {
	for how, loss := range losses {
		t.Run(how, func(t *testing.T) {
			var out bytes.Buffer
			var seen memory.Tally
			inWorld(t, func(w world) {
				outer := w.hold(w.a, w.Context(), lesser())
				inner := w.hold(w.a, outer.Context(), lesser())
				loss.lose(w, outer)
				synctest.Wait()
				for _, h := range []*recipes.Hold{inner, outer} {
					_ = h.Release(context.Background())
				}
				time.Sleep(time.Minute)
				synctest.Wait() // the log has a goroutine of its own
				if n := strings.Count(out.String(), `level=WARN msg="baton: hold lost"`); n != 1 {
					w.Errorf("logged %d times: %s", n, out.String())
				}
				if lost, released := seen.Count(event.Lost),
					seen.Count(event.Released); lost != 1 || released != 0 {
					w.Errorf("observed %d losses and %d releases", lost, released)
				}
				for _, e := range seen.Events() {
					if e.Kind == event.Lost &&
						(!errors.Is(e.Err, loss.cause) || e.Token != outer.Token() ||
							e.Session != outer.Session()) {
						w.Errorf("observed %+v; want %v", e, loss.cause)
					}
				}
			}, coordinator.WithLogger(slog.New(slog.NewTextHandler(&out, nil))),
				coordinator.WithObserver(&seen))
		})
	}
}

// TestObserverIsNotifiedOfTheLifeOfAHold, of waits and of losses.
func TestObserverIsNotifiedOfTheLifeOfAHold(t *testing.T) {
	var seen memory.Tally
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.release(w.hold(w.a, h.Context(), write))
		time.Sleep(time.Minute)
		w.release(h)
		synctest.Wait() // for late events
		var kinds []event.Kind
		var last event.Event
		for _, e := range seen.Events() {
			if e.Kind != event.SessionRenewed {
				kinds, last = append(kinds, e.Kind), e
			}
		}
		want := []event.Kind{
			event.Created, event.SessionOpened, event.Joined, event.Granted, event.Reentered, event.Released,
		}
		if !slices.Equal(kinds, want) {
			w.Errorf("observed %v, want %v", kinds, want)
		}
		if last.Duration != time.Minute || last.Token != h.Token() || last.Queue != name ||
			last.Err != nil {
			w.Errorf("the release was observed as %+v", last)
		}
		w.svc.Expire(h.Session())
		synctest.Wait()
		all := seen.Events()
		if e := all[len(all)-1]; e.Kind != event.SessionEnded ||
			!errors.Is(e.Err, coordinator.ErrSessionLost) {
			w.Errorf("the end of the session was observed as %+v", e)
		}
	}, coordinator.WithObserver(&seen))
}

// TestLossAtTheGrantIsObservedAfterIt: the session ends between grant and hold.
func TestLossAtTheGrantIsObservedAfterIt(t *testing.T) {
	var seen memory.Tally
	var svc *memory.Service
	expire := event.DirectFunc(func(e event.Event) {
		if e.Kind == event.Granted {
			svc.Expire(e.Session)
			synctest.Wait()
		}
	})
	inWorld(t, func(w world) {
		svc = w.svc
		h, err := w.a.queue.Acquire(w.Context(), write)
		wantErr(w.T, err)
		wantErr(w.T, h.Release(w.Context()), coordinator.ErrSessionLost)
		var observed []event.Kind
		for _, e := range seen.Events() {
			if e.Token != 0 {
				observed = append(observed, e.Kind)
			}
		}
		if len(observed) != 3 || observed[1] != event.Granted || observed[2] != event.Lost {
			w.Errorf("observed %v", observed)
		}
	}, coordinator.WithObserver(&seen), coordinator.WithObserver(expire))
}

// TestHandOverIsMeasuredFromTheNotice: a wait without contenders ahead has
// none.
func TestHandOverIsMeasuredFromTheNotice(t *testing.T) {
	var seen memory.Tally
	last := func() event.Event {
		all := seen.Events()
		return all[len(all)-1]
	}
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		if e := last(); e.Kind != event.Granted || e.Waited || e.HandOver != 0 || e.Context == nil {
			w.Errorf("observed %+v", e)
		}
		w.release(h)
		other := w.hold(w.b, w.Context(), write)
		// So that it has to read the queue.
		time.AfterFunc(time.Second, func() { w.svc.Remove(name, other.Place().Key) })
		w.on(memory.OpAhead, memory.Fate{DelayReply: 30 * time.Millisecond})
		h = w.hold(w.a, w.Context(), write)
		if e := last(); !e.Waited || e.HandOver != 30*time.Millisecond || e.Duration < time.Second {
			w.Errorf("observed %+v", e)
		}
		w.release(h)
		_ = other.Release(w.Context())
	}, coordinator.WithObserver(&seen))
}

// TestCancelledReleaseIsNoLoss: the cause of the caller's context does not come
// from the service.
func TestCancelledReleaseIsNoLoss(t *testing.T) {
	var seen memory.Tally
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		late := memory.Fate{DelayReply: time.Second}
		w.on(memory.OpLeave, memory.Fate{DropReply: true, DelayReply: time.Second}, late)
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(500*time.Millisecond, func() { cancel(coordinator.ErrNotHeld) })
		wantErr(w.T, h.Release(ctx), coordinator.ErrNotHeld)
		time.Sleep(time.Minute)
		if lost, released := seen.Count(event.Lost), seen.Count(event.Released); lost != 0 ||
			released != 1 {
			w.Errorf("observed %d losses and %d releases", lost, released)
		}
	}, coordinator.WithObserver(&seen))
}

// TestHoldsSettleOneByOne: a hold watches its entry after engine.SettleAfter,
// whichever other holds there are.
func TestHoldsSettleOneByOne(t *testing.T) {
	const later = 100 * time.Millisecond
	inWorld(t, func(w world) {
		began := time.Now()
		watched := func(at time.Duration, want int) {
			time.Sleep(time.Until(began.Add(at)))
			synctest.Wait()
			if got := w.svc.Stats().Watches; got != want {
				w.Errorf("%d entries are watched after %v, want %d", got, at, want)
			}
		}
		first := w.hold(w.a, w.Context(), read)
		watched(later, 0)
		w.release(w.hold(w.a, w.Context(), read))
		second := w.hold(w.a, w.Context(), read)
		watched(engine.SettleAfter-1, 0)
		watched(engine.SettleAfter, 1)
		watched(later+engine.SettleAfter-1, 1)
		watched(later+engine.SettleAfter, 2)
		w.release(first)
		w.release(second)
	})
}
