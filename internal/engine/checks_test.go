package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
)

// wallClock is a wall clock that can be set.
type wallClock struct{ ahead atomic.Int64 }

func (c *wallClock) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *wallClock) step(d time.Duration) { c.ahead.Add(int64(d)) }

// withClock runs a test with a client that has its own wall clock and holds a
// lock. After a sleep of the machine the wall clock has run ahead, and the
// service may have ended the session.
func withClock(t *testing.T, f func(w world, c *wallClock, l *mutex.Lock)) {
	t.Helper()
	var c wallClock
	within(t, func(w world) {
		l := w.lock(w.mutex())
		f(w, &c, l)
		_ = l.Unlock(w.Context()) // lost in some tests
	}, engine.WithWallClock(c.now))
}

func TestStepsOfTheWallClockChangeNothing(t *testing.T) {
	withClock(t, func(w world, c *wallClock, l *mutex.Lock) {
		for _, step := range []time.Duration{
			time.Hour, -time.Hour, 24 * time.Hour, -48 * time.Hour, time.Second, -time.Second, 9 * time.Second, 365 * 24 * time.Hour,
		} {
			before := w.svc.Stats().Requests[memory.OpRenew]
			c.step(step)
			if err := l.Err(); err != nil {
				t.Fatalf("at once after a step of %v: %v", step, err)
			}
			if n := w.svc.Stats().Requests[memory.OpRenew] - before; step < 0 && n != 0 {
				t.Errorf("%d renewals for a step of %v", n, step)
			}
			time.Sleep(time.Minute + 300*time.Millisecond) // not when a renewal is due
			if err := l.Context().Err(); err != nil {
				t.Fatalf("after a step of %v: %v", step, context.Cause(l.Context()))
			}
		}
	})
}

func TestServiceIsAskedOnceAfterTheMachineSlept(t *testing.T) {
	withClock(t, func(w world, c *wallClock, l *mutex.Lock) {
		before := w.svc.Stats().Requests[memory.OpRenew]
		w.link.Delay(10*time.Millisecond, 10*time.Millisecond)
		c.step(time.Hour)
		looked := make(chan error)
		for range 20 {
			go func() { looked <- l.Err() }()
		}
		for range 20 {
			check(t, <-looked)
		}
		if n := w.svc.Stats().Requests[memory.OpRenew] - before; n != 1 {
			t.Errorf("%d renewals for 20 calls of Err after one sleep, want 1", n)
		}
		if state, _ := w.session().State(); state != event.StateConnected {
			t.Errorf("the session is %v after the service has confirmed it", state)
		}
	})
}

// TestHoldLostInASleepIsReported: the service has ended the session, and no
// notification arrived, since the connections broke in the sleep. The first
// call of Err reports the loss.
func TestHoldLostInASleepIsReported(t *testing.T) {
	for what, look := range map[string]func(l *mutex.Lock) error{
		"Lock.Err":           (*mutex.Lock).Err,
		"Lock.Context().Err": func(l *mutex.Lock) error { return l.Context().Err() },
		"Unlock":             func(l *mutex.Lock) error { return l.Unlock(context.Background()) },
	} {
		t.Run(what, func(t *testing.T) {
			withClock(t, func(w world, c *wallClock, l *mutex.Lock) {
				w.sleepThroughTheEnd(c)
				if look(l) == nil {
					t.Error("the hold counts as live")
				}
				if err := context.Cause(l.Context()); !errors.Is(err, engine.ErrSessionLost) {
					t.Errorf("cause %v", err)
				}
			})
		})
	}
}

// sleepThroughTheEnd lets the machine sleep while the service ends its session.
// The notification is lost with the connection.
func (w world) sleepThroughTheEnd(c *wallClock) {
	w.Helper()
	s := w.session()
	w.link.HoldReplies()
	if !w.svc.Expire(s.ID()) {
		w.Fatal("no session to expire")
	}
	w.link.Reset()
	w.link.Heal()
	c.step(time.Hour)
}

// TestHolderThatWaitsForDoneIsNotifiedSoonAfterASleep: within a sixteenth of
// the TTL. The driver does not notice the end, and the next renewal is far
// away.
func TestHolderThatWaitsForDoneIsNotifiedSoonAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock wallClock
		svc := memory.NewService()
		c, err := coordinator.New(late{svc.Driver()}, quiet, engine.WithWallClock(clock.now))
		check(t, err)
		defer func() { check(t, c.Close(t.Context())) }()
		s, err := engine.Of(c).Session(t.Context())
		check(t, err)
		time.Sleep(s.TTL()/driver.RenewalsPerTTL + 100*time.Millisecond)
		svc.Expire(s.ID())
		clock.step(time.Hour)
		began := time.Now()
		<-s.Context().Done()
		if took := time.Since(began); took > engine.DefaultTTL/16 {
			t.Errorf("notified after %v", took)
		}
	})
}

