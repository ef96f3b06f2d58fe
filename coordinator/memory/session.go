package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// session is a session, as its client and as the service know it. Client and
// service learn of each other's part over the link only.
type session struct {
	driver *Driver
	id     string
	ttl    time.Duration

	// The client's part; ended and seen are guarded by the service's mutex.
	done   chan struct{}
	forgot atomic.Uint64 // counts the calls of Forget
	writes atomic.Uint64 // counts the calls of Write
	ended  bool          // the client knows that the session is over
	seen   driver.Token  // the newest revision that a Watch has reported

	// The service's part, guarded by its mutex.
	over     bool
	deadline time.Time
	timer    *time.Timer
	epoch    uint64 // of the latest Forget: Joins that were called before are refused
	entries  map[*entry]struct{}
	watches  map[*watch]struct{}
}

// open starts a session at the service. The timer is the service's own, so a
// lost answer leaves nothing that outlives the TTL (O4).
func (s *Service) open(d *Driver, ttl time.Duration) *session {
	s.opened++
	opened := &session{
		// counted, so that the output of a test is the same in every run
		driver: d, id: fmt.Sprintf("%016x", s.opened), ttl: ttl,
		done:    make(chan struct{}),
		entries: map[*entry]struct{}{},
		watches: map[*watch]struct{}{},
	}
	s.sessions[opened.id] = opened
	d.untold[opened] = struct{}{}
	opened.timer = time.AfterFunc(ttl, opened.expire)
	opened.renew(0)
	return opened
}

// renew counts the TTL from now, the arrival of a renewal, or from a little
// later.
func (s *session) renew(later time.Duration) {
	life := s.ttl - s.driver.svc.slack + later
	s.deadline = time.Now().Add(life)
	s.timer.Reset(life)
}

// expire runs when the timer fires. Before it gets the lock a renewal may have
// arrived, the service may have been stopped or the session ended: only the
// deadline decides.
func (s *session) expire() {
	svc := s.driver.svc
	svc.mu.Lock()
	defer svc.mu.Unlock()
	if s.over || svc.stopped || time.Now().Before(s.deadline) {
		return
	}
	s.end(ByClock)
}

// end ends a session at the service. Its own watches go first: a waiter of the
// session must not be told that an entry has left, and take it for its
// admission.
func (s *session) end(by Hand) {
	svc := s.driver.svc
	s.over = true
	s.timer.Stop()
	delete(svc.sessions, s.id)
	for _, w := range inOrder(s.watches) {
		svc.unregister(w)
		w.call.reply(errLost)
	}
	svc.revision++
	left := slices.SortedFunc(maps.Keys(s.entries), func(a, b *entry) int {
		return cmp.Compare(a.Token, b.Token)
	})
	for _, e := range left {
		svc.remove(e, by, false)
	}
	for _, e := range left {
		svc.notify(string(e.queue.name))
	}
	s.tell()
}

// tell sends the client word that its session is over.
func (s *session) tell() {
	s.driver.replies.carry(s.driver.svc, 0, s.hear)
}

// hear is the moment at which the client knows that its session is over, by
// whatever message comes first.
func (s *session) hear() {
	if s.ended || s.driver.closed {
		return
	}
	s.ended = true
	delete(s.driver.untold, s)
	close(s.done)
}

// These are facts that the client knows without asking. See driver.Session.

func (s *session) ID() string            { return s.id }
func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Slack() time.Duration  { return s.driver.svc.slack }
func (s *session) Done() <-chan struct{} { return s.done }

// Capabilities are all that recipes of Baton's own layout use.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s,
	}
}

// do sends a request of this session. A session that the client knows to be
// over costs no request. apply runs at the service while the session is alive
// there; if it registers a watch, that answers later.
func (s *session) do(ctx context.Context, req Request, apply func(*call) error) error {
	select {
	case <-s.done:
		return errLost
	default:
	}
	req.Session = s.id
	err := s.driver.do(ctx, req, func(c *call) {
		if s.over {
			c.reply(errLost)
			return
		}
		if err := apply(c); c.watch == nil {
			c.reply(err)
		}
	})
	if errors.Is(err, driver.ErrSessionLost) {
		// The reply may have overtaken the word of the session's end, or that
		// word was lost with a connection.
		s.lock(s.hear)
	}
	return err
}

// ask is do for a request whose answer is a value.
func ask[T any](ctx context.Context, s *session, req Request, apply func() (T, error)) (T, error) {
	var answer, none T
	err := s.do(ctx, req, func(*call) (err error) {
		answer, err = apply()
		return err
	})
	if err != nil {
		return none, err // answer may be written later, see Driver.do
	}
	return answer, nil
}

// lock calls f under the service's mutex.
func (s *session) lock(f func()) {
	s.driver.svc.mu.Lock()
	defer s.driver.svc.mu.Unlock()
	f()
}

// Renew asks the service to keep the session: the TTL counts from the arrival.
func (s *session) Renew(ctx context.Context) error {
	return s.do(ctx, Request{Op: OpRenew}, func(*call) error {
		s.renew(0)
		return nil
	})
}

// Close ends the session at the service. Nothing runs in this process for a
// session, so there is nothing to release when the service does not answer.
func (s *session) Close(ctx context.Context) error {
	err := s.do(ctx, Request{Op: OpClose}, func(*call) error {
		s.end(ByClient)
		return nil
	})
	switch {
	case err == nil: // the word of the end may still be on its way
		s.lock(s.hear)
	case errors.Is(err, driver.ErrSessionLost): // closed already
		return nil
	}
	return err
}
