package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// Convert gives an entry's place to another. The key of a place is that of one entry, so a
// conversion that comes late finds nothing (M4), and one that is repeated finds its own work by the
// contender's ID and token (M3): the ID alone could be that of a later entry.
func (s *session) Convert(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	if err := checkEntry(mode, value); err != nil {
		return driver.Place{}, err
	}
	if mode == own.Place.Mode {
		return driver.Place{}, invalid("conversion to the mode %q, which the entry has", mode)
	}
	value = bytes.Clone(value)
	svc := s.driver.svc
	var place driver.Place
	_, err := s.do(ctx, Request{Op: OpConvert, Queue: queue, ID: own.Place.ID}, func(*call) error {
		e := svc.find(queue, own.Place)
		if e == nil {
			if l := svc.queues[queue]; l != nil {
				e = l.byID[own.Place.ID]
			}
			if e == nil || e.seat != s.seat || e.Token != own.Token || e.Mode != mode {
				return driver.Wrap(driver.ErrGone, errNoEntry)
			}
			place = e.Place
			return nil
		}
		if e.seat != s.seat || e.ID != own.Place.ID {
			return driver.Wrap(driver.ErrGone, errNoEntry)
		}
		place = svc.convert(e, mode, value).Place
		svc.changed(queue)
		return nil
	})
	if err != nil {
		return driver.Place{}, err
	}
	return place, nil
}

// Write changes an entry's value. The client numbers its calls, and the service
// refuses a number that is below one it has seen: a write that was overtaken.
func (s *session) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	if err := checkValue(value); err != nil {
		return err
	}
	value = bytes.Clone(value)
	number := s.writes.Add(1)
	svc := s.driver.svc
	_, err := s.do(ctx, Request{Op: OpWrite, Queue: queue, ID: own.ID}, func(*call) error {
		e := svc.find(queue, own)
		switch {
		case e == nil || e.seat != s.seat || e.ID != own.ID:
			return driver.Wrap(driver.ErrGone, errNoEntry)
		case number < e.written:
			return driver.Wrap(driver.ErrUnavailable, errLate)
		}
		svc.revision++
		e.Value, e.version, e.written = value, driver.Version(svc.revision), number
		svc.step(StepWritten, ByClient, queue, e.Entry)
		svc.changed(queue)
		return nil
	})
	return err
}

// Head waits for the first entry to be in another state than known.
func (s *session) Head(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
	svc := s.driver.svc
	var head driver.Head
	err := s.await(ctx, Request{Op: OpHead, Queue: queue}, func() bool {
		head = driver.Head{}
		if first := svc.list(queue, 1); len(first) > 0 {
			head = driver.Head{Entry: first[0], Version: svc.queues[queue].entries[0].version}
		}
		return head.Version != known
	})
	if err != nil {
		return driver.Head{}, err
	}
	return head, nil
}

// WatchQueue sends a request for each view, which is answered when there is
// another one to show.
func (s *session) WatchQueue(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
	svc := s.driver.svc
	var shown []driver.Place
	for first := true; ; first = false {
		var places []driver.Place
		err := s.await(ctx, Request{Op: OpWatchQueue, Queue: queue}, func() bool {
			var now []driver.Place
			if l := svc.queues[queue]; l != nil {
				now = l.places
			}
			if !first && slices.Equal(now, shown) {
				return false
			}
			places = slices.Clone(now)
			return true
		})
		if err != nil || !show(places) {
			return err
		}
		shown = places
	}
}

// Record waits for the queue's record to be in another version than known.
func (s *session) Record(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
	svc := s.driver.svc
	var record driver.Record
	err := s.await(ctx, Request{Op: OpRecord, Queue: queue}, func() bool {
		record = svc.record(queue)
		return record.Version != known
	})
	if err != nil {
		return driver.Record{}, err
	}
	return record, nil
}

// await sends a request that is answered when ready says so: at once, or after a change.
func (s *session) await(ctx context.Context, req Request, ready func() bool) error {
	if err := checkQueue(req.Queue); err != nil {
		return err
	}
	_, err := s.do(ctx, req, func(c *call) error {
		if !ready() && !c.over { // as for a Watch that comes late
			s.driver.svc.await(s.seat, c, req.Queue, ready)
		}
		return nil
	})
	return err
}

// SetRecord writes the queue's record if its version is known.
func (s *session) SetRecord(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
	if err := checkQueue(queue); err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > maxValue {
		return 0, invalid("record of %d bytes; want 1 to %d", len(value), maxValue)
	}
	value = bytes.Clone(value)
	svc := s.driver.svc
	var version driver.Version
	_, err := s.do(ctx, Request{Op: OpSetRecord, Queue: queue}, func(*call) error {
		if svc.records[queue].Version != known {
			return driver.Wrap(driver.ErrStale, errVersion)
		}
		svc.revision++
		version = driver.Version(svc.revision)
		svc.records[queue] = driver.Record{Value: value, Version: version}
		svc.step(StepRecord, ByClient, queue, driver.Entry{})
		svc.changed(queue)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// Record returns the record of a queue. It is no request, needs no session, and works while the
// service is stopped.
func (s *Service) Record(queue driver.Queue) driver.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record(queue)
}

// RemoveRecord deletes the record of a queue as an operator would, and reports
// whether there was one.
func (s *Service) RemoveRecord(queue driver.Queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.records[queue]; !there {
		return false
	}
	s.revision++
	delete(s.records, queue)
	s.step(StepRecord, ByOperator, queue, driver.Entry{})
	s.changed(queue)
	return true
}

// record copies a record: a caller may keep and change what it got.
func (s *Service) record(queue driver.Queue) driver.Record {
	r := s.records[queue]
	r.Value = bytes.Clone(r.Value)
	return r
}
