package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// payload returns the payload of the first in the queue.
func (w world) payload() string {
	w.Helper()
	list, err := w.b.queue.List(context.Background(),
		func(string) recipes.Rule { return recipes.Exclusive })
	if err != nil || len(list) == 0 {
		w.Fatalf("List = %v, %v", list, err)
	}
	return string(list[0].Payload)
}

func TestWriteChangesThePayloadAlone(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		before := w.svc.Snapshot(name)[0]
		time.Sleep(time.Minute)
		wantErr(w.T, h.Write(w.Context(), []byte("one")))
		if n := w.svc.Stats().Requests[memory.OpWrite]; n != 1 {
			w.Errorf("%d requests", n)
		}
		list, err := w.b.queue.List(w.Context(),
			func(string) recipes.Rule { return recipes.Exclusive })
		wantErr(w.T, err)
		if c := list[0]; string(c.Payload) != "one" || c.Identity != w.a.client.Identity() ||
			time.Since(c.Since) != time.Minute ||
			c.Key != before.Key || c.ID != before.ID || c.Token != before.Token || !c.Holding {
			w.Errorf("listed as %+v", c)
		}
		wantErr(w.T, h.Write(w.Context(), nil))
		if p := w.payload(); p != "" {
			w.Errorf("payload %q after it was removed", p)
		}
		w.release(h)
	})
}

func TestWriteOfTooMuchIsRefusedWithTheRule(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		requests := w.svc.Stats().Total()
		err := h.Write(w.Context(), make([]byte, recipes.MaxPayload+1))
		wantErr(w.T, err, coordinator.ErrInvalid)
		if s := fmt.Sprint(err); !strings.Contains(s, "4097") || !strings.Contains(s, "4096") {
			w.Errorf("%v lacks the value or the rule", err)
		}
		if n := w.svc.Stats().Total() - requests; n != 0 {
			w.Errorf("%d requests", n)
		}
		wantErr(w.T, h.Write(w.Context(), make([]byte, recipes.MaxPayload)))
		w.release(h)
	})
}

func TestWriteKeepsItsOwnCopy(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), lesser())
		p := []byte("mine")
		wantErr(w.T, h.Write(w.Context(), p))
		p[0] = 'X'
		wantErr(w.T, h.Convert(w.Context(), "r")) // writes the value again
		if got := w.payload(); got != "mine" {
			w.Errorf("payload %q", got)
		}
		w.release(h)
	})
}

// TestWritesOfOneGrantRunOneAfterTheOther: whatever happens to single requests,
// listings show the payload of the last call that returned.
func TestWritesOfOneGrantRunOneAfterTheOther(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		inner := w.hold(w.a, h.Context(), write)
		fates := []memory.Fate{{}, {DelayRequest: 30 * time.Second}, {DropReply: true},
			{DropRequest: true}, {DelayReply: time.Second}}
		w.on(memory.OpWrite, slices.Repeat(fates, 10)...)
		var mu sync.Mutex
		var last string
		var wg sync.WaitGroup
		for i, h := range []*recipes.Hold{h, inner, h, inner, h, inner} {
			wg.Go(func() {
				wantErr(w.T, h.Write(w.Context(), fmt.Append(nil, i)))
				mu.Lock()
				defer mu.Unlock()
				last = fmt.Sprint(i)
			})
		}
		wg.Wait()
		time.Sleep(2 * time.Minute) // for late requests
		if got := w.payload(); got != last {
			w.Errorf("shown is %q, written last %q", got, last)
		}
		w.release(h)
		w.release(inner)
	})
}

func TestWriteEndsByItsContext(t *testing.T) {
	mine := errors.New("mine")
	for _, block := range []func(w world, h *recipes.Hold){
		func(w world, _ *recipes.Hold) { w.svc.Stop() },
		func(w world, _ *recipes.Hold) { w.a.link.Cut() },
		func(w world, h *recipes.Hold) { // during another write
			w.on(memory.OpWrite, memory.Fate{DelayRequest: time.Hour})
			go func() { _ = h.Write(context.Background(), nil) }()
		},
		func(w world, h *recipes.Hold) { // during a conversion
			w.on(memory.OpConvert, memory.Fate{Err: refusal})
			go func() { _ = h.Convert(context.Background(), "r") }()
		},
	} {
		inWorld(t, func(w world) {
			h := w.hold(w.a, w.Context(), write)
			block(w, h)
			synctest.Wait()
			began := time.Now()
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, mine)
			defer cancel()
			wantErr(w.T, h.Write(ctx, []byte("one")), mine)
			if took := time.Since(began); took != time.Second {
				w.Errorf("ended after %v, its context after 1s", took)
			}
			w.svc.Start()
			w.a.link.Heal()
			time.Sleep(time.Second)
			_ = h.Release(context.Background())
			time.Sleep(3 * time.Second)
			w.wantModes("")
		})
	}
}

