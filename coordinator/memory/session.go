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

// session has the client's and the service's state of a session. Each side
// learns of the other's only over the link.
type session struct {
	driver *Driver
	id     string
	ttl    time.Duration

	// The client's part; ended and seen are guarded by the service's mutex.
	done   chan struct{}
	forgot atomic.Uint64 // counts the calls of Forget
	writes atomic.Uint64 // counts the calls of Write
	ended  bool          // the client knows that the session is over
	seen   driver.Token  // the newest revision that a Watch has returned

	// The service's part, guarded by its mutex.
	over     bool
	deadline time.Time
	timer    *time.Timer
	epoch    uint64 // of the latest Forget; it refuses Joins of earlier epochs
	entries  map[*entry]struct{}
	watches  map[*watch]struct{}
}

// open starts a session at the service. Its timer runs even if the reply is
// lost (O4).
func (s *Service) open(d *Driver, ttl time.Duration) *session {
	s.opened++
	opened := &session{
		driver: d, id: fmt.Sprintf("%016x", s.opened), ttl: ttl, // IDs are deterministic
		done:    make(chan struct{}),
		entries: map[*entry]struct{}{},
		watches: map[*watch]struct{}{},
	}
	s.sessions[opened.id] = opened
	d.unnotified[opened] = struct{}{}
	opened.timer = time.AfterFunc(ttl, opened.expire)
	opened.renew(0)
	return opened
}

// renew starts the TTL now, when a renewal arrives, or a little later.
func (s *session) renew(later time.Duration) {
	life := s.ttl - s.driver.svc.slack + later
	s.deadline = time.Now().Add(life)
	s.timer.Reset(life)
}

// expire runs when the timer fires. Before it gets the lock, a renewal may
// arrive, the service stop or the session end.
func (s *session) expire() {
	svc := s.driver.svc
	svc.mu.Lock()
	defer svc.mu.Unlock()
	if s.over || svc.stopped || time.Now().Before(s.deadline) {
		return
	}
	s.end(ByClock)
}

// end ends a session at the service. It first ends the session's watches: a
// waiter of the session must not see its entries leave and count as admitted.
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
	s.notifyEnd()
}

// notifyEnd notifies the client that the session is over.
func (s *session) notifyEnd() {
	s.driver.replies.carry(s.driver.svc, 0, s.learnEnd)
}

// learnEnd runs when the first message that says so arrives at the client.
func (s *session) learnEnd() {
	if s.ended || s.driver.closed {
		return
	}
	s.ended = true
	delete(s.driver.unnotified, s)
	close(s.done)
}

func (s *session) ID() string            { return s.id }
func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Slack() time.Duration  { return s.driver.svc.slack }
func (s *session) Done() <-chan struct{} { return s.done }

// Capabilities returns all capabilities but Revoker and ReuseIDs.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s,
	}
}

// do sends a request of this session, unless the client knows that the session
// is over. apply runs at the service if the session is alive there; if it
// registers a watch, the watch answers later.
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
		// The reply may have overtaken the notification of the session's end.
		s.lock(s.learnEnd)
	}
	return err
}

// ask is do for a request that returns a value.
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

// Renew starts the TTL again when the request arrives.
func (s *session) Renew(ctx context.Context) error {
	return s.do(ctx, Request{Op: OpRenew}, func(*call) error {
		s.renew(0)
		return nil
	})
}

// Close ends the session at the service. A session has no resources in this
// process to release.
func (s *session) Close(ctx context.Context) error {
	err := s.do(ctx, Request{Op: OpClose}, func(*call) error {
		s.end(ByClient)
		return nil
	})
	switch {
	case err == nil: // the notification of the end may still be under way
		s.lock(s.learnEnd)
	case errors.Is(err, driver.ErrSessionLost): // closed already
		return nil
	}
	return err
}
