package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// late is a driver that does not notice the end of a session by itself.
type late struct{ driver.Driver }

func (d late) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return lateSession{s}, err
}

type lateSession struct{ driver.Session }

func (lateSession) Done() <-chan struct{} { return nil }

// Ahead returns a view that is newer than the driver's state of the session.
func (s lateSession) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	v, err := s.Session.Ahead(ctx, queue, own)
	if errors.Is(err, driver.ErrSessionLost) {
		err = driver.ErrGone
	}
	return v, err
}

// TestEntryThatIsGoneWithItsSessionIsNotRemoved: a view of the queue may show
// the end of a session before the driver notices it.
func TestEntryThatIsGoneWithItsSessionIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		s := sessionOn(t, late{svc.Driver()})
		j, err := s.Join(t.Context(), queue, driver.Contender{ID: s.NewID(false), Mode: "x"})
		check(t, err)
		removed, err := s.Join(t.Context(), queue, driver.Contender{ID: s.NewID(false), Mode: "x"})
		check(t, err)
		svc.Remove(queue, removed.Place.Key)
		if _, err := s.Ahead(t.Context(), queue, removed.Place); !errors.Is(err, engine.ErrRemoved) {
			t.Errorf("%v for an entry that was removed", err)
		}
		svc.Expire(s.ID())
		if _, err := s.Ahead(t.Context(), queue, j.Place); !errors.Is(err, engine.ErrSessionLost) {
			t.Errorf("%v for an entry that is gone with its session", err)
		}
		if s.Err() == nil {
			t.Error("the session counts as live")
		}
	})
}
