package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// TestContenderOfAnUnansweredChangeIsForgotten when it leaves, and its ID is
// not used again: the first request may still arrive.
func TestContenderOfAnUnansweredChangeIsForgotten(t *testing.T) {
	for op, change := range map[memory.Op]func(ctx context.Context, s *engine.Session, own driver.Joined) (driver.Place, error){
		memory.OpConvert: func(ctx context.Context, s *engine.Session, own driver.Joined) (driver.Place, error) {
			return s.Convert(ctx, queue, own, "r", nil)
		},
		memory.OpWrite: func(ctx context.Context, s *engine.Session, own driver.Joined) (driver.Place, error) {
			return own.Place, s.Write(ctx, queue, own.Place, []byte("v"))
		},
	} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc := memory.NewService()
				s := sessionOn(t, &thrifty{Driver: svc.Driver()})
				id := s.NewID(true)
				own, err := s.Join(t.Context(), queue, driver.Contender{ID: id, Mode: "x"})
				check(t, err)
				svc.OnRequest(memory.Once(op, memory.Fate{DropReply: true}))
				place, err := change(t.Context(), s, own)
				check(t, err)
				check(t, s.Leave(t.Context(), queue, place))
				time.Sleep(time.Minute)
				if n := svc.Stats().Requests[memory.OpForget]; n != 1 || s.NewID(true) == id {
					t.Errorf("forgotten %d times, or its ID is used again", n)
				}
			})
		})
	}
}

// TestIDOfAnUnansweredJoinIsNotUsedAgain: its request may arrive later.
func TestIDOfAnUnansweredJoinIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		s := sessionOn(t, &thrifty{Driver: svc.Driver()})
		id := s.NewID(true)
		ctx, cancel := context.WithCancel(t.Context())
		svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin {
				cancel()
				return memory.Fate{DropReply: true}
			}
			return memory.Fate{}
		})
		if _, err := s.Join(ctx, queue, driver.Contender{ID: id, Mode: "x"}); err == nil {
			t.Fatal("joined")
		}
		for range 3 {
			if s.NewID(true) == id {
				t.Error("the ID is used again")
			}
		}
	})
}

// TestJoinThatItsCallerHasLeftIsBounded: an entry that it may have made blocks
// the queue for half a second.
func TestJoinThatItsCallerHasLeftIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		s := sessionOn(t, svc.Driver())
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // near: the join goes on
		defer cancel()
		svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DelayReply: time.Minute}))
		if _, err := s.Join(ctx, queue, driver.Contender{ID: s.NewID(false), Mode: "x"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Join = %v", err)
		}
		time.Sleep(time.Second)
		if left, err := s.List(t.Context(), queue, 0); err != nil || len(left) != 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

// deafFollower has a Follow that reports a handoff although its context has
// ended, as if both had come at once.
type deafFollower struct {
	driver.Driver
	handoff chan struct{}
}

type deafSession struct {
	driver.Session
	driver.Handoff
	d *deafFollower
}

func (d *deafFollower) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &deafSession{s, s.Capabilities().Handoff, d}, nil
}

func (s *deafSession) Capabilities() driver.Capabilities {
	c := s.Session.Capabilities()
	c.Handoff = s
	return c
}

func (s *deafSession) Follow(context.Context, driver.Queue, driver.Place, driver.Place) (bool, error) {
	<-s.d.handoff
	return true, nil
}

// TestFollowerRemovedAtItsHandoffIsNotFirst: the next in the queue is.
func TestFollowerRemovedAtItsHandoffIsNotFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		d := &deafFollower{svc.Driver(), make(chan struct{})}
		s := sessionOn(t, d)
		ahead := svc.AddForeign(queue)
		own, err := s.Join(t.Context(), queue, driver.Contender{ID: s.NewID(false), Mode: "x"})
		check(t, err)
		end := make(chan error, 1)
		go func() {
			first, err := s.Follow(t.Context(), queue, own.Place, ahead)
			if first {
				t.Error("a contender without an entry is first")
			}
			end <- err
		}()
		time.Sleep(time.Minute)
		svc.Remove(queue, own.Place.Key)
		synctest.Wait()
		close(d.handoff)
		if err := <-end; !errors.Is(err, engine.ErrRemoved) {
			t.Errorf("Follow = %v", err)
		}
	})
}

// TestQueueWatchShowsTheRecord: a raised limit admits without a departure.
func TestQueueWatchShowsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchedOn(t)
		w.join()
		own := w.join()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var shown []driver.Version
		go func() {
			_ = w.WatchQueue(ctx, queue, own.Place, 0, func(v engine.QueueView) bool {
				shown = append(shown, v.Record)
				return false
			})
		}()
		synctest.Wait()
		version, err := w.SetRecord(t.Context(), queue, []byte("5"), 0)
		check(t, err)
		synctest.Wait()
		if !slices.Equal(shown, []driver.Version{0, version}) {
			t.Errorf("shown versions %v, want 0 and %d", shown, version)
		}
	})
}

// TestReleaseWithTheContextOfItsHoldIsBounded: the release itself ends that
// context, and goes on for two seconds.
func TestReleaseWithTheContextOfItsHoldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, end := context.WithCancelCause(t.Context())
		bound, stop := engine.ReleaseContext(hold)
		defer stop()
		end(engine.ErrReleased)
		time.Sleep(time.Second)
		if bound.Err() != nil {
			t.Errorf("after a second: %v", bound.Err())
		}
		time.Sleep(2 * time.Second)
		if bound.Err() == nil {
			t.Error("no bound")
		}
	})
}
