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
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/bubble"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/recipes/multilock/quorum"
	"github.com/baton-go/baton/rwlock"
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
			f(w, ask, []func(context.Context, work) error{
				bare(m.Do), bare(l.Do), bare(l.RDo), doing(s)}[i])
		})
	}
}

type work = func(context.Context) error

// bare is a Do with work that does not use its handle.
func bare[H any](
	do func(context.Context, func(context.Context, H) error) error,
) func(context.Context, work) error {
	return func(ctx context.Context, f work) error {
		if f == nil {
			return do(ctx, nil)
		}
		return do(ctx, func(ctx context.Context, _ H) error { return f(ctx) })
	}
}

func doing(s *semaphore.Semaphore) func(context.Context, work) error {
	return bare(two(s))
}

// two is Do with two permits.
func two(s *semaphore.Semaphore) func(
	context.Context, func(context.Context, *semaphore.Permit) error,
) error {
	return func(ctx context.Context, f func(context.Context, *semaphore.Permit) error) error {
		return s.Do(ctx, 2, f)
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
		link := svc.Driver()
		c, err := coordinator.New(link, quiet, coordinator.WithObserver(expire))
		check(t, err)
		bubble.EndIfFailed(t, link, c)
		m, err := mutex.New(c, "jobs")
		check(t, err)
		err = m.Do(t.Context(), func(context.Context, *mutex.Lock) error {
			t.Error("work was called")
			return nil
		})
		want := `baton: unlock "jobs": session lost: the service ended it`
		if !errors.Is(err, coordinator.ErrSessionLost) || err.Error() != want {
			t.Errorf("Do = %v", err)
		}
		check(t, c.Close(t.Context()))
	})
}

// selfReleasing are the calls of all recipes that give work a handle. They call
// work with what releases the handle.
func selfReleasing(all ...*coordinator.Client) map[string]func(context.Context, releasing) error {
	c := all[0]
	m, _ := newMutex(c)
	l, _ := newLock(c)
	s, _ := newSemaphore(c)
	e, _ := newElection(c)
	set, _ := multilock.New(multilock.Mutex(c, "a"), multilock.Write(c, "b"))
	q, _ := quorum.New(all, "n", quorum.Majority)
	return map[string]func(context.Context, releasing) error{
		"mutex":   releaser(m.Do, (*mutex.Lock).Unlock),
		"writer":  releaser(l.Do, (*rwlock.Lock).Unlock),
		"reader":  releaser(l.RDo, (*rwlock.Lock).Unlock),
		"permits": releaser(two(s), (*semaphore.Permit).Release),
		"set":     releaser(set.Do, (*multilock.Lock).Unlock),
		"quorum":  releaser(q.Do, (*quorum.Lock).Unlock),
		"term": releaser(func(
			ctx context.Context, f func(context.Context, *election.Term) error,
		) error {
			return e.Run(ctx, func(ctx context.Context, t *election.Term) error {
				return election.Stop(f(ctx, t))
			})
		}, (*election.Term).Resign),
	}
}

type releasing = func(ctx context.Context, release work) error

func releaser[H any](
	do func(context.Context, func(context.Context, H) error) error,
	release func(H, context.Context) error,
) func(context.Context, releasing) error {
	return func(ctx context.Context, f releasing) error {
		return do(ctx, func(ctx context.Context, h H) error {
			return f(ctx, func(ctx context.Context) error { return release(h, ctx) })
		})
	}
}

// TestWorkMayReleaseItsHandle of each recipe: another contender is admitted
// while the work still runs, without a context by then, and the call returns
// what the work returns.
func TestWorkMayReleaseItsHandle(t *testing.T) {
	for name := range selfReleasing(unused(t)) {
		worlds(t, []way{{name: name, queue: "mutex/n"}}, 1, func(w place, _ way) {
			others := []*coordinator.Client{w.all[0], newParty(w.T, memory.NewService()).client,
				newParty(w.T, memory.NewService()).client}
			do := selfReleasing(others...)[name]
			for _, says := range []error{nil, errors.New("mine")} {
				err := do(w.Context(), func(ctx context.Context, release work) error {
					w.want("release", release(ctx), nil)
					w.want("cause", context.Cause(ctx), coordinator.ErrReleased)
					w.want("second release", release(ctx), coordinator.ErrNotHeld)
					w.want("the next one", do(w.Context(), func(context.Context, work) error {
						return nil
					}), nil)
					return says
				})
				if err != says { //nolint:errorlint // itself
					w.Errorf("the call returns %v, want %v", err, says)
				}
			}
			for _, c := range others[1:] {
				check(w, c.Close(context.Background()))
			}
		})
	}
}

// TestDoReportsALossThatTheWorkFoundWhenItReleased, also if the work hides it.
func TestDoReportsALossThatTheWorkFoundWhenItReleased(t *testing.T) {
	for _, name := range []string{"mutex", "writer", "reader", "permits", "set"} {
		worlds(t, []way{{name: name, queue: "mutex/n"}}, 1, func(w place, _ way) {
			err := selfReleasing(w.all[0])[name](w.Context(),
				func(ctx context.Context, release work) error {
					w.links[0].Cut()
					<-ctx.Done()
					w.want("release", release(ctx), coordinator.ErrSessionLost)
					return nil
				})
			w.links[0].Heal()
			w.want("Do", err, coordinator.ErrSessionLost)
		})
	}
}
