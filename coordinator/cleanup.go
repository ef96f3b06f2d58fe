package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file is what makes "nothing left behind" true: every entry whose fate is open has a goroutine
// that the session owns, which tries until the entry is gone or the session, and the entry with it, has ended.

// Abandon removes an entry of this session in the background, until that is done or the
// session has ended.
func (s *Session) Abandon(line driver.Line, own driver.Place) {
	s.background("leave", line, func(ctx context.Context) error {
		err := s.driver.Leave(ctx, line, own)
		if err == nil || errors.Is(err, errGone) {
			s.settle(line, own.ID)
			return nil
		}
		return err
	})
}

// forget undoes a Join whose outcome is not known.
func (s *Session) forget(line driver.Line, id string) {
	s.background("forget", line, func(ctx context.Context) error { return s.driver.Forget(ctx, line, id) })
}

// stray remembers a contender that joined at the second attempt or later. Its place is known, but a
// request of an earlier attempt may still be under way: delayed in a network that has healed since, it would
// join again after the place was left, and stand in everybody's way until the session ends.
// So such a place is not only left but forgotten as well, which no late request survives.
func (s *Session) stray(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strays == nil {
		s.strays = make(map[string]struct{})
	}
	s.strays[id] = struct{}{}
}

// unstray says that no late join of a contender is to be feared any more, or that its Forget takes care of that. It
// reports whether there was one to be feared.
func (s *Session) unstray(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, stray := s.strays[id]
	delete(s.strays, id)
	return stray
}

// settle forgets a contender that has left, or was removed, if it is a stray.
func (s *Session) settle(line driver.Line, id string) {
	if s.unstray(id) {
		s.forget(line, id)
	}
}

// background runs a clean-up until it succeeds or the session ends. A refusal does not end it: whoever
// took a permission away may give it back, and until then the entry blocks the name.
func (s *Session) background(op string, line driver.Line, f func(context.Context) error) {
	s.Go(func() {
		pause := time.NewTimer(0)
		defer pause.Stop()
		warned := false
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-pause.C:
			}
			err := s.request(s.ctx, op, line, s.TTL()/renewalsPerTTL, f)
			s.client.Observe(Event{Kind: EventCleanedUp, Session: s.ID(), Op: op, Line: line, Err: err})
			if err == nil || s.ctx.Err() != nil {
				return
			}
			if !warned {
				s.client.log.Warn("baton: clean-up fails; until it succeeds the entry stays, at most as long as the session",
					"op", op, "line", line, "session", s.ID(), "error", err)
				warned = true
			}
			pause.Reset(s.TTL() / renewalsPerTTL)
		}
	})
}

// Go runs f in a goroutine that the session owns: closing waits for it, so f must end
// soon after Context does. When the session is over already, f does not run and Go returns false: there is nothing
// left to watch or to clean.
func (s *Session) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Lost { // then wg may be waited for
		return false
	}
	s.wg.Go(f)
	return true
}
