package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

func TestConversionsRunOneAfterTheOther(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.on(memory.OpConvert, memory.Fate{DelayRequest: time.Second}, memory.Fate{})
		var wg sync.WaitGroup
		for _, mode := range []string{"v", "u", "t"} {
			wg.Go(func() { wantErr(w.T, h.Convert(w.Context(), mode)) })
			synctest.Wait()
		}
		wg.Wait()
		w.wantModes("t")
		if e := w.svc.Snapshot(name)[0]; e.Token != h.Token() || e.ID != h.ID() ||
			e.Session != h.Session() {
			w.Errorf("converted to %+v", e)
		}
		w.release(h)
	})
}

// TestOwnConversionIsNotMistakenForARemoval: the watch of the hold's entry
// fires when it is converted. The hold continues, and watches the new entry.
func TestOwnConversionIsNotMistakenForARemoval(t *testing.T) {
	inWorld(t, func(w world) {
		// The watch and the conversion are answered at the same time.
		w.a.link.Delay(time.Millisecond, time.Millisecond)
		var wg sync.WaitGroup
		for i := range 4 {
			l, err := recipes.NewQueue(w.a.client, "test", fmt.Sprint("queue", i))
			check(w, err)
			wg.Go(func() {
				h := w.hold(party{queue: l}, w.Context(), write)
				time.Sleep(300 * time.Millisecond)
				for i := range 600 {
					wantErr(w.T, h.Convert(w.Context(), fmt.Sprint("m", i)))
					time.Sleep(4 * time.Millisecond)
				}
				wantErr(w.T, h.Err())
				w.release(h)
			})
		}
		wg.Wait()
	})
}

func TestConvertedHoldWatchesItsNewEntry(t *testing.T) {
	// Converted before and after the hold watches its entry.
	for _, held := range []time.Duration{0, time.Second} {
		inWorld(t, func(w world) {
			upper, lower := w.both()
			time.Sleep(held)
			w.release(upper)
			time.Sleep(time.Second)
			wantErr(w.T, lower.Err())
			w.svc.Remove(name, w.svc.Snapshot(name)[0].Key)
			synctest.Wait()
			wantErr(w.T, context.Cause(lower.Context()), coordinator.ErrRemoved)
			wantErr(w.T, lower.Release(w.Context()), coordinator.ErrRemoved)
			wantErr(w.T, w.session(w.a).Err())
			synctest.Wait()
		})
	}
}

// TestEntryRemovedDuringAConversionIsNoticed removes the old or the new entry
// while the conversion has no answer.
func TestEntryRemovedDuringAConversionIsNoticed(t *testing.T) {
	for _, fate := range []memory.Fate{{DelayRequest: time.Second}, {DelayReply: time.Second},
		{DelayRequest: time.Second, DropReply: true}} {
		inWorld(t, func(w world) {
			upper, lower := w.both()
			time.Sleep(time.Second)
			w.on(memory.OpConvert, fate, memory.Fate{})
			got := start(func() error { return upper.Release(context.Background()) })
			time.Sleep(500 * time.Millisecond)
			w.svc.Remove(name, lower.ID())
			err := <-got
			if fate.DelayReply == 0 { // else the conversion succeeded before the removal
				wantErr(w.T, err, coordinator.ErrRemoved)
			}
			time.Sleep(time.Minute)
			wantErr(w.T, lower.Err(), coordinator.ErrRemoved)
			wantErr(w.T, lower.Release(w.Context()), coordinator.ErrRemoved)
			w.wantModes("")
			synctest.Wait()
		})
	}
}

// TestSessionLostDuringAConversionIsReported, ended by the service or by the
// clock.
func TestSessionLostDuringAConversionIsReported(t *testing.T) {
	for _, lose := range []func(w world){
		func(w world) { w.svc.Expire(w.session(w.a).ID()) },
		func(w world) { w.a.link.Cut() },
	} {
		inWorld(t, func(w world) {
			upper, lower := w.both()
			w.on(memory.OpConvert, memory.Fate{DelayRequest: time.Hour})
			got := start(func() error { return upper.Release(context.Background()) })
			lose(w)
			wantErr(w.T, <-got, coordinator.ErrSessionLost)
			wantErr(w.T, context.Cause(lower.Context()), coordinator.ErrSessionLost)
			// It was released before.
			wantErr(w.T, context.Cause(upper.Context()), coordinator.ErrReleased)
			wantErr(w.T, lower.Release(w.Context()), coordinator.ErrSessionLost)
			w.a.link.Reset()
			w.a.link.Heal()
			time.Sleep(2 * time.Hour)
			w.wantModes("")
		})
	}
}

// showing is write, with a Held mode.
var showing = recipes.Request{Op: "write", Mode: "w", Terms: &recipes.Terms{Initial: []byte("any"), Held: "h",
	Rule: func(driver.Record, bool) (recipes.Rule, error) { return recipes.Exclusive, nil }}}

// TestHoldIsConvertedToItsHeldMode after a while, or at once if a contender is
// behind it.
func TestHoldIsConvertedToItsHeldMode(t *testing.T) {
	inWorld(t, func(w world) {
		r := showing
		h := w.hold(w.a, w.Context(), r)
		time.Sleep(249 * time.Millisecond)
		w.wantModes("w")
		time.Sleep(2 * time.Millisecond)
		w.wantModes("h")
		wantErr(w.T, h.Err())

		ctx, cancel := context.WithCancel(w.Context())
		next := make(chan *recipes.Hold, 1)
		go func() {
			h, _ := w.b.queue.Acquire(w.Context(), r)
			next <- h
		}()
		synctest.Wait()
		gone := make(chan error, 1)
		go func() {
			_, err := w.a.queue.Acquire(ctx, write)
			gone <- err
		}()
		synctest.Wait()
		w.release(h)
		h = <-next
		synctest.Wait()
		w.wantModes("hw")
		cancel()
		wantErr(w.T, <-gone, context.Canceled)
		w.release(h)
	})
}
