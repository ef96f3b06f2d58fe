package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// wait is a call that waits for a change: Head or Record.
type wait struct {
	name string
	do   func(ctx context.Context, s *engine.Session, known driver.Version) (driver.Version, error)
	stir func(w world, s *engine.Session) // makes a change
}

var waits = []wait{
	{"Head", func(ctx context.Context, s *engine.Session, known driver.Version) (driver.Version, error) {
		h, err := s.Head(ctx, queue, known)
		return h.Version, err
	}, func(w world, s *engine.Session) { w.join(s) }},
	{"Record", func(ctx context.Context, s *engine.Session, known driver.Version) (driver.Version, error) {
		r, err := s.Record(ctx, queue, known)
		return r.Version, err
	}, func(w world, s *engine.Session) {
		_, err := s.SetRecord(w.Context(), queue, []byte("new"), 0)
		check(w, err)
	}},
}

// waiting runs a test for each call, while it waits in an empty queue.
func waiting(t *testing.T, f func(w world, s *engine.Session, got <-chan error, stir func()), ctx func(w world) context.Context) {
	t.Helper()
	for _, c := range waits {
		t.Run(c.name, func(t *testing.T) {
			within(t, func(w world) {
				s := w.session()
				if v, err := c.do(w.Context(), s, driver.Any); v != 0 || err != nil {
					w.Fatalf("nothing there: version %v, %v", v, err)
				}
				other, _ := w.another()
				defer other.Close(w.Context())
				from, err := engine.Of(other).Session(w.Context())
				check(w, err)
				got := make(chan error, 1)
				go func() {
					v, err := c.do(ctx(w), s, 0)
					if err == nil && v == 0 {
						err = fmt.Errorf("returned with the known version")
					}
					got <- err
				}()
				synctest.Wait()
				f(w, s, got, func() { c.stir(w, from) })
			})
		})
	}
}

func TestWaitsEndWithTheChange(t *testing.T) {
	waiting(t, func(w world, s *engine.Session, got <-chan error, stir func()) {
		time.Sleep(time.Hour) // longer than the bound of a request
		select {
		case err := <-got:
			w.Fatalf("ended without a change: %v", err)
		default:
		}
		stir()
		check(w, <-got)
	}, world.Context)
}

// TestWaitsOutliveOutages: the change happens during the fault, or right after.
func TestWaitsOutliveOutages(t *testing.T) {
	for _, outage := range []func(w world, s *engine.Session, stir func()){
		func(w world, _ *engine.Session, stir func()) {
			w.svc.Stop()
			time.Sleep(3 * time.Second)
			w.svc.Start()
			stir()
		},
		func(w world, _ *engine.Session, stir func()) { w.link.Reset(); stir() },
		func(w world, _ *engine.Session, stir func()) {
			w.link.Cut()
			stir()
			time.Sleep(time.Second)
			w.link.Reset()
			w.link.Heal()
		},
	} {
		waiting(t, func(w world, s *engine.Session, got <-chan error, stir func()) {
			outage(w, s, stir)
			if err := <-got; err != nil || s.Err() != nil {
				w.Errorf("%v; session %v", err, s.Err())
			}
		}, world.Context)
	}
}

func TestWaitsEndByContextSessionAndClose(t *testing.T) {
	mine := errors.New("mine")
	waiting(t, func(w world, s *engine.Session, got <-chan error, _ func()) {
		if err := <-got; err != mine { //nolint:errorlint // unwrapped
			w.Errorf("ended with %v, want its cause itself", err)
		}
		time.Sleep(time.Second)
		if n := w.svc.Stats().Watches; n != 0 {
			w.Errorf("%d watches are left", n)
		}
	}, func(w world) context.Context { return endsIn(w, time.Second, mine) })
	waiting(t, func(w world, s *engine.Session, got <-chan error, _ func()) {
		w.svc.Expire(s.ID())
		if err := <-got; !errors.Is(err, engine.ErrSessionLost) {
			w.Error(err)
		}
	}, world.Context)
	waiting(t, func(w world, s *engine.Session, got <-chan error, _ func()) {
		w.link.Cut() // by the clock
		if err := <-got; !errors.Is(err, engine.ErrSessionLost) {
			w.Error(err)
		}
		w.link.Reset()
		w.link.Heal()
	}, world.Context)
	waiting(t, func(w world, _ *engine.Session, got <-chan error, _ func()) {
		check(w, w.client.Close(w.Context()))
		if err := <-got; !errors.Is(err, engine.ErrClosed) {
			w.Error(err)
		}
	}, world.Context)
	waiting(t, func(w world, _ *engine.Session, got <-chan error, _ func()) {
		w.svc.Stop()
		if err := <-got; !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, mine) {
			w.Errorf("ended with %v while the service was away", err)
		}
		w.svc.Start()
	}, func(w world) context.Context { return endsIn(w, 9*time.Second/10, mine) })
}

// TestReadIsRepeatedButAWaitIsNot: only a request that is answered at once is
// bounded by patience.
func TestReadIsRepeatedButAWaitIsNot(t *testing.T) {
	for _, c := range waits {
		within(t, func(w world) {
			s := w.session()
			n := 0
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op == memory.OpHead || r.Op == memory.OpRecord {
					if n++; n == 1 {
						return memory.Fate{DelayRequest: time.Hour}
					}
				}
				return memory.Fate{}
			})
			if _, err := c.do(w.Context(), s, driver.Any); err != nil || n != 2 {
				w.Errorf("%s: %v after %d requests", c.name, err, n)
			}
			ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
			defer cancel()
			if _, err := c.do(ctx, s, 0); !errors.Is(err, context.DeadlineExceeded) || n != 3 {
				w.Errorf("%s: %v after %d requests", c.name, err, n)
			}
		})
	}
}

// TestCancelledWaitReturnsTheCauseItself, also if it is one of our errors.
func TestCancelledWaitReturnsTheCauseItself(t *testing.T) {
	for _, c := range waits {
		caused(t, func(w world, cause error) {
			s := w.session()
			if _, err := c.do(endsIn(w, time.Second, cause), s, 0); err != cause { //nolint:errorlint // itself
				w.Errorf("%s = %v, want %v itself", c.name, err, cause)
			}
			if s.Err() != nil {
				w.Errorf("%v: session %v", cause, s.Err())
			}
		})
	}
}

// TestRecordIsWrittenIfItsVersionIsKnown. A stale version after a lost reply is
// no definite answer.
func TestRecordIsWrittenIfItsVersionIsKnown(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		v1, err := s.SetRecord(w.Context(), queue, []byte("one"), 0)
		check(w, err)
		if _, err := s.SetRecord(w.Context(), queue, []byte("two"), 0); !errors.Is(err, engine.ErrStale) || engine.MayHaveApplied(err) {
			w.Errorf("SetRecord over another = %v", err)
		}
		w.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DropReply: true}))
		_, err = s.SetRecord(w.Context(), queue, []byte("two"), v1)
		if !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrStale) || !engine.MayHaveApplied(err) {
			w.Errorf("SetRecord whose reply was lost = %v", err)
		}
		r, err := s.Record(w.Context(), queue, v1)
		if err != nil || string(r.Value) != "two" || r.Version == v1 {
			w.Errorf("Record = %+v, %v", r, err)
		}
		if _, err := s.SetRecord(w.Context(), queue, nil, r.Version); !errors.Is(err, engine.ErrInvalid) {
			w.Errorf("SetRecord to nothing = %v", err)
		}
	})
}
