package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// This file implements P4, "nothing left behind". For each entry that a call
// could not remove, or that a request without an answer may have created, the
// session has a goroutine that retries until the entry is gone or the session
// has ended.
//
//	Leave, Pass   remove an entry whose place is known
//	Forget        removes a contender whatever its place, and prevents that a
//	              late request of it is applied
//	LeaveLater    is Leave in the background
//	ForgetLater   is Forget in the background

// Leave removes an entry of this session. The error is ErrNotHeld if it was
// already gone. If ctx ends first or the service refuses, the removal continues
// in the background.
func (s *Session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, s.driver.Leave)
}

// Pass is Leave for an exclusive entry that is first in the queue. It notifies
// the successor that it is first now.
func (s *Session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, s.can.Handoff.Pass)
}

func (s *Session) leave(
	ctx context.Context, queue driver.Queue, own driver.Place,
	leave func(context.Context, driver.Queue, driver.Place) error,
) error {
	uncertain, gone := false, false
	err := s.request(ctx, "leave", queue, s.patience, func(ctx context.Context) error {
		err := leave(ctx, queue, own)
		gone = errors.Is(err, driver.ErrGone)
		if gone && uncertain {
			return nil // an earlier attempt removed it, and its reply was lost
		}
		uncertain = uncertain || unanswered(err)
		return err
	})
	switch {
	case err == nil:
		s.left(queue, own.ID, !uncertain)
		return nil
	case gone:
		s.left(queue, own.ID, false)
		return ErrNotHeld
	}
	s.leaveLater(queue, own, !uncertain)
	return maybe("leave", queue, err, uncertain)
}

// Forget is for a contender whose last Convert has an unknown outcome. After
// an error it continues in the background.
func (s *Session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	err := s.change(ctx, "leave", queue, true, func(ctx context.Context) error {
		return s.driver.Forget(ctx, queue, id)
	})
	if err != nil {
		s.ForgetLater(queue, id)
		return err
	}
	s.doubted(id)
	return nil
}

// LeaveLater is Leave in the background.
func (s *Session) LeaveLater(queue driver.Queue, own driver.Place) { s.leaveLater(queue, own, true) }

// certain: every earlier request to leave was answered, so none can be applied
// late.
func (s *Session) leaveLater(queue driver.Queue, own driver.Place, certain bool) {
	s.background("leave", queue, func(ctx context.Context) error {
		err := s.driver.Leave(ctx, queue, own)
		switch {
		case err == nil:
			s.left(queue, own.ID, certain)
		case errors.Is(err, driver.ErrGone):
			s.left(queue, own.ID, false)
		default:
			certain = false
			return err
		}
		return nil
	})
}

// ForgetLater is Forget in the background.
func (s *Session) ForgetLater(queue driver.Queue, id string) {
	s.doubted(id)
	s.background("forget", queue, func(ctx context.Context) error {
		return s.driver.Forget(ctx, queue, id)
	})
}

// doubt notes that a request of a contender had no answer. A network may
// deliver it after the entry was removed: a late join would create the entry
// again, and block the queue until the session ends. So the contender is
// forgotten when its entry is gone, and its ID is not reused.
func (s *Session) doubt(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts[id] = struct{}{}
}

// doubted reports whether doubt was called for a contender, and clears that.
func (s *Session) doubted(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, doubted := s.doubts[id]
	delete(s.doubts, id)
	return doubted
}

// left is called when a contender's entry is gone. certain: as for leaveLater.
func (s *Session) left(queue driver.Queue, id string, certain bool) {
	switch {
	case s.doubted(id):
		s.ForgetLater(queue, id)
	case certain:
		s.reuse(id)
	}
}

// background retries a removal until it succeeds or the session ends, also
// after a refusal: permissions can come back, and until then the entry blocks
// the name.
func (s *Session) background(op string, queue driver.Queue, f func(context.Context) error) {
	s.Go(func() {
		s.cleanUpEvent(event.Cleaning, op, queue, nil)
		for warned := false; ; warned = true {
			err := s.remove(op, queue, f)
			if err == nil || s.ctx.Err() != nil {
				s.cleanUpEvent(event.CleanedUp, op, queue, err)
				return
			}
			s.cleanUpEvent(event.CleanupFailed, op, queue, err)
			if !warned {
				s.client.config.Log.Warn("baton: clean-up fails; until it succeeds the entry stays, at most as long as the session",
					"op", op, "queue", queue, "session", s.ID(), "error", err)
			}
			select {
			case <-s.ctx.Done():
			case <-time.After(s.TTL() / AttemptsPerTTL):
			}
		}
	})
}

// remove is one round of background. It ends when the service answers.
func (s *Session) remove(op string, queue driver.Queue, f func(context.Context) error) error {
	if err := s.enter(s.ctx, s.removals); err != nil {
		return err
	}
	defer func() { <-s.removals }()
	return s.request(s.ctx, op, queue, s.patience, f)
}

func (s *Session) cleanUpEvent(kind event.Kind, op string, queue driver.Queue, err error) {
	s.client.Observe(event.Event{Kind: kind, Session: s.ID(), Op: op, Queue: queue, Err: err})
}
