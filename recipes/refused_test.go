package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

var refusal = driver.Wrap(driver.ErrRefused, errors.New("no permission"))

// TestRefusedConversionIsReportedAtOnceAndRepeated: permissions can come back.
func TestRefusedConversionIsReportedAtOnceAndRepeated(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		refused := memory.Fate{Err: refusal}
		w.on(memory.OpConvert, refused, refused, refused, memory.Fate{})
		began := time.Now()
		err := upper.Release(w.bounded(time.Hour))
		wantErr(w.T, err, coordinator.ErrRefused)
		if !coordinator.MayHaveApplied(err) || time.Since(began) > time.Second {
			w.Errorf("%v after %v", err, time.Since(began))
		}
		w.wantModes("w")
		time.Sleep(20 * time.Second)
		w.wantModes("r")
		wantErr(w.T, lower.Err())
		w.release(lower)
	})
}

// TestReleaseAfterARefusalNeedsNoEpoch: a service without space accepts
// deletes, but refuses Forget. After a refused conversion a delete is enough;
// after one with an unknown outcome it is not.
func TestReleaseAfterARefusalNeedsNoEpoch(t *testing.T) {
	inWorld(t, func(w world) {
		var forgets int
		for _, modes := range [][]string{{"r"}, {"v", "r"}} {
			h := w.hold(w.a, w.Context(), write)
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				switch r.Op {
				case memory.OpConvert:
					return memory.Fate{Err: refusal}
				case memory.OpForget:
					forgets++
					return memory.Fate{DropRequest: true}
				}
				return memory.Fate{}
			})
			for _, mode := range modes {
				wantErr(w.T, h.Convert(w.Context(), mode), coordinator.ErrRefused)
			}
			time.Sleep(19 * time.Second) // between two attempts
			began := time.Now()
			w.release(h)
			if took := time.Since(began); took != 0 || forgets != 0 {
				w.Errorf("released after %v, with %d requests to forget", took, forgets)
			}
			w.wantModes("")
			w.svc.OnRequest(nil)
		}

		h := w.hold(w.a, w.Context(), write)
		// The first arrives after the refusal of the second.
		w.on(memory.OpConvert, memory.Fate{DelayRequest: 9 * time.Second}, memory.Fate{Err: refusal})
		wantErr(w.T, h.Convert(w.Context(), "v"), coordinator.ErrRefused)
		wantErr(w.T, h.Convert(w.Context(), "r"), coordinator.ErrRefused)
		time.Sleep(10 * time.Second)
		w.wantModes("v")
		w.release(h)
		w.wantModes("")
	})
}

// TestReleaseEndsAllConversions: the refused one, which would be repeated for
// ever, and those that wait for it.
func TestReleaseEndsAllConversions(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.on(memory.OpConvert, memory.Fate{Err: refusal})
		for _, mode := range []string{"v", "u", "r"} {
			began := time.Now()
			// Also those behind the refused one.
			wantErr(w.T, h.Convert(w.Context(), mode), coordinator.ErrRefused)
			if took := time.Since(began); took != 0 {
				w.Errorf("returned after %v", took)
			}
		}
		w.release(h)
		before := w.svc.Stats().Requests[memory.OpConvert]
		time.Sleep(time.Minute)
		if n := w.svc.Stats().Requests[memory.OpConvert] - before; n != 0 {
			w.Errorf("%d requests to convert an entry that has left", n)
		}
	})
}

// TestRemovalDuringAConversionIsNoRelease: another contender may hold since.
func TestRemovalDuringAConversionIsNoRelease(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		w.on(memory.OpConvert, memory.Fate{DelayRequest: time.Second})
		got := start(func() error { return upper.Release(context.Background()) })
		w.svc.Remove(name, lower.ID())
		other := w.hold(w.b, w.Context(), lesser())
		wantErr(w.T, lower.Release(context.Background()), coordinator.ErrNotHeld)
		wantErr(w.T, <-got, coordinator.ErrNotHeld)
		wantErr(w.T, other.Err())
		w.release(other)
	})
}

// TestJoinThatArrivesAfterARemovalLeavesNoGhost: the holder stops after the
// loss, and then its first request to join arrives.
func TestJoinThatArrivesAfterARemovalLeavesNoGhost(t *testing.T) {
	for _, notice := range []func(w world, h *recipes.Hold){
		func(world, *recipes.Hold) { time.Sleep(time.Second) }, // noticed by the watch
		func(w world, h *recipes.Hold) { _ = h.Write(w.Context(), nil) },
		func(w world, h *recipes.Hold) { _ = h.Convert(w.Context(), "r") },
	} {
		inWorld(t, func(w world) {
			w.on(memory.OpJoin, memory.Fate{DelayRequest: time.Minute}, memory.Fate{})
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

// TestConversionsAreObserved once each: those that succeeded, and those that
// never will.
func TestConversionsAreObserved(t *testing.T) {
	var mu sync.Mutex
	var seen []event.Event
	see := coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
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
			w.Errorf("observed %+v, want one conversion to %q with error %v", seen, op, err)
		}
		seen = nil
	}
	inWorld(t, func(w world) {
		upper, lower := w.both()
		w.release(upper)
		want(w, lower.Token(), "r", nil)
		wantErr(w.T, lower.Convert(w.Context(), "r")) // it has that mode already
		wantErr(w.T, lower.Convert(w.Context(), "v"))
		want(w, lower.Token(), "v", nil)
		wantErr(w.T, lower.Convert(w.Context(), "no mode"), coordinator.ErrInvalid)
		w.on(memory.OpConvert, memory.Fate{Err: refusal})
		wantErr(w.T, lower.Convert(w.Context(), "u"), coordinator.ErrRefused)
		if time.Sleep(61 * time.Second); len(seen) != 0 { // it may still succeed
			w.Errorf("observed %+v", seen)
		}
		w.release(lower)
		want(w, lower.Token(), "u", coordinator.ErrRefused)
	}, see)
}
