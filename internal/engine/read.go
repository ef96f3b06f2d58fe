package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Ahead returns the places ahead of own in order, all places if own is zero.
// The error is ErrRemoved if own has left the queue and the session is alive.
// Ahead renews the session to check that: own may have left because the session
// ended, which the driver may not know yet.
func (s *Session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	var view driver.View
	if err := s.enter(ctx, s.reads); err != nil {
		return view, err
	}
	defer func() { <-s.reads }()
	err := s.request(ctx, "read the queue", queue, s.patience, func(ctx context.Context) (err error) {
		view, err = s.driver.Ahead(ctx, queue, own)
		if errors.Is(err, driver.ErrGone) {
			if lost := s.driver.Renew(ctx); lost != nil {
				return lost
			}
		}
		return err
	})
	return view, err
}

// List reads the first limit entries of a queue, all if limit is 0, in order.
func (s *Session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	var entries []driver.Entry
	err := s.request(ctx, "list", queue, s.patience, func(ctx context.Context) (err error) {
		entries, err = s.driver.List(ctx, queue, limit)
		return err
	})
	return entries, err
}

// Await waits until one of the places has left the queue. If ctx ends while the
// session is connected, the error is context.Cause(ctx), unchanged.
func (s *Session) Await(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	return s.wait(ctx, "await", queue, func(ctx context.Context) error {
		return s.driver.Watch(ctx, queue, places...)
	})
}

// ownWatchDelay is how long a contender waits before it also watches its own
// entry. Most waits are shorter, and save the cost of that watch.
const ownWatchDelay = time.Second

// ownWatchEnded ends the wait of a contender whose entry has left the queue, or
// may not be watched.
type ownWatchEnded struct{ err error }

func (e ownWatchEnded) Error() string { return "the watch of the own entry has ended" }

// WhileQueued calls wait with a context that ends with ctx, or when own has
// left the queue. It returns the error of wait, or ErrRemoved if own has left
// the queue and the session is alive. A wait shorter than ownWatchDelay may not
// notice that. A refused watch of own ends the wait with that error: without
// the watch, a contender whose entry is removed would wait on.
func (s *Session) WhileQueued(
	ctx context.Context, queue driver.Queue, own driver.Place, wait func(context.Context) error,
) error {
	if err := s.Ended(); err != nil {
		return err
	}
	queued, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // also if an observer panics
	over := make(chan struct{})
	watchOwn := func() {
		defer close(over)
		cancel(ownWatchEnded{s.Await(queued, queue, own)})
	}
	timer := time.AfterFunc(ownWatchDelay, func() {
		if !s.Go(watchOwn) {
			close(over)
		}
	})
	err := wait(queued)
	cancel(nil)
	if !timer.Stop() {
		select {
		case <-over: // else it could notice a conversion or the release that follows
		case <-ctx.Done():
		}
	}
	var mine ownWatchEnded
	switch ended := errors.As(context.Cause(queued), &mine); {
	case !ended || mine.err != nil && err == nil:
		return err
	case mine.err != nil:
		return mine.err
	}
	return s.removed(ctx, queue, own)
}

// removed returns ErrRemoved, or why the session is over, after the service has
// shown that own has left the queue.
func (s *Session) removed(ctx context.Context, queue driver.Queue, own driver.Place) error {
	_, err := s.Ahead(ctx, queue, own)
	if err == nil { // it cannot be there: see V1
		err = ErrRemoved
	}
	return err
}

// Follow waits until the predecessor has left the queue. first reports whether
// it has handed over, so that own is admitted: as the first if it is exclusive;
// a reader may have others ahead. Otherwise the caller reads the queue: own may
// have been removed at the same time.
//
// The error is ErrRemoved if own has left the queue and the session is alive. A
// wait shorter than ownWatchDelay may not notice that: after a handoff the hold
// is notified instead. The other errors are those of Await; a refused watch of
// own is one of them: otherwise a contender whose entry is removed would be
// admitted by the next handoff beside the first in the queue.
func (s *Session) Follow(
	ctx context.Context, queue driver.Queue, own, ahead driver.Place,
) (first bool, err error) {
	follow := func(ctx context.Context) error {
		return s.wait(ctx, "await", queue, func(ctx context.Context) (err error) {
			first, err = s.can.Handoff.Follow(ctx, queue, own, ahead)
			return err
		})
	}
	if !s.can.OwnWatched {
		err = s.WhileQueued(ctx, queue, own, follow)
	} else if err = follow(ctx); errors.Is(err, ErrRemoved) {
		err = s.removed(ctx, queue, own)
	}
	return first && err == nil, err
}

// Head returns the first entry of a queue when its version differs from known,
// at once if known is driver.Any; see [driver.HeadWatcher].
func (s *Session) Head(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Head, error) {
	var head driver.Head
	err := s.requestOrWait(ctx, "observe", queue, known, func(ctx context.Context) (err error) {
		head, err = s.can.HeadWatcher.Head(ctx, queue, known)
		return err
	})
	return head, err
}

// Record returns the record of a queue when its version differs from known, at
// once if known is driver.Any; see [driver.Session].
func (s *Session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	var record driver.Record
	err := s.requestOrWait(ctx, "read the record", queue, known, func(ctx context.Context) error {
		var err error
		record, err = s.driver.Record(ctx, queue, known)
		return err
	})
	return record, err
}

// requestOrWait sends a request if known is driver.Any, and else waits. If ctx
// ends a wait, the error is context.Cause(ctx), unchanged.
func (s *Session) requestOrWait(
	ctx context.Context, op string, queue driver.Queue, known driver.Version,
	f func(context.Context) error,
) error {
	if known == driver.Any {
		return s.request(ctx, op, queue, s.patience, f)
	}
	return s.wait(ctx, op, queue, f)
}
