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

// talkative is a driver that returns Nearest also for a repeated join.
type talkative struct{ driver.Driver }

type talkativeSession struct{ driver.Session }

func (d talkative) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return talkativeSession{s}, err
}

func (s talkativeSession) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	j, err := s.Session.Join(ctx, queue, c)
	if err != nil {
		return j, err
	}
	view, err := s.Ahead(ctx, queue, j.Place)
	if n := len(view.Ahead); n > 0 {
		j.Nearest = view.Ahead[n-1]
	}
	return j, err
}

// TestNearestOfAnUncertainJoinIsNotReturned: it may be newer than the join.
func TestNearestOfAnUncertainJoinIsNotReturned(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService()
			s := sessionOn(t, talkative{svc.Driver()})
			ahead := svc.AddForeign(queue)
			if lost {
				svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DropReply: true}))
			}
			j, err := s.Join(t.Context(), queue, contender)
			check(t, err)
			if returned := j.Nearest == ahead; returned == lost {
				t.Errorf("reply lost %t: nearest %+v", lost, j.Nearest)
			}
		})
	}
}

// TestFollowReportsWhichEntryIsGone: for its own it returns ErrRemoved, for the
// predecessor's nil.
func TestFollowReportsWhichEntryIsGone(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		ahead := w.svc.AddForeign(queue)
		own := w.join(s)
		follow := func() <-chan error {
			got := make(chan error, 1)
			go func() {
				passed, err := s.Follow(w.Context(), queue, own.Place, ahead)
				if passed {
					w.Error("a foreign entry passed")
				}
				got <- err
			}()
			synctest.Wait()
			return got
		}
		got := follow()
		w.svc.Remove(queue, ahead.Key)
		if err := <-got; err != nil {
			w.Errorf("the predecessor left: %v", err)
		}
		ahead = w.svc.AddForeign(queue)
		got = follow()
		w.svc.Remove(queue, own.Place.Key)
		if err := <-got; !errors.Is(err, engine.ErrRemoved) {
			w.Errorf("its own entry was removed: %v", err)
		}
	})
}

// TestRefusedWatchOfItsOwnEntryEndsAWait: without that watch, a contender whose
// entry is removed would be admitted by the next handoff.
func TestRefusedWatchOfItsOwnEntryEndsAWait(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		ahead := w.svc.AddForeign(queue)
		own := w.join(s)
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpWatch && r.ID == own.Place.ID {
				return memory.Fate{Err: driver.ErrRefused}
			}
			return memory.Fate{}
		})
		bound, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if _, err := s.Follow(bound, queue, own.Place, ahead); !errors.Is(err, engine.ErrRefused) {
			w.Errorf("the watch of its own entry was refused: %v", err)
		}
	})
}

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
