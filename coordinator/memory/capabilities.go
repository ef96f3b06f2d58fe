package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// Convert replaces an entry. A key names one entry only, so a late conversion
// finds nothing to convert (M4). A repeated one finds the converted entry by
// the contender's ID and token (M3).
func (s *session) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	if err := checkEntry(mode, value); err != nil {
		return driver.Place{}, err
	}
	if mode == own.Place.Mode {
		return driver.Place{}, invalid("conversion to mode %q, which the entry has already", mode)
	}
	value = bytes.Clone(value)
	svc := s.driver.svc
	req := Request{Op: OpConvert, Queue: queue, ID: own.Place.ID}
	return ask(ctx, s, req, func() (driver.Place, error) {
		if e, err := s.own(queue, own.Place); err == nil {
			return svc.convert(e, mode, value).Place, nil
		}
		e := svc.contenders[contenderID{queue, own.Place.ID}]
		if e == nil || e.session != s || e.Token != own.Token || e.Mode != mode {
			return driver.Place{}, errGone
		}
		return e.Place, nil
	})
}

// Write changes an entry's value. The client numbers its calls. The entry
// refuses a number smaller than its last: a later Write has overtaken that
// call.
func (s *session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	if err := checkValue(value); err != nil {
		return err
	}
	value = bytes.Clone(value)
	number := s.writes.Add(1)
	svc := s.driver.svc
	return s.do(ctx, Request{Op: OpWrite, Queue: queue, ID: own.ID}, func(*call) error {
		e, err := s.own(queue, own)
		if err != nil {
			return err
		}
		if number < e.written {
			return driver.Wrap(driver.ErrUnavailable, errLate)
		}
		svc.revision++
		e.Value, e.version, e.written = value, driver.Version(svc.revision), number
		svc.step(Step{Kind: StepWritten, By: ByClient, Queue: queue, Entry: e.Entry})
		svc.notify(string(queue))
		return nil
	})
}

// Head waits until the state of the first entry differs from known.
func (s *session) Head(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Head, error) {
	svc := s.driver.svc
	return await(ctx, s, Request{Op: OpHead, Queue: queue}, func() (head driver.Head, ok bool) {
		if first := svc.list(queue, 1); len(first) > 0 {
			head = driver.Head{Entry: first[0], Version: svc.queues[queue].entries[0].version}
		}
		return head, head.Version != known
	})
}

// WatchQueue sends one request for each view, which waits for a change.
func (s *session) WatchQueue(
	ctx context.Context, queue driver.Queue, show func([]driver.Place) bool,
) error {
	svc := s.driver.svc
	req := Request{Op: OpWatchQueue, Queue: queue}
	var shown []driver.Place
	for first := true; ; first = false {
		places, err := await(ctx, s, req, func() ([]driver.Place, bool) {
			now := svc.places(queue)
			if !first && slices.Equal(now, shown) {
				return nil, false
			}
			return now, true
		})
		if err != nil || !show(places) {
			return err
		}
		shown = places
	}
}

// granted returns the entry with a key and token. Keys are used once: the token
// can differ only if it is forged.
func (s *session) granted(queue driver.Queue, key string, token driver.Token) (*entry, error) {
	e := s.driver.svc.find(queue, key)
	if e == nil || e.Token != token {
		return nil, errGone
	}
	return e, nil
}

// Check returns nil if the queue has the entry.
func (s *session) Check(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	return s.do(ctx, Request{Op: OpCheck, Queue: queue}, func(*call) error {
		_, err := s.granted(queue, key, token)
		return err
	})
}

// Remove removes an entry of any session.
func (s *session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	return s.do(ctx, Request{Op: OpRemove, Queue: queue}, func(*call) error {
		e, err := s.granted(queue, key, token)
		if err == nil {
			s.driver.svc.leave(e, ByOperator, false)
		}
		return err
	})
}

// Queues returns the queues that have entries.
func (s *session) Queues(ctx context.Context) ([]driver.Queue, error) {
	return ask(ctx, s, Request{Op: OpQueues}, func() ([]driver.Queue, error) {
		return slices.Sorted(maps.Keys(s.driver.svc.queues)), nil
	})
}
