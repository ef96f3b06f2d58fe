package engine

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// begun is the context of an attempt with an hour's patience.
func begun(t *testing.T, ctx context.Context) (b *bounded, patience *alarms) {
	t.Helper()
	patience = newAlarms(time.Hour)
	b = begin(ctx, patience)
	t.Cleanup(b.end)
	return b, patience
}

// TestAttemptEndsWithWhicheverEndsFirst: and so do the contexts that come from its own, which never tell whose end it was.
func TestAttemptEndsWithWhicheverEndsFirst(t *testing.T) {
	errCaller := errors.New("the caller's own")
	for name, end := range map[string]func(cancel context.CancelCauseFunc, b *bounded, patience *alarms){
		"the caller":  func(cancel context.CancelCauseFunc, _ *bounded, _ *alarms) { cancel(errCaller) },
		"the session": func(_ context.CancelCauseFunc, _ *bounded, patience *alarms) { patience.sound() },
		"patience":    func(context.CancelCauseFunc, *bounded, *alarms) { time.Sleep(time.Hour) },
		"the attempt": func(_ context.CancelCauseFunc, b *bounded, _ *alarms) { b.end() },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), t, "value"))
			b, patience := begun(t, ctx)
			goroutines := runtime.NumGoroutine()
			child, stop := context.WithCancel(context.WithValue(b, b, "its own")) // as clients do
			defer stop()
			if n := runtime.NumGoroutine(); n != goroutines {
				t.Errorf("%s: %d goroutines for a context that comes from it", name, n-goroutines)
			}
			called, taken := make(chan struct{}), false
			context.AfterFunc(b, func() { close(called) })
			context.AfterFunc(b, func() { taken = true })()
			synctest.Wait()
			if b.Err() != nil || child.Err() != nil || child.Value(t) != "value" {
				t.Fatalf("%s: over before anything has happened: %v, %v; value %v", name, b.Err(), child.Err(), child.Value(t))
			}
			end(cancel, b, patience)
			synctest.Wait()
			<-b.Done()
			<-child.Done()
			<-called
			for of, c := range map[string]context.Context{"the context": b, "one that comes from it": child} {
				if err, cause := c.Err(), context.Cause(c); err != context.Canceled || cause != context.Canceled { //nolint:errorlint // these very ones
					t.Errorf("%s: the error of %s is %v, and its cause %v", name, of, err, cause)
				}
			}
			if late := name == "the session" || name == "patience"; b.rang.Load() != late || taken {
				t.Errorf("%s: late: %v; what was taken back was called: %v", name, b.rang.Load(), taken)
			}
			if _, ok := b.Deadline(); ok {
				t.Errorf("%s: it shows a deadline", name)
			}
		})
	}
}

// TestWhatBeginsAfterTheEndIsOver: of the session, or of the attempt.
func TestWhatBeginsAfterTheEndIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patience := newAlarms(time.Hour)
		patience.sound()
		b := begin(t.Context(), patience)
		defer b.end()
		if b.Err() == nil {
			t.Error("not over at once")
		}
		called := false
		stop := context.AfterFunc(b, func() { called = true })
		synctest.Wait()
		if b.Err() == nil || !called || stop() {
			t.Errorf("error %v, called %v", b.Err(), called)
		}
		<-b.Done()
	})
}

// TestAlarmsSoundForThoseOfLaterToo: and no timer is left.
func TestAlarmsSoundForThoseOfLaterToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, rung := newAlarms(time.Second), 0
		add := func() *Alarm {
			a := new(Alarm)
			q.add(a, bell(func() { rung++ }))
			return a
		}
		add()
		add().Stop()
		q.sound()
		if rung != 1 {
			t.Errorf("%d rang; want the one that was not stopped", rung)
		}
		late := add()
		synctest.Wait()
		late.Stop()
		time.Sleep(time.Minute)
		if rung != 2 {
			t.Errorf("%d rang; want two", rung)
		}
	})
}