// TestWriteAndConversionDoNotMeet: the write would not find its entry, and the
// conversion would restore the old payload.
func TestWriteAndConversionDoNotMeet(t *testing.T) {
	for _, slow := range []memory.Op{memory.OpWrite, memory.OpConvert} {
		for _, fate := range []memory.Fate{{DelayRequest: time.Second}, {DelayReply: time.Second},
			{DelayReply: 20 * time.Second}} {
			for _, writeFirst := range []bool{true, false} {
				inWorld(t, func(w world) {
					upper, lower := w.both()
					time.Sleep(time.Second)
					w.on(slow, fate, memory.Fate{})
					steps := []func(){
						func() { wantErr(w.T, lower.Write(w.Context(), []byte("new"))) },
						func() { w.release(upper) },
					}
					if !writeFirst {
						steps[0], steps[1] = steps[1], steps[0]
					}
					var wg sync.WaitGroup
					for _, step := range steps {
						wg.Go(step)
						synctest.Wait()
					}
					wg.Wait()
					time.Sleep(time.Minute)
					wantErr(w.T, lower.Err())
					w.wantModes("r")
					if got := w.payload(); got != "new" {
						w.Errorf("payload %q", got)
					}
					w.release(lower)
				})
			}
		}
	}
}

func TestWriteOrConversionOfALostHoldFails(t *testing.T) {
	for _, call := range []func(ctx context.Context, h *recipes.Hold) error{
		func(ctx context.Context, h *recipes.Hold) error { return h.Write(ctx, nil) },
		func(ctx context.Context, h *recipes.Hold) error { return h.Convert(ctx, "r") },
	} {
		inWorld(t, func(w world) {
			h := w.hold(w.a, w.Context(), write)
			w.release(h)
			wantErr(w.T, call(w.Context(), h), coordinator.ErrReleased)
			h = w.hold(w.a, w.Context(), write)
			w.svc.Remove(name, h.ID())
			wantErr(w.T, call(w.Context(), h), coordinator.ErrRemoved)
			wantErr(w.T, context.Cause(h.Context()), coordinator.ErrRemoved) // noticed by the call
			wantErr(w.T, h.Release(w.Context()), coordinator.ErrRemoved)
			h = w.hold(w.a, w.Context(), write)
			w.svc.Expire(h.Session())
			wantErr(w.T, call(w.Context(), h), coordinator.ErrSessionLost)
			wantErr(w.T, h.Release(w.Context()), coordinator.ErrSessionLost)
			synctest.Wait()
			w.wantModes("")
		})
	}
}

// TestWriteThatWaitsForAnotherEndsWithItsHandle, although the grant is alive.
func TestWriteThatWaitsForAnotherEndsWithItsHandle(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		w.on(memory.OpConvert, memory.Fate{Err: refusal})
		// It holds g.writing until the service allows it.
		wantErr(w.T, lower.Convert(w.Context(), "v"), coordinator.ErrRefused)
		got := start(func() error { return upper.Write(context.Background(), nil) })
		wantErr(w.T, upper.Release(w.Context()), coordinator.ErrRefused)
		wantErr(w.T, <-got, coordinator.ErrReleased)
		wantErr(w.T, lower.Err())
		w.release(lower)
	})
}

// TestWriteCancelledByARemovalElsewhereRemovesNothing: the cause of the
// caller's context does not come from the service.
func TestWriteCancelledByARemovalElsewhereRemovesNothing(t *testing.T) {
	for _, cause := range []error{coordinator.ErrRemoved, coordinator.ErrSessionLost,
		coordinator.ErrReleased, driver.ErrGone} {
		inWorld(t, func(w world) {
			h := w.hold(w.a, w.Context(), write)
			w.on(memory.OpWrite, memory.Fate{DropReply: true})
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			wantErr(w.T, h.Write(ctx, nil), cause)
			wantErr(w.T, h.Err())
			w.release(h)
		})
	}
}

// TestReleaseDuringAWriteIsClean: the write may not find its entry, which is no
// loss then. If it arrives after the release, it must create nothing.
func TestReleaseDuringAWriteIsClean(t *testing.T) {
	for _, fate := range []memory.Fate{{DelayRequest: time.Second}, {DelayReply: time.Second},
		{DelayRequest: 10 * time.Second}} {
		var lost []event.Event
		see := coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
			if e.Kind == event.Lost {
				lost = append(lost, e)
			}
		}))
		inWorld(t, func(w world) {
			h := w.hold(w.a, w.Context(), write)
			w.on(memory.OpWrite, fate)
			got := start(func() error { return h.Write(context.Background(), []byte("late")) })
			time.Sleep(500 * time.Millisecond)
			w.release(h)
			if err := <-got; err != nil && !errors.Is(err, coordinator.ErrReleased) {
				w.Errorf("Write = %v", err)
			}
			time.Sleep(time.Minute)
			w.wantModes("")
		}, see)
		if len(lost) != 0 {
			t.Errorf("%+v: observed as lost: %v", fate, lost)
		}
	}
}
