package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
)

// TestLossIsSeenByTheClockBeforeAnyTimerRuns calls the methods of a hold after
// its deadline, each as the first and without a timer: each must notice the
// loss itself. The wall clock does not advance, so it does not help either.
func TestLossIsSeenByTheClockBeforeAnyTimerRuns(t *testing.T) {
	for what, look := range map[string]func(l *mutex.Lock, work context.Context) error{
		"Lock.Err":             func(l *mutex.Lock, _ context.Context) error { return l.Err() },
		"Lock.Context().Err":   func(l *mutex.Lock, _ context.Context) error { return l.Context().Err() },
		"Err of Do's context":  func(_ *mutex.Lock, work context.Context) error { return work.Err() },
		"Unlock":               func(l *mutex.Lock, _ context.Context) error { return l.Unlock(context.Background()) },
		"a second, inner Lock": func(l *mutex.Lock, work context.Context) error { return mustNotReenter(work, l) },
	} {
		t.Run(what, func(t *testing.T) {
			within(t, func(w world) {
				m := w.mutex()
				s := w.session()
				_ = m.Do(w.Context(), func(work context.Context, _ *mutex.Lock) error {
					l, err := m.Lock(work)
					check(w, err)
					held = m
					w.link.Cut()
					s.StopAlarm()
					time.Sleep(time.Until(l.Deadline()))
					if look(l, work) == nil {
						w.Error("alive after its deadline")
					}
					w.link.Reset()
					w.link.Heal()
					return nil
				})
			}, frozen)
		})
	}
}

// frozen is a wall clock that never passes the deadline.
var frozen = engine.WithWallClock(func() time.Time { return time.Unix(0, 0) })

// held is the mutex of the running case.
var held *mutex.Mutex

// mustNotReenter returns an error if, as expected, a lost hold is not
// re-entered.
func mustNotReenter(work context.Context, l *mutex.Lock) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), time.Second)
	defer cancel()
	again, err := held.Lock(ctx)
	if err == nil && again.Token() == l.Token() {
		return nil
	}
	return errors.Join(err, engine.ErrSessionLost)
}

// TestKeptTurnIsNotGrantedAfterASleep: the machine has slept, and no timer of
// the session has run yet. The next caller waits for the service.
func TestKeptTurnIsNotGrantedAfterASleep(t *testing.T) {
	var c wallClock
	within(t, func(w world) {
		m, err := mutex.New(w.client, "kept", mutex.WithRetain(time.Hour))
		check(w, err)
		check(w, w.lock(m).Unlock(w.Context()))
		synctest.Wait()
		w.link.HoldRequests()
		c.step(time.Hour)
		ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
		defer cancel()
		if l, err := m.Lock(ctx); err == nil {
			t.Errorf("granted: %v", l.Unlock(w.Context()))
		}
		w.link.Heal()
		check(w, w.lock(m).Unlock(w.Context()))
	}, engine.WithWallClock(c.now))
}
