package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// This file is what makes "nothing left behind" true: every entry whose fate is
// open has a goroutine that the session owns, which tries until the entry is
// gone or the session, and the entry with it, has ended.

// Abandon removes an entry of this session in the background, until that is done or the
// session has ended.
func (s *Session) Abandon(queue driver.Queue, own driver.Place) { s.abandon(queue, own, true) }

// abandon is Abandon. certain: no earlier request to leave is without an
// answer, which might be applied late.
func (s *Session) abandon(queue driver.Queue, own driver.Place, certain bool) {
	s.background("leave", queue, func(ctx context.Context) error {
		err := s.driver.Leave(ctx, queue, own)
		if err == nil || errors.Is(err, errGone) {
			if s.settle(queue, own.ID) && certain && err == nil {
				s.retire(own.ID)
			}
			return nil
		}
		certain = false
		return err
	})
}

// forget undoes a Join whose outcome is not known.
func (s *Session) forget(queue driver.Queue, id string) {
	s.background("forget", queue, func(ctx context.Context) error { return s.driver.Forget(ctx, queue, id) })
}

// stray remembers a contender that joined at the second attempt or later. Its
// place is known, but a request of an earlier attempt may still be under way:
// delayed in a network that has healed since, it would join again after the
// place was left, and stand in everybody's way until the session ends. So such
// a place is not only left but forgotten as well, which no late request
// survives.
func (s *Session) stray(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strays == nil {
		s.strays = make(map[string]struct{})
	}
	s.strays[id] = struct{}{}
}

// unstray says that no late join of a contender is to be feared any more, or
// that its Forget takes care of that. It reports whether there was one to be
// feared.
func (s *Session) unstray(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, stray := s.strays[id]
	delete(s.strays, id)
	return stray
}

// settle forgets a contender that has left, or was removed, if it is a stray.
// It reports whether it was none.
func (s *Session) settle(queue driver.Queue, id string) bool {
	stray := s.unstray(id)
	if stray {
		s.forget(queue, id)
	}
	return !stray
}

// NewID returns the ID of a new contender. It is not made from the session,
// since two goroutines on one session are two contenders. It has 96 random
// bits, by which it is nobody else's for ever, as the numbers of a semaphore's
// permits want it; with again 64, by which it is nobody's who stands in the
// queue at the same time. (Every character of it is sent, written down and sent
// back by each lock.)
//
// With again it may be the ID of an earlier contender of this session, if the
// driver wants [driver.Capabilities].ReuseIDs. A name that was used once costs
// etcd something until its history is compacted: it stays in the index that is
// walked to read a queue, or to see that it is empty. With new names for all, a
// queue that is locked a thousand times a second would become slower by the
// minute. So there are as many as the session had contenders at once, and no
// more.
func (s *Session) NewID(again bool) string {
	if again {
		if id, ok := s.retired(); ok {
			return id
		}
	}
	b := make([]byte, 12)
	if again {
		b = b[:8]
	}
	_, _ = rand.Read(b) // never fails: crypto/rand aborts the process instead
	return hex.EncodeToString(b)
}

func (s *Session) retired() (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.ids)
	if n == 0 {
		return "", false
	}
	id, s.ids = s.ids[n-1], s.ids[:n-1]
	return id, true
}

// mostIDs bounds what is kept of a rush.
const mostIDs = 16 << 10

// retire gives back the ID of a contender that has left, by a request that was
// answered, and of whom all earlier requests were answered too: nothing that is
// under way can meet the next one of that ID.
func (s *Session) retire(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, doubted := s.doubts[id]; doubted {
		delete(s.doubts, id)
	} else if s.can.ReuseIDs && len(s.ids) < mostIDs {
		s.ids = append(s.ids, id)
	}
}

// doubt says that a request for a contender had no answer, so that its ID is not to be used again.
func (s *Session) doubt(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubts == nil {
		s.doubts = make(map[string]struct{})
	}
	s.doubts[id] = struct{}{}
}

// background runs a clean-up until it succeeds or the session ends. A refusal
// does not end it: whoever took a permission away may give it back, and until
// then the entry blocks the name.
func (s *Session) background(op string, queue driver.Queue, f func(context.Context) error) {
	e := event.Event{Session: s.ID(), Op: op, Queue: queue}
	tell := func(kind event.Kind, err error) {
		e.Kind, e.Err = kind, err
		s.client.Observe(e)
	}
	s.Go(func() {
		tell(event.Cleaning, nil)
		pause := time.NewTimer(0)
		defer pause.Stop()
		warned := false
		for {
			select {
			case <-s.ctx.Done():
				tell(event.CleanedUp, context.Cause(s.ctx))
				return
			case <-pause.C:
			}
			err := s.request(s.ctx, op, queue, s.patience, func(ctx context.Context) error {
				if s.enter(ctx, s.cleaning) != nil {
					return driver.Wrap(ErrUnavailable, errors.New("many others are being cleaned up"))
				}
				defer func() { <-s.cleaning }()
				return f(ctx)
			})
			switch {
			case err == nil:
				tell(event.CleanedUp, nil)
				return
			case s.ctx.Err() != nil:
				continue
			}
			tell(event.CleanupFailed, err)
			if !warned {
				s.client.log.Warn("baton: clean-up fails; until it succeeds the entry stays, at most as long as the session",
					"op", op, "queue", queue, "session", s.ID(), "error", err)
				warned = true
			}
			pause.Reset(s.TTL() / RenewalsPerTTL)
		}
	})
}

// Go runs f in a goroutine that the session owns: closing waits for it, so f
// must end soon after Context does. When the session is over already, f does
// not run and Go returns false: there is nothing left to watch or to clean.
func (s *Session) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == event.StateLost { // then wg may be waited for
		return false
	}
	s.wg.Go(f)
	return true
}
