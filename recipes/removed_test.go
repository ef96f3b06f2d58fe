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

// TestRemovalDuringAConversionIsNoRelease: somebody else may have got the queue since.
func TestRemovalDuringAConversionIsNoRelease(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		w.on(memory.OpConvert, func(int) memory.Fate { return memory.Fate{DelayRequest: time.Second} })
		got := make(chan error, 1)
		go func() { got <- upper.Release(context.Background()) }()
		synctest.Wait()
		w.svc.Remove(name, lower.ID())
		other := w.hold(w.b, w.Context(), lesser())
		wantErr(w.T, lower.Release(context.Background()), coordinator.ErrNotHeld)
		wantErr(w.T, <-got, coordinator.ErrNotHeld)
		wantErr(w.T, other.Err())
		w.release(other)
	})
}

// TestRemovedStrayNeedsNoRelease: its user stops, as he is told to, and the first request to join arrives then.
func TestRemovedStrayNeedsNoRelease(t *testing.T) {
	for _, notice := range []func(w world, h *recipes.Hold){
		func(world, *recipes.Hold) { time.Sleep(time.Second) }, // by the watch
		func(w world, h *recipes.Hold) { _ = h.Write(w.Context(), nil) },
		func(w world, h *recipes.Hold) { _ = h.Convert(w.Context(), "r") },
	} {
		inWorld(t, func(w world) {
			w.on(memory.OpJoin, func(n int) memory.Fate {
				if n == 0 {
					return memory.Fate{DelayRequest: time.Minute}
				}
				return memory.Fate{}
			})
			h := w.hold(w.a, w.Context(), write)
			w.svc.Remove(name, h.ID())
			notice(w, h)
			synctest.Wait()
			wantErr(w.T, h.Err(), coordinator.ErrRemoved)
			time.Sleep(5 * time.Minute)
			w.wantModes("")
		})
	}
}

// TestConversionsAreObserved: those that were made, once each, and those that never will be.
func TestConversionsAreObserved(t *testing.T) {
	var mu sync.Mutex
	var seen []event.Event
	see := coordinator.WithObserver(event.ObserverFunc(func(e event.Event) {
		if e.Kind == event.Converted {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, e)
		}
	}))
	want := func(w world, token coordinator.Token, op string, err error) {
		w.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[0].Queue != name || seen[0].Token != token || seen[0].Op != op ||
			seen[0].Session != w.session(w.a).ID() || !errors.Is(seen[0].Err, err) {
			w.Errorf("observed %+v, want one to %q with error %v", seen, op, err)
		}
		seen = nil
	}
	inWorld(t, func(w world) {
		upper, lower := w.both()
		w.release(upper)
		want(w, lower.Token(), "r", nil)
		wantErr(w.T, lower.Convert(w.Context(), "r")) // it is that already
		wantErr(w.T, lower.Convert(w.Context(), "v"))
		want(w, lower.Token(), "v", nil)
		wantErr(w.T, lower.Convert(w.Context(), "no mode"), coordinator.ErrInvalid)
		want(w, lower.Token(), "no mode", coordinator.ErrInvalid)
		w.on(memory.OpConvert, func(int) memory.Fate { return memory.Fate{Err: refusal} })
		wantErr(w.T, lower.Convert(w.Context(), "u"), coordinator.ErrRefused)
		if time.Sleep(time.Minute); len(seen) != 0 { // it may be allowed yet
			w.Errorf("observed %+v", seen)
		}
		w.release(lower)
		want(w, lower.Token(), "u", coordinator.ErrRefused)
	}, see)
}

// TestRefusalIsNamedOnce: the steps of a call are not in its error's text.
func TestRefusalIsNamedOnce(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.on(memory.OpConvert, func(int) memory.Fate { return memory.Fate{Err: refusal} })
		err := h.Convert(w.Context(), "r")
		if want := `baton: convert "test/queue": ` + refusal.Error() + " (may have been applied)"; err.Error() != want {
			w.Errorf("%v, want %s", err, want)
		}
		w.release(h)
	})
}
