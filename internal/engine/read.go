package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Ahead returns the places ahead of own in order, all places if own is zero.
// ErrRemoved means that own is not in the queue any more although the session
// lives. It renews the session to find that out: a view may be newer than what
// the driver knows of the session, whose entries go when it ends.
func (s *Session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	var view driver.View
	if err := s.enter(ctx, s.reads); err != nil {
		return view, err
	}
	defer func() { <-s.reads }()
	err := s.request(ctx, "look", queue, s.patience, func(ctx context.Context) (err error) {
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

// Await waits until one of the places has left the queue. A context that ends
// while the session is connected comes back as context.Cause(ctx), untouched.
func (s *Session) Await(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	return s.wait(ctx, "await", queue, func(ctx context.Context) error {
		return s.driver.Watch(ctx, queue, places...)
	})
}

// ownWatchDelay is how long a contender waits before it watches its own entry
// as well. Most waits are shorter, and would pay a watch for what it does not
// tell them.
const ownWatchDelay = time.Second

// errOwnGone ends the wait of a contender whose own entry has left the queue.
var errOwnGone = errors.New("own entry is gone")

// Follow waits until the place directly ahead has left the queue, and reports
// whether own is known to be the first: that place has handed over. After any
// other leaving the caller reads the queue: own may have been removed in the
// same moment.
//
// The error is ErrRemoved when own is not in the queue any more though the
// session lives. A wait that is not longer than ownWatchDelay need not notice
// that: an operator's removal of own can be overtaken by the handoff, and the
// hold is notified of it then. For the rest it is like Await.
func (s *Session) Follow(
	ctx context.Context, queue driver.Queue, own, ahead driver.Place,
) (first bool, err error) {
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchOwn := func() {
		if s.Await(following, queue, own) == nil {
			cancel(errOwnGone)
		}
	}
	timer := time.AfterFunc(ownWatchDelay, func() { s.Go(watchOwn) })
	defer timer.Stop()
	err = s.wait(following, "await", queue, func(ctx context.Context) (err error) {
		first, err = s.can.Handoff.Follow(ctx, queue, own, ahead)
		return err
	})
	if errors.Is(context.Cause(following), errOwnGone) {
		if _, err = s.Ahead(ctx, queue, own); err == nil { // it cannot be there: see V1
			err = ErrRemoved
		}
		return false, err // or the session has ended, and own with it
	}
	return first && err == nil, err
}

// Head returns the first entry of a queue once it is in another state than
// known, at once if that is driver.Any; see [driver.HeadWatcher].
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

// Record returns the record of a queue once it is in another version than
// known, at once if that is driver.Any; see [driver.Session].
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

// requestOrWait is a request if f is answered at once, and a wait if not. A ctx
// that ends a wait comes back as context.Cause(ctx), untouched.
func (s *Session) requestOrWait(
	ctx context.Context, op string, queue driver.Queue, known driver.Version,
	f func(context.Context) error,
) error {
	if known == driver.Any {
		return s.request(ctx, op, queue, s.patience, f)
	}
	return s.wait(ctx, op, queue, f)
}

// Revoked waits until another client has asked a contender of this session to
// give up; see [driver.Revoker]. ErrRemoved: own is not in the queue any more.
func (s *Session) Revoked(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.wait(ctx, "await a revocation", queue, func(ctx context.Context) error {
		if s.can.Revoker == nil {
			return Invalid("nobody can ask for that on this queue")
		}
		return s.can.Revoker.Revoked(ctx, queue, own)
	})
}
