package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// session is the client's side of a session.
type session struct {
	driver *Driver
	seat   *seat
	epoch  atomic.Uint64 // raised by each Forget when it is called
	done   chan struct{}

	// Guarded by the service's mutex.
	ended bool
	seen  driver.Token // the newest revision that a Watch has told

	writes atomic.Uint64 // numbers the calls of Write
}

var _ driver.Session = (*session)(nil)

func newSession(d *Driver, st *seat) *session {
	s := &session{driver: d, seat: st, done: make(chan struct{})}
	st.client = s
	return s
}

// These are facts of the session that the client knows without asking. See driver.Session.

func (s *session) ID() string            { return s.seat.id }
func (s *session) TTL() time.Duration    { return s.seat.ttl }
func (s *session) Slack() time.Duration  { return s.driver.svc.slack }
func (s *session) Done() <-chan struct{} { return s.done }

// Capabilities are all that recipes of Baton's own layout use.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s}
}

// tell sends word that the session is over, over the link.
func (s *session) tell() {
	d := s.driver
	d.replies.carry(d.svc, 0, s.end)
}

// end is the client hearing that its session is over, by whatever message comes first. After
// the driver's Close nothing is heard any more.
func (s *session) end() {
	if s.ended || s.driver.closed {
		return
	}
	s.ended = true
	delete(s.driver.sessions, s)
	close(s.done)
}

// do sends a request of this session. A session known to be over costs no request.
// apply runs at the service while the session is alive there; nil from
// it means that a watch will reply later.
func (s *session) do(ctx context.Context, req Request, apply func(*call) error) (*call, error) {
	lost := driver.Wrap(driver.ErrSessionLost, errExpired)
	select {
	case <-s.done:
		return nil, lost
	default:
	}
	req.Session = s.seat.id
	c, err := s.driver.do(ctx, req, func(c *call) {
		if s.seat.over {
			c.reply(lost)
			return
		}
		err := apply(c)
		if c.watch == nil {
			c.reply(err)
		}
	})
	if errors.Is(err, driver.ErrSessionLost) {
		// The reply may have overtaken the notification, or that was lost with a connection.
		s.driver.svc.mu.Lock()
		defer s.driver.svc.mu.Unlock()
		s.end()
	}
	return c, err
}

// Renew asks the service to keep the session: the ttl counts from the arrival.
func (s *session) Renew(ctx context.Context) error {
	_, err := s.do(ctx, Request{Op: OpRenew}, func(*call) error {
		s.seat.renew(0)
		return nil
	})
	return err
}

// Join puts a contender at the end of the queue. The rules of package driver for queues and
// contenders are checked here, so that a recipe that breaks one is found out early.
func (s *session) Join(ctx context.Context, queue driver.Queue, x driver.Contender) (driver.Joined, error) {
	if err := check(queue, x); err != nil {
		return driver.Joined{}, err
	}
	x.Value = bytes.Clone(x.Value) // the request as it was sent, whatever the caller does later
	epoch := s.epoch.Load()
	var joined driver.Joined
	_, err := s.do(ctx, Request{Op: OpJoin, Queue: queue, ID: x.ID}, func(*call) (err error) {
		joined, err = s.driver.svc.join(s.seat, epoch, queue, x)
		return err
	})
	if err != nil {
		return driver.Joined{}, err
	}
	return joined, nil
}

// join is the step at the service. The epoch is looked at before all else: a late
// request must not even find the entry of a newer one.
func (s *Service) join(st *seat, epoch uint64, name driver.Queue, x driver.Contender) (driver.Joined, error) {
	if epoch < st.epoch {
		return driver.Joined{}, driver.Wrap(driver.ErrUnavailable, errFenced)
	}
	l := s.queues[name]
	var e *entry
	if l != nil {
		e = l.byID[x.ID]
	}
	switch {
	case e != nil && e.seat != st: // never its own: returning it would hand over another's place
		return driver.Joined{}, driver.Wrap(driver.ErrInvalid,
			fmt.Errorf("memory: contender %s belongs to session %s", x.ID, e.Session))
	case e != nil: // J2: found again, also by an Alone
	case x.Record != 0 && x.Record != s.records[name].Version:
		return driver.Joined{}, driver.Wrap(driver.ErrStale, errVersion)
	case x.Alone && l != nil:
		return driver.Joined{}, driver.Wrap(driver.ErrTaken, errNotEmpty)
	default:
		place := driver.Place{ID: x.ID, Mode: x.Mode, Session: st.id}
		e = s.add(name, st, driver.Entry{Place: place, Value: x.Value})
		s.changed(name)
	}
	j := driver.Joined{Place: e.Place, Token: e.Token}
	i := e.queue.ahead(e)
	if j.First = i == 0; !j.First && x.Follows && !x.Again && e.queue.places[i-1].ID != "" && s.says() {
		j.Nearest = e.queue.places[i-1]
	}
	j.First = j.First && s.says()
	return j, nil
}

// Close ends the session at the service. A session that is over already is
// closed. Nothing runs in this process for a session, so there is nothing to release
// when the service does not answer.
func (s *session) Close(ctx context.Context) error {
	_, err := s.do(ctx, Request{Op: OpClose}, func(*call) error {
		s.driver.svc.end(s.seat, ByClient)
		return nil
	})
	if err == nil {
		// The reply said so. The notification may be still on its way.
		s.driver.svc.mu.Lock()
		defer s.driver.svc.mu.Unlock()
		s.end()
	}
	if errors.Is(err, driver.ErrSessionLost) {
		return nil
	}
	return err
}
