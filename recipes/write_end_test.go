package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
)

func TestWriteOfWhatIsNotHeldIsNone(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.release(h)
		wantErr(w.T, h.Write(w.Context(), nil), coordinator.ErrReleased)

		h = w.hold(w.a, w.Context(), write)
		w.svc.Remove(name, h.ID())
		wantErr(w.T, h.Write(w.Context(), nil), coordinator.ErrRemoved)
		wantErr(w.T, context.Cause(h.Context()), coordinator.ErrRemoved) // told by the write
		wantErr(w.T, h.Release(w.Context()), coordinator.ErrRemoved)

		h = w.hold(w.a, w.Context(), write)
		w.svc.Expire(h.Session())
		wantErr(w.T, h.Write(w.Context(), nil), coordinator.ErrSessionLost)
		wantErr(w.T, h.Release(w.Context()), coordinator.ErrSessionLost)
		synctest.Wait()
		w.wantModes("")
	})
}

// TestWriteThatWaitsForItsTurnEndsWithItsHandle, though the grant goes on.
func TestWriteThatWaitsForItsTurnEndsWithItsHandle(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		w.on(memory.OpConvert, func(int) memory.Fate { return memory.Fate{Err: refusal} })
		wantErr(w.T, lower.Convert(w.Context(), "v"), coordinator.ErrRefused) // it has the turn until it is allowed
		got := make(chan error, 1)
		go func() { got <- upper.Write(context.Background(), nil) }()
		synctest.Wait()
		wantErr(w.T, upper.Release(w.Context()), coordinator.ErrRefused)
		wantErr(w.T, <-got, coordinator.ErrReleased)
		wantErr(w.T, lower.Err())
		w.release(lower)
	})
}

// TestWriteGivenUpForARemovalElsewhereRemovesNothing: the cause of the caller's context is not the service's word.
func TestWriteGivenUpForARemovalElsewhereRemovesNothing(t *testing.T) {
	for _, cause := range []error{coordinator.ErrRemoved, coordinator.ErrSessionLost, coordinator.ErrReleased, driver.ErrGone} {
		inWorld(t, func(w world) {
			h := w.hold(w.a, w.Context(), write)
			w.on(memory.OpWrite, func(int) memory.Fate { return memory.Fate{DropReply: true} })
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			wantErr(w.T, h.Write(ctx, nil), cause)
			wantErr(w.T, h.Err())
			w.release(h)
		})
	}
}

// TestReleaseDuringAWriteIsClean: the write may find its entry gone, which is no loss then, or arrive
// when the entry has left, and must make nothing.
func TestReleaseDuringAWriteIsClean(t *testing.T) {
	for _, fate := range []memory.Fate{{DelayRequest: time.Second}, {DelayReply: time.Second}, {DelayRequest: 10 * time.Second}} {
		var lost []event.Event
		see := coordinator.WithObserver(event.ObserverFunc(func(e event.Event) {
			if e.Kind == event.Lost {
				lost = append(lost, e)
			}
		}))
		inWorld(t, func(w world) {
			h := w.hold(w.a, w.Context(), write)
			w.on(memory.OpWrite, func(int) memory.Fate { return fate })
			got := make(chan error, 1)
			go func() { got <- h.Write(context.Background(), []byte("late")) }()
			time.Sleep(500 * time.Millisecond)
			w.release(h)
			if err := <-got; err != nil && !errors.Is(err, coordinator.ErrReleased) {
				w.Errorf("Write = %v", err)
			}
			time.Sleep(time.Minute)
			w.wantModes("")
		}, see)
		if len(lost) != 0 {
			t.Errorf("%+v: told as lost: %v", fate, lost)
		}
	}
}
