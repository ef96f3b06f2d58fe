package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// thrifty is a driver with ReuseIDs, whose sessions do not answer a number of
// requests to leave.
type thrifty struct {
	driver.Driver
	unheard int
}

func (d *thrifty) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return &thriftySession{s, d}, err
}

type thriftySession struct {
	driver.Session
	d *thrifty
}

// Capabilities returns ReuseIDs.
func (s *thriftySession) Capabilities() driver.Capabilities {
	c := s.Session.Capabilities()
	c.ReuseIDs = true
	return c
}

func (s *thriftySession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if s.d.unheard > 0 { // it may be applied later
		s.d.unheard--
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Session.Leave(ctx, queue, own)
}

// An ID is reused only when no request of the earlier contender can arrive: a
// late request to leave would remove the next contender.
func TestIDIsReusedOnlyWhenAllRequestsWereAnswered(t *testing.T) {
	for _, unheard := range []int{0, 1, 2} {
		for _, patience := range []time.Duration{time.Second, time.Minute} {
			testRecycling(t, unheard, patience)
		}
	}
}

// sessionOn opens a session on a driver.
func sessionOn(t *testing.T, d driver.Driver) *engine.Session {
	t.Helper()
	c, err := coordinator.New(d, quiet)
	check(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	s, err := engine.Of(c).Session(t.Context())
	check(t, err)
	return s
}

func testRecycling(t *testing.T, unheard int, patience time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		d := &thrifty{memory.NewService().Driver(), unheard}
		s := sessionOn(t, d)
		id := s.NewID(true)
		j, err := s.Join(t.Context(), queue, driver.Contender{ID: id, Mode: "x"})
		check(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := s.Leave(ctx, queue, j.Place); (err == nil) != (unheard == 0 || patience == time.Minute) {
			t.Errorf("%d unheard, patience %v: Leave = %v", unheard, patience, err)
		}
		time.Sleep(time.Minute) // for the clean-up in the background
		if left, err := s.List(t.Context(), queue, 0); err != nil || len(left) > 0 {
			t.Errorf("%d unheard, patience %v: left %v, %v", unheard, patience, left, err)
		}
		if again := s.NewID(true) == id; again != (unheard == 0) {
			t.Errorf("%d unheard, patience %v: reused: %v", unheard, patience, again)
		}
	})
}

// A refused contender has used no name.
func TestIDOfARefusedJoinIsReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		s := sessionOn(t, &thrifty{Driver: svc.Driver()})
		svc.AddForeign(queue)
		id := s.NewID(true)
		if _, err := s.Join(t.Context(), queue, driver.Contender{ID: id, Mode: "x", Alone: true}); !errors.Is(err, engine.ErrTaken) {
			t.Fatal(err)
		}
		if s.NewID(true) != id {
			t.Error("the ID is not reused")
		}
	})
}
