package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/observe"
	"github.com/baton-go/baton/recipes"
)

// overtime runs a test on a line with options.
func overtime(t *testing.T, opts []recipes.Option, f func(w world, seen *observe.Recorder, log *bytes.Buffer)) {
	t.Helper()
	var seen observe.Recorder
	var log bytes.Buffer
	inWorld(t, func(w world) {
		var err error
		if w.a.line, err = recipes.NewLine(w.a.client, "test", "line", opts...); err != nil {
			t.Fatal(err)
		}
		f(w, &seen, &log)
	}, coordinator.WithObserver(&seen), coordinator.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
}

func TestHoldThatLastsLongIsToldOfOnce(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithHoldWarning(time.Minute)}, func(w world, seen *observe.Recorder, log *bytes.Buffer) {
		for range 3 { // in time
			h := w.hold(w.a, w.Context(), write)
			time.Sleep(59 * time.Second)
			w.release(h)
		}
		if time.Sleep(time.Hour); seen.Count(coordinator.EventHeldLong) != 0 || log.Len() != 0 {
			w.Fatalf("told of holds that were in time: %s", log)
		}
		h := w.hold(w.a, w.Context(), write)
		again := w.hold(w.a, h.Context(), write)
		w.release(h)
		time.Sleep(time.Hour)
		wantErr(w.T, again.Context().Err())
		if n, out := seen.Count(coordinator.EventHeldLong, "test"), log.String(); n != 1 ||
			strings.Count(out, `level=WARN msg="baton: hold lasts long"`) != 1 || !strings.Contains(out, "held=1m0s") || !strings.Contains(out, "line=test/line") {
			w.Errorf("told %d times; log: %s", n, out)
		}
		w.release(again)
		all := seen.Events()
		if e := all[len(all)-1]; e.Kind != coordinator.EventReleased || !e.Long {
			w.Errorf("the release was told as %+v", e)
		}
		if seen.Count(coordinator.EventHeldTooLong) != 0 {
			w.Error("told of as too long")
		}
	})
}

// TestLongestHoldEndsTheContextAndNothingElse: others wait on, the release works, and what is entered again has ended, too.
func TestLongestHoldEndsTheContextAndNothingElse(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Minute), recipes.WithHoldWarning(time.Second)},
		func(w world, seen *observe.Recorder, log *bytes.Buffer) {
			h := w.hold(w.a, w.Context(), lesser())
			began := time.Now()
			<-h.Context().Done()
			if d := time.Since(began); d != time.Minute || !errors.Is(context.Cause(h.Context()), recipes.ErrHeldTooLong) {
				w.Errorf("ended after %v, because %v", d, context.Cause(h.Context()))
			}
			synctest.Wait()
			wantErr(w.T, h.Err())
			wantErr(w.T, h.Write(w.Context(), []byte("late")))
			if _, err := w.b.line.Acquire(w.bounded(time.Minute), write); !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("another one had the name: %v", err)
			}
			if _, err := w.a.line.Acquire(h.Context(), write); !errors.Is(err, recipes.ErrHeldTooLong) {
				w.Errorf("entered again with a context that has ended: %v", err)
			}
			reader := w.hold(w.a, context.WithoutCancel(h.Context()), read)
			if !errors.Is(context.Cause(reader.Context()), recipes.ErrHeldTooLong) {
				w.Error("who enters later is not told")
			}
			if long, tooLong := seen.Count(coordinator.EventHeldLong), seen.Count(coordinator.EventHeldTooLong); long != 1 || tooLong != 1 ||
				!strings.Contains(log.String(), "hold lasts too long; its context was ended") {
				w.Errorf("told %d and %d times; log: %s", long, tooLong, log)
			}
			w.release(h)
			w.release(reader)
			synctest.Wait()
			w.wantModes("")
		})
}

// TestWorkThatRanTooLongWasProtected: Do returns what the work did.
func TestWorkThatRanTooLongWasProtected(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Second)}, func(w world, seen *observe.Recorder, _ *bytes.Buffer) {
		err := w.hold(w.a, w.Context(), write).Do(w.Context(), "unlock", func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != recipes.ErrHeldTooLong { //nolint:errorlint // itself, and nothing else
			w.Errorf("Do = %v", err)
		}
		if seen.Count(coordinator.EventReleased) != 1 || seen.Count(coordinator.EventHeldLong) != 1 {
			w.Errorf("told of %v", seen.Events())
		}
	})
}

// TestWriteIsOneAtATimeAfterTheLongestHold: the context of the hold has ended, and its turn to write has not come for that.
func TestWriteIsOneAtATimeAfterTheLongestHold(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Second)}, func(w world, _ *observe.Recorder, _ *bytes.Buffer) {
		h := w.hold(w.a, w.Context(), write)
		<-h.Context().Done()
		under, most := make(chan int, 1), 0
		under <- 0
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpWrite {
				n := <-under + 1
				most = max(most, n)
				under <- n
				time.AfterFunc(time.Second, func() { under <- <-under - 1 })
				return memory.Fate{DelayReply: time.Second}
			}
			return memory.Fate{}
		})
		done := make(chan error)
		for range 5 {
			go func() { done <- h.Write(context.Background(), nil) }()
		}
		for range 5 {
			wantErr(w.T, <-done)
		}
		if <-under; most != 1 {
			w.Errorf("%d writes at once", most)
		}
		w.release(h)
	})
}

func TestLostHoldIsNotToldOfAsLong(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Minute)}, func(w world, seen *observe.Recorder, _ *bytes.Buffer) {
		h := w.hold(w.a, w.Context(), write)
		w.svc.Expire(h.Session())
		time.Sleep(time.Hour)
		if seen.Count(coordinator.EventHeldLong) != 0 || seen.Count(coordinator.EventLost) != 1 || !errors.Is(context.Cause(h.Context()), coordinator.ErrSessionLost) {
			w.Errorf("told of %v", seen.Events())
		}
	})
}

func TestTimeToHoldIsChecked(t *testing.T) {
	inWorld(t, func(w world) {
		for d, ok := range map[time.Duration]bool{-1: false, time.Microsecond: false, 0: true, time.Millisecond: true, 24 * time.Hour: true} {
			for what, o := range map[string]recipes.Option{"hold warning after": recipes.WithHoldWarning(d), "longest hold": recipes.WithMaxHold(d)} {
				_, err := recipes.NewLine(w.a.client, "test", "line", o)
				if (err == nil) != ok {
					w.Errorf("%v: %v", d, err)
				}
				if err != nil && (!errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), d.String())) {
					w.Errorf("error %v", err)
				}
			}
		}
	})
}
