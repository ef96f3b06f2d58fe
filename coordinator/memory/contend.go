package memory

import (
	"bytes"
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// Join adds a contender at the end of the queue.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, x driver.Contender,
) (driver.Joined, error) {
	if err := checkContender(queue, x); err != nil {
		return driver.Joined{}, err
	}
	x.Value = bytes.Clone(x.Value) // the caller may change it after the call
	epoch := s.forgot.Load()
	return ask(ctx, s, Request{Op: OpJoin, Queue: queue, ID: x.ID}, func() (driver.Joined, error) {
		// Check the epoch first: a late request must not find a newer entry.
		if epoch < s.epoch {
			return driver.Joined{}, driver.Wrap(driver.ErrUnavailable, errFenced)
		}
		e, err := s.entryFor(queue, x)
		if err != nil {
			return driver.Joined{}, err
		}
		return s.joined(e, x), nil
	})
}

// entryFor returns the contender's entry, and makes it if there is none.
func (s *session) entryFor(name driver.Queue, x driver.Contender) (*entry, error) {
	svc := s.driver.svc
	e := svc.contenders[contenderID{name, x.ID}]
	switch {
	case e != nil && e.session != s: // an entry of another session
		return nil, invalid("contender %s belongs to session %s", x.ID, e.Session)
	case e != nil: // J2, also with Alone
		return e, nil
	case x.Record != 0 && x.Record != svc.records[name].Version:
		return nil, driver.Wrap(driver.ErrStale, errVersion)
	case x.Alone && svc.queues[name] != nil:
		return nil, driver.Wrap(driver.ErrTaken, errNotEmpty)
	}
	place := driver.Place{ID: x.ID, Mode: x.Mode, Session: s.id}
	return svc.add(name, s, driver.Entry{Place: place, Value: x.Value}), nil
}

// joined returns the result of a Join.
func (s *session) joined(e *entry, x driver.Contender) driver.Joined {
	svc, j := s.driver.svc, driver.Joined{Place: e.Place, Token: e.Token}
	i := e.queue.ahead(e)
	if i == 0 {
		j.First = svc.hints()
		return j
	}
	predecessor := e.queue.entries[i-1].Place
	if x.Follows && !x.Again && predecessor.ID != "" && svc.hints() {
		j.Nearest = predecessor
	}
	return j
}

// Ahead returns a view of the queue. See WithStaleViews.
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	svc := s.driver.svc
	var seen driver.Token // the least revision that the client accepts
	s.lock(func() { seen = s.seen })
	return ask(ctx, s, Request{Op: OpAhead, Queue: queue, ID: own.ID}, func() (driver.View, error) {
		if own == (driver.Place{}) {
			return driver.View{
				Ahead: svc.places(queue), Last: true, Record: svc.recordAt(queue, svc.revision),
			}, nil
		}
		e := svc.find(queue, own.Key)
		if e == nil {
			return driver.View{}, errGone
		}
		return svc.view(e, seen), nil
	})
}

// Watch waits until one of the places has left the queue. The service reads the
// queue and registers the watch in one step, so it misses no leaving.
func (s *session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	_, err := s.watch(ctx, queue, places)
	return err
}

// Follow watches one place, and reports whether it left by Pass.
func (s *session) Follow(
	ctx context.Context, queue driver.Queue, _, ahead driver.Place,
) (passed bool, err error) {
	return s.watch(ctx, queue, []driver.Place{ahead})
}

// watch reports whether the first place was the last entry of the queue to
// leave by Pass.
func (s *session) watch(
	ctx context.Context, name driver.Queue, places []driver.Place,
) (bool, error) {
	if len(places) == 0 {
		return false, invalid("nothing to watch")
	}
	svc := s.driver.svc
	var seen driver.Token
	passed := false
	ready := func() bool {
		seen = svc.revision // later views are at least as new (V1)
		q := svc.queues[name]
		passed = q != nil && q.passed == places[0].Key && svc.hints()
		return true
	}
	err := s.do(ctx, Request{Op: OpWatch, Queue: name, ID: places[0].ID}, func(c *call) error {
		var keys []string
		for _, p := range places {
			if svc.find(name, p.Key) == nil { // has left already
				ready()
				return nil
			}
			keys = append(keys, p.Key)
		}
		svc.register(s, c, ready, keys...)
		return nil
	})
	if err != nil {
		return false, err
	}
	s.lock(func() { s.seen = max(s.seen, seen) })
	return passed, nil
}

// own returns the entry of a place, which must be this session's.
func (s *session) own(queue driver.Queue, own driver.Place) (*entry, error) {
	e := s.driver.svc.find(queue, own.Key)
	if e == nil || e.session != s || e.ID != own.ID {
		return nil, errGone
	}
	return e, nil
}

// Leave removes the entry of own.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, false)
}

// Pass is Leave that tells the follower of own that it is admitted. The queue
// remembers it for a Follow that is called later.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, true)
}

func (s *session) leave(
	ctx context.Context, queue driver.Queue, own driver.Place, pass bool,
) error {
	return s.do(ctx, Request{Op: OpLeave, Queue: queue, ID: own.ID}, func(*call) error {
		e, err := s.own(queue, own)
		if err == nil {
			s.driver.svc.leave(e, ByClient, pass)
		}
		return err
	})
}

// Forget removes the contender's entry, and raises the epoch, so that no
// earlier Join is applied any more. The client counts epochs: a Join that is
// called after this Forget has the new epoch, and is applied even if it arrives
// first.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	epoch := s.forgot.Add(1)
	svc := s.driver.svc
	return s.do(ctx, Request{Op: OpForget, Queue: queue, ID: id}, func(*call) error {
		s.epoch = max(s.epoch, epoch)
		if e := svc.contenders[contenderID{queue, id}]; e != nil && e.session == s {
			svc.leave(e, ByClient, false)
		}
		return nil
	})
}

// List reads the first limit entries.
func (s *session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	if limit < 0 {
		return nil, invalid("limit is negative")
	}
	return ask(ctx, s, Request{Op: OpList, Queue: queue}, func() ([]driver.Entry, error) {
		return s.driver.svc.list(queue, limit), nil
	})
}

// SetRecord writes the queue's record if its version is known.
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if err := checkQueue(queue); err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > maxValue {
		return 0, invalid("record of %d bytes; want 1 to %d", len(value), maxValue)
	}
	value = bytes.Clone(value)
	svc := s.driver.svc
	return ask(ctx, s, Request{Op: OpSetRecord, Queue: queue}, func() (driver.Version, error) {
		if svc.records[queue].Version != known {
			return 0, driver.Wrap(driver.ErrStale, errVersion)
		}
		return svc.setRecord(queue, value, ByClient), nil
	})
}

// Record waits until the queue's record has another version than known.
func (s *session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	return await(ctx, s, Request{Op: OpRecord, Queue: queue}, func() (driver.Record, bool) {
		record := s.driver.svc.record(queue)
		return record, record.Version != known
	})
}

// await sends a request that is answered when ready returns true: at once, or
// after a change of the queue or its record.
func await[T any](ctx context.Context, s *session, req Request, ready func() (T, bool)) (T, error) {
	var answer, none T
	if err := checkQueue(req.Queue); err != nil {
		return none, err
	}
	read := func() (ok bool) {
		answer, ok = ready()
		return ok
	}
	err := s.do(ctx, req, func(c *call) error {
		if !read() {
			s.driver.svc.register(s, c, read, string(req.Queue))
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	return answer, nil
}
