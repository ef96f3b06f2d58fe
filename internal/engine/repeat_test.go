package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// TestLostSessionsAreReplacedWithPauses: a service that ends each session at
// once gets few requests.
func TestLostSessionsAreReplacedWithPauses(t *testing.T) {
	within(t, func(w world) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		calls := 0
		err := engine.Of(w.client).OnSession(ctx, func(s *engine.Session) error {
			calls++
			s.Lose()
			return engine.ErrSessionLost
		})
		if !errors.Is(err, context.DeadlineExceeded) || calls < 10 || calls > 1000 {
			t.Errorf("%d calls in a minute, error %v", calls, err)
		}
	})
}

// goexit is an observer and a log handler that ends its goroutine, as a test
// helper with t.FailNow does, at each second event or line.
type goexit struct{ seen []string }

func (g *goexit) see(what string) {
	if g.seen = append(g.seen, what); len(g.seen)%2 == 1 {
		runtime.Goexit()
	}
}

func (g *goexit) Observe(e event.Event)                         { g.see(fmt.Sprint(e.Count)) }
func (g *goexit) Enabled(context.Context, slog.Level) bool      { return true }
func (g *goexit) WithAttrs([]slog.Attr) slog.Handler            { return g }
func (g *goexit) WithGroup(string) slog.Handler                 { return g }
func (g *goexit) Handle(_ context.Context, r slog.Record) error { g.see(r.Message); return nil }

// TestObserverOrLogThatExitsGetsTheRest, and Close does not wait for it.
func TestObserverOrLogThatExitsGetsTheRest(t *testing.T) {
	for _, logs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, g := world{T: t, svc: memory.NewService()}, &goexit{}
			with := coordinator.WithObserver(g)
			if logs {
				with = coordinator.WithLogger(slog.New(g))
			}
			w.client, w.link = w.another(with)
			c := engine.Of(w.client)
			for n := range 5 {
				if logs {
					c.Log().Warn(fmt.Sprint(n))
				} else {
					c.Observe(event.Event{Count: n})
				}
			}
			began := time.Now()
			check(w, w.client.Close(context.Background()))
			if took := time.Since(began); took != 0 || strings.Join(g.seen, "") != "01234" {
				t.Errorf("log %v: delivered %q, Close took %v", logs, g.seen, took)
			}
		})
	}
}

// TestSuspensionIsReportedBeforeTheEnd: a figure of suspended sessions, which
// subtracts at the end by the state before, returns to zero.
func TestSuspensionIsReportedBeforeTheEnd(t *testing.T) {
	for range 100 {
		var kinds []event.Kind
		within(t, func(w world) {
			s := w.session()
			s.Suspend()
			s.Lose()
		}, coordinator.WithObserver(event.ObserverFunc(func(e event.Event) {
			if e.Kind == event.SessionSuspended || e.Kind == event.SessionEnded {
				kinds = append(kinds, e.Kind)
			}
		})))
		if len(kinds) != 2 || kinds[0] != event.SessionSuspended {
			t.Fatalf("the order is %v", kinds)
		}
	}
}

// stubborn is a driver whose Close fails, as those of its sessions do.
type stubborn struct{ *memory.Driver }

func (stubborn) Close(context.Context) error { return errors.New("second") }

// TestCloseReturnsOneLine, also if both the session and the driver fail.
func TestCloseReturnsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := stubborn{memory.NewService().Driver()}
		c, err := coordinator.New(d, quiet)
		check(t, err)
		endWithTest(t, d.Driver, c)
		_, err = c.Session(t.Context())
		check(t, err)
		d.Cut()
		err = c.Close(t.Context())
		if !errors.Is(err, coordinator.ErrUnavailable) || !strings.Contains(err.Error(), "; second") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("Close = %q", err)
		}
	})
}
