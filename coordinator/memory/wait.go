package memory

import (
	"context"
	"errors"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// Ahead returns a view of the queue. See driver.Session and WithStaleViews.
func (s *session) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	svc := s.driver.svc
	svc.mu.Lock()
	seen := s.seen // sent along, as a client of etcd sends the least revision it accepts
	svc.mu.Unlock()
	var view driver.View // of this call only: a late reply to an earlier one cannot touch it
	_, err := s.do(ctx, Request{Op: OpAhead, Queue: queue, ID: own.ID}, func(*call) error {
		if own == (driver.Place{}) {
			view.Last = true
			if l := svc.queues[queue]; l != nil {
				view.Ahead = slices.Clone(l.places)
			}
			return nil
		}
		e := svc.find(queue, own)
		if e == nil {
			return driver.Wrap(driver.ErrGone, errNoEntry)
		}
		view = svc.view(e, seen)
		return nil
	})
	if err != nil {
		return driver.View{}, err
	}
	return view, nil
}

// Watch waits until one of the places has left the queue. See driver.Session.
//
// Looking and registering are one step at the service: an entry that goes in between,
// the lost wake-up of services that need two requests, cannot happen.
func (s *session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	_, err := s.watch(ctx, queue, places)
	return err
}

// Follow watches one place. Whether it left by Pass is decided where it leaves, at the service.
func (s *session) Follow(ctx context.Context, queue driver.Queue, _, ahead driver.Place) (passed bool, err error) {
	return s.watch(ctx, queue, []driver.Place{ahead})
}

// watch waits until one of the places has left.
func (s *session) watch(ctx context.Context, queue driver.Queue, places []driver.Place) (passed bool, err error) {
	if len(places) == 0 {
		return false, driver.Wrap(driver.ErrInvalid, errors.New("memory: nothing to watch"))
	}
	svc := s.driver.svc
	c, err := s.do(ctx, Request{Op: OpWatch, Queue: queue, ID: places[0].ID}, func(c *call) error {
		entries := make([]*entry, 0, len(places))
		seen := make(map[*entry]bool, len(places))
		for _, p := range places {
			e := svc.find(queue, p)
			if e == nil { // gone already: answered at once, and all before it is told
				c.told = svc.revision
				l := svc.queues[queue]
				c.passed = l != nil && l.passed == p.Key && svc.says()
				return nil
			}
			if !seen[e] {
				seen[e] = true
				entries = append(entries, e)
			}
		}
		if !c.over { // a late Watch of a caller that has gone would never be withdrawn
			svc.register(s.seat, c, entries)
		}
		return nil
	})
	if err == nil {
		svc.mu.Lock()
		s.seen = max(s.seen, c.told)
		passed = c.passed
		svc.mu.Unlock()
	}
	return passed, err
}

// Leave removes exactly the entry of own: the key finds it, and the session and ID
// must be its own too, so that nobody leaves for somebody else.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, false)
}

// Pass is Leave that tells the followers of own. The queue remembers it for
// those who come to follow it afterwards.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, true)
}

func (s *session) leave(ctx context.Context, queue driver.Queue, own driver.Place, pass bool) error {
	svc := s.driver.svc
	_, err := s.do(ctx, Request{Op: OpLeave, Queue: queue, ID: own.ID}, func(*call) error {
		e := svc.find(queue, own)
		if e == nil || e.seat != s.seat || e.ID != own.ID {
			return driver.Wrap(driver.ErrGone, errNoEntry)
		}
		svc.revision++
		e.passing = pass
		svc.remove(e, ByClient)
		svc.changed(queue)
		return nil
	})
	return err
}

// Forget removes the contender's entry, and raises the epoch so that no Join that was
// called before is applied any more. The client counts first: a Join that is
// called after this Forget carries the new epoch and passes, whichever arrives first.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	epoch := s.epoch.Add(1)
	svc := s.driver.svc
	_, err := s.do(ctx, Request{Op: OpForget, Queue: queue, ID: id}, func(*call) error {
		s.seat.epoch = max(s.seat.epoch, epoch)
		l := svc.queues[queue]
		if l == nil {
			return nil
		}
		if e := l.byID[id]; e != nil && e.seat == s.seat {
			svc.revision++
			svc.remove(e, ByClient)
			svc.changed(queue)
		}
		return nil
	})
	return err
}

// List reads the first limit entries. See driver.Session.
func (s *session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	if limit < 0 {
		return nil, driver.Wrap(driver.ErrInvalid, errors.New("memory: limit is negative"))
	}
	svc := s.driver.svc
	var entries []driver.Entry
	_, err := s.do(ctx, Request{Op: OpList, Queue: queue}, func(*call) error {
		entries = svc.list(queue, limit)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}
