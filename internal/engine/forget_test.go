package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// TestForgottenContenderStaysAway in any mode, with any request under way.
func TestForgottenContenderStaysAway(t *testing.T) {
	for _, unheard := range []change{converts, writes} {
		for _, fate := range []memory.Fate{{DelayRequest: 10 * time.Second}, {DropReply: true}, {DropRequest: true}} {
			changed(t, []change{unheard}, func(world, int) memory.Fate { return fate },
				func(w world, s *engine.Session, call func(context.Context) error) {
					ctx, cancel := context.WithTimeout(w.Context(), time.Second)
					defer cancel()
					_ = call(ctx)
					w.link.Delay(100*time.Millisecond, 100*time.Millisecond)
					check(w, s.Forget(w.Context(), queue, contender.ID))
					if len(w.svc.Snapshot(queue)) != 0 {
						w.Errorf("%+v: forgotten, but %v", fate, w.svc.Snapshot(queue))
					}
					time.Sleep(time.Minute)
					if len(w.svc.Snapshot(queue)) != 0 {
						w.Errorf("%+v: came back as %v", fate, w.svc.Snapshot(queue))
					}
				})
		}
	}
}

func TestRemovalsContinueInTheBackground(t *testing.T) {
	for _, leave := range []func(w world, s *engine.Session){
		func(w world, s *engine.Session) {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			if err := s.Forget(ctx, queue, contender.ID); !errors.Is(err, engine.ErrUnavailable) {
				w.Error(err)
			}
		},
		func(w world, s *engine.Session) {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			own := w.svc.Snapshot(queue)[0].Place
			if err := s.Leave(ctx, queue, own); !errors.Is(err, engine.ErrUnavailable) {
				w.Error(err)
			}
		},
		func(_ world, s *engine.Session) { s.ForgetLater(queue, contender.ID) },
	} {
		within(t, func(w world) {
			s := w.session()
			w.join(s)
			w.svc.Stop()
			leave(w, s)
			synctest.Wait()
			w.svc.Start()
			time.Sleep(time.Second)
			if len(w.svc.Snapshot(queue)) != 0 || s.Err() != nil {
				w.Errorf("a second after the return: %v, session %v", w.svc.Snapshot(queue), s.Err())
			}
		})
	}
}

// TestCleanUpThatFailsIsPaced: FIELD 3. It continues while the session lives,
// with pauses.
func TestCleanUpThatFailsIsPaced(t *testing.T) {
	for _, c := range []struct {
		fate    memory.Fate
		atMost  int
		atLeast int
	}{
		{memory.Fate{DropRequest: true}, 300, 60},               // about every half second
		{memory.Fate{Err: errors.New("no permission")}, 25, 23}, // every quarter of the TTL
	} {
		within(t, func(w world) {
			s := w.session()
			w.join(s)
			var n atomic.Int64
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op != memory.OpForget {
					return memory.Fate{}
				}
				n.Add(1)
				return c.fate
			})
			s.ForgetLater(queue, contender.ID)
			time.Sleep(time.Minute)
			if got := int(n.Load()); got > c.atMost || got < c.atLeast {
				w.Errorf("%+v: %d requests in a minute", c.fate, got)
			}
			w.svc.OnRequest(nil)
			time.Sleep(3 * time.Second)
			if left := w.svc.Snapshot(queue); len(left) != 0 {
				w.Errorf("%+v: left %v", c.fate, left)
			}
		})
	}
}
