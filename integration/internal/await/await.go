// Package await is how tests on real servers wait.
//
// A test on real servers asserts an order of events and no duration: a busy
// machine delays any event. So a test names the condition that it waits for,
// and no time. The wait fails the test only when the condition hangs, which is
// derived from the deadline of the test's process; after three seconds it says
// what it waits for.
//
// A test that shows that something does not happen lets something else happen
// that comes later, and then checks. For is not for that: see there.
package await

import (
	"context"
	"testing"
	"time"
)

const (
	interval   = 5 * time.Millisecond // between two checks of a condition
	speakAfter = 3 * time.Second      // a wait says what it waits for
	// Steady numbers do not change for so long. A hold watches its entry after
	// 250 ms.
	still = 400 * time.Millisecond
	// A wait takes at most this part of the time that is left for the
	// process's tests, so that a failure leaves time for the others; and no
	// longer than most.
	part = 3
	most = 5 * time.Minute
)

// Hang returns the time at which a wait that begins now is considered to hang.
func Hang(t testing.TB) time.Time {
	now := time.Now()
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return now.Add(min(most, max(0, end.Sub(now))/part))
		}
	}
	return now.Add(most)
}

// Context returns a context for calls that must return: it ends when the test
// does, or when a call would hang.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithDeadline(context.Background(), Hang(t))
	t.Cleanup(cancel)
	return ctx
}

// Until waits until holds returns true, which it calls in the caller's
// goroutine. If it hangs, the test fails and its goroutine ends.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	State(t, what, func() (string, bool) { return "", holds() })
}

// State is Until with a condition that says what it found.
func State(t testing.TB, what string, holds func() (found string, ok bool)) {
	t.Helper()
	w := begin(t, what)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		found, ok := holds()
		if ok {
			return
		}
		w.look(found)
		<-tick.C
	}
}

// Receive waits for a value of a channel, or for its end, and returns the
// value.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	w := begin(t, what)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case v := <-c:
			return v
		case <-tick.C:
		}
		select { // an outcome that is there counts even if this goroutine is late
		case v := <-c:
			return v
		default:
			w.look("")
		}
	}
}

// Steady waits until a number has not changed for a while: no more requests are
// sent, no more bytes arrive. A machine that stands still can end it too early,
// so it is for numbers whose later change does no harm, or fails the test.
func Steady(t testing.TB, what string, number func() int64) {
	t.Helper()
	last, since := number(), time.Now()
	State(t, what, func() (string, bool) {
		if now := number(); now != last {
			last, since = now, time.Now()
		}
		return "", time.Since(since) > still
	})
}

// wait is a wait that has begun.
type wait struct {
	t           testing.TB
	what        string
	began, hang time.Time
	said        bool
}

func begin(t testing.TB, what string) *wait {
	return &wait{t: t, what: what, began: time.Now(), hang: Hang(t)}
}

// look is called while the condition does not hold.
func (w *wait) look(found string) {
	w.t.Helper()
	if found != "" {
		found = ": " + found
	}
	now := time.Now()
	switch {
	case now.After(w.hang):
		w.t.Fatalf("not within %v: %s%s", now.Sub(w.began).Round(time.Second), w.what, found)
	case !w.said && now.Sub(w.began) > speakAfter:
		w.said = true
		w.t.Logf("waiting: %s%s", w.what, found)
	}
}

// For lets time pass where time itself is what the test is made of: the length
// of a fault, a random moment for it, the work of a holder. It ends early if
// ctx does. No test may wait for an effect with it: Until does.
func For(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
