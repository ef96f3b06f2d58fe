package recipes_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

func TestLeavingTheUpperLevelConvertsTheEntryInOneRequest(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		before := w.svc.Stats().Requests
		w.release(upper)
		w.wantModes("r")
		after := w.svc.Stats().Requests
		if after[memory.OpConvert]-before[memory.OpConvert] != 1 ||
			after[memory.OpJoin] != before[memory.OpJoin] ||
			after[memory.OpLeave] != before[memory.OpLeave] {
			w.Errorf("requests %v, then %v", before, after)
		}
		wantErr(w.T, context.Cause(upper.Context()), coordinator.ErrReleased)
		wantErr(w.T, context.Cause(lower.Context()))
		if upper.Token() != lower.Token() || w.svc.Snapshot(name)[0].Token != lower.Token() {
			w.Error("the token has changed")
		}
		w.release(lower)
		w.wantModes("")
		wantErr(w.T, context.Cause(lower.Context()), coordinator.ErrReleased)
		if n := w.svc.Stats().Requests[memory.OpForget]; n != 0 { // it may affect other contenders
			w.Errorf("%d requests to forget", n)
		}
	})
}

// TestLevelsReleasedAtOnceLeaveNothing: the conversion must not start while the
// entry is being removed.
func TestLevelsReleasedAtOnceLeaveNothing(t *testing.T) {
	inWorld(t, func(w world) {
		for range 2000 {
			upper, lower := w.both()
			var wg sync.WaitGroup
			start := make(chan struct{})
			for _, h := range []*recipes.Hold{upper, lower} {
				wg.Go(func() {
					<-start
					w.release(h)
				})
			}
			close(start)
			wg.Wait()
			synctest.Wait()
			if w.modes() != "" {
				w.Fatalf("left in the queue: %q", w.modes())
			}
		}
	})
}

// TestReleaseWhileAConversionIsUnderWay releases the last hold at every step of
// a conversion, with every fate of the conversion's first two requests. The
// upper level, whose release waits for an answer, is released as well.
func TestReleaseWhileAConversionIsUnderWay(t *testing.T) {
	for _, fate := range []memory.Fate{
		{DelayRequest: time.Second}, {DelayReply: time.Second},
		{DelayRequest: time.Second, DelayReply: time.Second},
		{DelayRequest: time.Second, DropReply: true}, {DelayRequest: time.Minute},
		{DelayReply: time.Minute}, {Err: refusal},
		{DelayReply: 500 * time.Millisecond, Err: refusal},
	} {
		for second := range 2 {
			for after := time.Duration(0); after < 4*time.Second; after += 450 * time.Millisecond {
				inWorld(t, func(w world) {
					upper, lower := w.both()
					fates := slices.Repeat([]memory.Fate{fate}, second+1)
					w.on(memory.OpConvert, append(fates, memory.Fate{})...)
					got := start(func() error { return upper.Release(context.Background()) })
					time.Sleep(after)
					began := time.Now()
					wantErr(w.T, lower.Release(context.Background()))
					if took := time.Since(began); took > 5*time.Second {
						w.Errorf("%+v, after %v: released after %v", fate, after, took)
					}
					if err := <-got; err != nil && !(fate.Err != nil && errors.Is(err, fate.Err)) {
						w.Errorf("%+v, after %v: the upper level: %v", fate, after, err)
					}
					w.wantModes("")
					time.Sleep(2 * time.Minute) // for late requests
					w.wantModes("")
					wantErr(w.T, w.session(w.a).Err())
					w.release(w.hold(w.b, w.Context(), lesser()))
				})
			}
		}
	}
}

func (w world) session(p party) *engine.Session {
	w.Helper()
	s, err := engine.Of(p.client).Session(context.Background())
	check(w, err)
	return s
}

func TestReleaseEndsByItsContextAndContinuesInTheBackground(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		w.svc.Stop()
		for _, h := range []*recipes.Hold{upper, lower} {
			began := time.Now()
			err := h.Release(w.bounded(time.Second))
			wantErr(w.T, err, coordinator.ErrUnavailable, context.DeadlineExceeded)
			if !coordinator.MayHaveApplied(err) {
				w.Errorf("%v does not say that it may have been applied", err)
			}
			if took := time.Since(began); took != time.Second {
				w.Errorf("ended after %v, its context after 1s", took)
			}
		}
		w.svc.Start()
		time.Sleep(3 * time.Second)
		w.wantModes("")
		wantErr(w.T, w.session(w.a).Err())
	})
}

// TestReleaseWithTheContextOfTheHold: the release outlives the hold's context.
func TestReleaseWithTheContextOfTheHold(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		later := memory.Fate{DelayRequest: time.Second}
		w.on(memory.OpConvert, later)
		w.on(memory.OpLeave, later)
		ctx, cancel := context.WithTimeout(upper.Context(), time.Hour)
		defer cancel()
		wantErr(w.T, upper.Release(ctx))
		w.wantModes("r")
		wantErr(w.T, lower.Release(lower.Context()))
		w.wantModes("")

		upper, lower = w.both()
		wantErr(w.T, upper.Release(upper.Context()))
		w.svc.Stop()
		began := time.Now()
		wantErr(w.T, lower.Release(lower.Context()), coordinator.ErrUnavailable)
		if took := time.Since(began); took != 2*time.Second {
			w.Errorf("ended after %v, want 2s", took)
		}
		w.svc.Start()
		time.Sleep(3 * time.Second)
		w.wantModes("")
	})
}
