package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

// working runs a test with the Do of each recipe, on the first of two clients.
// An election's Run has its own tests.
func working(t *testing.T, f func(w place, ask way, do func(context.Context, work) error)) {
	t.Helper()
	for i, ask := range []way{ways()[0], ways()[1], reading, ways()[2]} {
		worlds(t, []way{ask}, 2, func(w place, ask way) {
			m, _ := newMutex(w.all[0])
			l, _ := newLock(w.all[0])
			s, _ := newSemaphore(w.all[0])
			f(w, ask, []func(context.Context, work) error{m.Do, l.Do, l.RDo, doing(s)}[i])
		})
	}
}

type work = func(context.Context) error

func doing(s *semaphore.Semaphore) func(context.Context, work) error {
	return func(ctx context.Context, f work) error {
		if f == nil {
			return s.Do(ctx, 2, nil)
		}
		return s.Do(ctx, 2, func(ctx context.Context, _ *semaphore.Permit) error { return f(ctx) })
	}
}

func TestDoHoldsWhileTheWorkRuns(t *testing.T) {
	working(t, func(w place, ask way, do func(context.Context, work) error) {
		began := time.Now()
		w.want("Do", do(w.Context(), func(ctx context.Context) error {
			_, err := ask.other().try(w.Context(), w.all[1])
			w.want("try during the work", err, coordinator.ErrTaken)
			time.Sleep(time.Hour) // the session is renewed
			return ctx.Err()
		}), nil)
		if took := time.Since(began); took != time.Hour {
			w.Errorf("Do took %v", took)
		}
		w.release(w.take(ask.other(), 1))
	})
}

func TestDoReturnsTheErrorOfTheWorkItself(t *testing.T) {
	mine := errors.New("mine")
	working(t, func(w place, ask way, do func(context.Context, work) error) {
		err := do(w.Context(), func(context.Context) error { return mine })
		if err != mine { //nolint:errorlint // itself
			w.Errorf("Do = %v", err)
		}
		w.release(w.take(ask.other(), 1))
		w.svc.OnRequest(inOrder(memory.OpLeave, memory.Fate{Err: refusal}))
		err = do(w.Context(), func(context.Context) error { return mine })
		w.want("Do that cannot release", err, mine)
		w.want("Do that cannot release", err, coordinator.ErrRefused)
		w.svc.OnRequest(nil)
		time.Sleep(time.Minute)
		w.want("nil work", do(w.Context(), nil), coordinator.ErrInvalid)
	})
}

func TestDoReleasesWhenTheWorkPanics(t *testing.T) {
	working(t, func(w place, ask way, do func(context.Context, work) error) {
		func() {
			defer func() {
				if recover() != "boom" {
					w.Error("the panic was swallowed")
				}
			}()
			_ = do(w.Context(), func(context.Context) error { panic("boom") })
		}()
		w.release(w.take(ask.other(), 1))
	})
}

// TestDoEndsTheWorkOnALossAndReportsIt, also if the work returns nil or another
// error.
func TestDoEndsTheWorkOnALossAndReportsIt(t *testing.T) {
	working(t, func(w place, ask way, do func(context.Context, work) error) {
		for _, says := range []error{nil, errors.New("mine")} {
			err := do(w.Context(), func(ctx context.Context) error {
				w.links[0].Cut()
				<-ctx.Done()
				w.want("cause", context.Cause(ctx), coordinator.ErrSessionLost)
				return says
			})
			w.links[0].Reset()
			w.links[0].Heal()
			w.want("Do", err, coordinator.ErrSessionLost)
			if says != nil {
				w.want("Do", err, says)
			}
			w.release(w.take(ask.other(), 1))
		}
	})
}

// TestDoEndsTheWorkWithItsCallersContext, whose deadline the work sees, and
// releases although the context has ended.
func TestDoEndsTheWorkWithItsCallersContext(t *testing.T) {
	working(t, func(w place, ask way, do func(context.Context, work) error) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		want, _ := ctx.Deadline()
		err := do(ctx, func(ctx context.Context) error {
			if d, ok := ctx.Deadline(); !ok || !d.Equal(want) {
				w.Errorf("Deadline = %v, %v", d, ok)
			}
			if d, ok := context.WithoutCancel(ctx).Deadline(); ok {
				w.Errorf("WithoutCancel has the deadline %v", d)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		w.want("Do", err, context.DeadlineExceeded)
		w.release(w.take(ask.other(), 1))
	})
}

// TestDoSaysOnceThatTheHoldWasLostBeforeTheWork, and which call failed.
func TestDoSaysOnceThatTheHoldWasLostBeforeTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		expire := event.DirectFunc(func(e event.Event) {
			if e.Kind == event.Granted {
				svc.Expire(e.Session)
				time.Sleep(time.Millisecond) // until the client knows
			}
		})
		c, err := coordinator.New(svc.Driver(), quiet, coordinator.WithObserver(expire))
		check(t, err)
		m, err := mutex.New(c, "jobs")
		check(t, err)
		err = m.Do(t.Context(), func(context.Context) error { t.Error("work was called"); return nil })
		want := `baton: unlock "jobs": session lost: the service ended it`
		if !errors.Is(err, coordinator.ErrSessionLost) || err.Error() != want {
			t.Errorf("Do = %v", err)
		}
		check(t, c.Close(t.Context()))
	})
}