// TestSleepWhileTheServiceIsAwayIsALoss: without an answer the session counts
// as lost, long before its deadline on the monotonic clock.
func TestSleepWhileTheServiceIsAwayIsALoss(t *testing.T) {
	withClock(t, func(w world, c *wallClock, l *mutex.Lock) {
		w.link.Cut()
		defer w.link.Heal()
		c.step(time.Hour)
		began := time.Now()
		err := l.Err()
		if !errors.Is(err, engine.ErrSessionLost) || !strings.Contains(err.Error(), "slept") {
			t.Errorf("Err = %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("counted as live for %v", took)
		}
	})
}

// TestSleptWaiterIsNotAdmittedOnItsOldSession: its session ended, and a handoff
// was sent to it, during the sleep.
func TestSleptWaiterIsNotAdmittedOnItsOldSession(t *testing.T) {
	withClock(t, func(w world, c *wallClock, l *mutex.Lock) {
		other, _ := w.another()
		defer func() { _ = other.Close(w.Context()) }()
		m, err := mutex.New(other, "jobs")
		check(t, err)
		_ = l.Unlock(w.Context())
		ahead := w.lock(m)
		waited := make(chan error, 1)
		mine := w.mutex()
		go func() {
			l, err := mine.Lock(w.Context())
			if err == nil {
				err = l.Err()
				_ = l.Unlock(w.Context())
			}
			waited <- err
		}()
		synctest.Wait()
		s := w.session()
		w.link.HoldReplies()
		if err := ahead.Unlock(w.Context()); err != nil { // its notification is delayed
			t.Fatal(err)
		}
		synctest.Wait()
		if !w.svc.Expire(s.ID()) {
			t.Fatal("no session to expire")
		}
		c.step(time.Hour)
		w.link.Heal() // the handoff arrives first
		if err := <-waited; !errors.Is(err, engine.ErrSessionLost) {
			t.Errorf("the waiter that slept through its session's end: %v", err)
		}
	})
}

// TestCallsEndByTheirContextAfterASleep although the service does not answer.
func TestCallsEndByTheirContextAfterASleep(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, w world, m *mutex.Mutex, l *mutex.Lock) error{
		"Lock": func(ctx context.Context, _ world, m *mutex.Mutex, _ *mutex.Lock) error {
			_, err := m.Lock(ctx)
			return err
		},
		"TryLock": func(ctx context.Context, _ world, m *mutex.Mutex, _ *mutex.Lock) error {
			_, err := m.TryLock(ctx)
			return err
		},
		"re-entering Lock": func(ctx context.Context, _ world, m *mutex.Mutex, l *mutex.Lock) error {
			inner, cancel := context.WithCancelCause(l.Context())
			defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
			_, err := m.Lock(inner)
			return err
		},
		"Unlock": func(ctx context.Context, _ world, _ *mutex.Mutex, l *mutex.Lock) error { return l.Unlock(ctx) },
		"Contenders": func(ctx context.Context, _ world, m *mutex.Mutex, _ *mutex.Lock) error {
			_, err := m.Contenders(ctx)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			withClock(t, func(w world, c *wallClock, l *mutex.Lock) {
				m := w.mutex()
				w.link.Cut()
				defer w.link.Heal()
				c.step(time.Hour)
				ctx, cancel := context.WithTimeout(w.Context(), 50*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := call(ctx, w, m, l); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s = %v", what, err)
				}
				if took := time.Since(began); took > 60*time.Millisecond {
					t.Errorf("%s with a context of 50 ms took %v", what, took)
				}
			})
		})
	}
}

// TestObserverThatCallsErrDuringACheckBlocksNoOther: an observer must not call
// Baton; if it does, only it is blocked.
func TestObserverThatCallsErrDuringACheckBlocksNoOther(t *testing.T) {
	for _, back := range []bool{false, true} {
		var c wallClock
		var l *mutex.Lock
		within(t, func(w world) {
			l = w.lock(w.mutex())
			c.step(time.Hour)
			var renewals atomic.Int64
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				return memory.Fate{DropRequest: r.Op == memory.OpRenew && (renewals.Add(1) == 1 || !back)}
			})
			if err := l.Err(); (err == nil) != back {
				t.Errorf("Err = %v", err)
			}
		}, engine.WithWallClock(c.now), coordinator.WithObserver(event.ObserverFunc(func(e event.Event) {
			if e.Kind == event.SessionSuspended {
				_ = l.Err()
			}
		})))
	}
}
