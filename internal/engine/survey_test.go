package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// surveyor is a driver whose sessions are Surveyors. What they read is a change from what they have read before whenever that is said.
type surveyor struct {
	driver.Driver
	changed chan struct{}
	away    atomic.Bool // Survey is unavailable
}

type surveyorSession struct {
	driver.Session
	d *surveyor
}

func (d *surveyor) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return surveyorSession{s, d}, err
}

// Capabilities are the session's, and a watch of a whole queue.
func (s surveyorSession) Capabilities() driver.Capabilities {
	c := s.Session.Capabilities()
	c.QueueWatcher = s
	return c
}

func (s surveyorSession) Survey(ctx context.Context, line driver.Line) (driver.View, func(context.Context) error, error) {
	if s.d.away.Load() {
		return driver.View{}, nil, driver.ErrUnavailable
	}
	v, err := s.Ahead(ctx, line, driver.Place{})
	return v, func(ctx context.Context) error {
		select {
		case <-s.d.changed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, err
}

// TestSurveyTellsOfALeavingAmongArrivals: those who are in line are told when somebody has left, and not of those who only come.
func TestSurveyTellsOfALeavingAmongArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &surveyor{Driver: memory.NewService().Driver(), changed: make(chan struct{})}
		s := sessionOn(t, d)
		join := func() driver.Joined {
			j, err := s.Join(t.Context(), line, driver.Contender{ID: s.NewID(false), Mode: "x"})
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		first, own := join(), join()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var shown []int // how many were in the line
		go func() {
			_ = s.Survey(ctx, line, own.Place, 0, func(l engine.Lineup) bool {
				shown = append(shown, len(l.Places))
				return false
			})
		}()
		change := func(want ...int) {
			t.Helper()
			d.changed <- struct{}{}
			synctest.Wait()
			if !slices.Equal(shown, want) {
				t.Errorf("shown lines of %v; want %v", shown, want)
			}
		}
		synctest.Wait()
		join()
		change(2)
		join()
		if err := s.Leave(t.Context(), line, first.Place); err != nil {
			t.Fatal(err)
		}
		join()
		change(2, 4)
	})
}

// TestSurveySitsAnOutageOut: as a watch does, and goes on when the service is back.
func TestSurveySitsAnOutageOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &surveyor{Driver: memory.NewService().Driver(), changed: make(chan struct{})}
		s := sessionOn(t, d)
		j, err := s.Join(t.Context(), line, driver.Contender{ID: s.NewID(false), Mode: "x"})
		if err != nil {
			t.Fatal(err)
		}
		d.away.Store(true)
		judged := make(chan error, 1)
		go func() {
			judged <- s.Survey(t.Context(), line, j.Place, 0, func(l engine.Lineup) bool { return len(l.Places) == 1 })
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		select {
		case err := <-judged:
			t.Fatalf("ended while nothing could be read: %v", err)
		default:
		}
		d.away.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if err := <-judged; err != nil {
			t.Error(err)
		}
	})
}
