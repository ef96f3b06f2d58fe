package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// TestReleaseOutlivesTheContextThatItEnds: Release and Close end the contexts
// derived from a hold's.
func TestReleaseOutlivesTheContextThatItEnds(t *testing.T) {
	derived := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"of the hold": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return ctx, func() {}
		},
		"with a timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"of another hold": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		},
	}
	slow := memory.Fate{DelayRequest: time.Second}
	for what, derive := range derived {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w world) {
				h := w.hold(w.a, w.Context(), read)
				ctx, cancel := derive(h.Context())
				defer cancel()
				if what == "of another hold" {
					r := read
					r.Fresh = true
					other := w.hold(w.a, ctx, r)
					defer w.release(other)
					work, stop := other.Under(ctx)
					defer stop()
					w.on(memory.OpLeave, slow)
					wantErr(w.T, h.Release(work))
					return
				}
				w.on(memory.OpLeave, slow)
				wantErr(w.T, h.Release(ctx))
			})
			inWorld(t, func(w world) {
				h := w.hold(w.a, w.Context(), write)
				ctx, cancel := derive(h.Context())
				defer cancel()
				w.on(memory.OpClose, slow)
				wantErr(w.T, w.a.client.Close(ctx))
				if n := len(w.svc.Sessions()); n > 1 { // that of b
					w.Errorf("%d sessions after Close", n)
				}
			})
		})
	}
}

// TestConversionIsFinishedBeforeItsGoalChanges: after a lost reply and a
// refusal the entry may have either mode.
func TestConversionIsFinishedBeforeItsGoalChanges(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.on(memory.OpConvert, memory.Fate{DropReply: true}, memory.Fate{Err: refusal}, memory.Fate{})
		for _, mode := range []string{"r", "v"} { // both continue in the background
			if err := h.Convert(w.Context(), mode); !coordinator.MayHaveApplied(err) {
				w.Errorf("Convert to %q = %v", mode, err)
			}
		}
		time.Sleep(time.Minute)
		wantErr(w.T, h.Err())
		w.wantModes("v")
		w.release(h)
	})
}

// TestRequestWithoutAModeReentersNoHold: its terms have the mode.
func TestRequestWithoutAModeReentersNoHold(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		_, err := w.a.queue.Acquire(h.Context(), recipes.Request{Op: "x", Terms: &recipes.Terms{
			Initial: []byte("any"), Mode: func(driver.Version) string { return "x" },
			Rule: func(driver.Record, bool) (recipes.Rule, error) { return recipes.Exclusive, nil },
		}})
		wantErr(w.T, err, recipes.ErrOtherMode)
		w.release(h)
	})
}
