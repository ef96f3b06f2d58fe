package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// This file has what recipes need of a session: joining a queue, looking ahead, waiting,
// leaving. Users of Baton's own recipes do not call it.

// Join puts a contender into a queue. While the service is unavailable it tries
// again, until ctx or the session ends. When it fails, the contender is removed in the
// background, as soon as the service answers and until the session ends: nothing that a
// lost reply hides stays in the queue.
func (s *Session) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	var j driver.Joined
	if err := s.enter(ctx, s.joining); err != nil {
		s.retire(c.ID)
		return j, wrap("join", queue, s.outcome(ctx, err))
	}
	defer func() { <-s.joining }()
	uncertain := false
	err := s.request(ctx, "join", queue, s.longer, func(ctx context.Context) error {
		var err error
		j, err = s.driver.Join(ctx, queue, c)
		if err != nil && !notApplied(err) {
			uncertain, c.Again = true, true
		}
		return err
	})
	if err == nil {
		if uncertain {
			s.stray(c.ID)
			// It may be true by now and not have been when it joined. Recipes
			// conclude from it what those behind can see.
			j.First, j.Nearest = false, driver.Place{}
		}
		return j, nil
	}
	switch {
	case uncertain:
		s.forget(queue, c.ID)
	case errors.Is(err, ErrTaken), errors.Is(err, ErrStale):
		s.retire(c.ID) // else each one that is refused would cost those after it a name
	}
	return driver.Joined{}, &Error{Op: "join", Name: string(queue), Err: err, Maybe: uncertain}
}

// These bound the requests of a session that are under way at once. The others wait here.
//
// A service that is asked by ten thousand at once answers some of them too
// late, and to ask again costs more than to ask: the earlier request, which may
// be applied yet, has to be ruled out, and on etcd that sends the others away
// that are under way. So a crowd that is too much for the service for a moment
// would keep it busy without end. A driver, too, learns from the first who join
// that the queue is busy, and does better with the rest.
//
// A look costs as much as the queue is long, and many look at once when many
// leave who were not the first: those who give up together, or the contenders
// of a session that ends. And those who give up leave at once.
const (
	mostJoining  = 256
	mostLooking  = 16
	mostCleaning = 256
)

// enter waits for a place. If it fails, nothing was sent. The error has nothing
// of ctx's cause, which is any error: see bind.
func (s *Session) enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Canceled
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// Ahead shows the queue from where own stands; see [driver.Session]. The error
// is ErrRemoved when own is not in the queue any more though the session lives.
// The service ends a session and its entries in one step, and a view may show
// that the entry is gone before the driver notices the end of the session: so
// Ahead asks for the session.
func (s *Session) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	var view driver.View
	if err := s.enter(ctx, s.looking); err != nil {
		return view, wrap("look", queue, s.outcome(ctx, err))
	}
	defer func() { <-s.looking }()
	err := s.request(ctx, "look", queue, s.patience, func(ctx context.Context) error {
		var err error
		view, err = s.driver.Ahead(ctx, queue, own)
		if errors.Is(err, errGone) {
			if err = s.driver.Renew(ctx); err == nil {
				err = ErrRemoved
			}
		}
		return err
	})
	return view, wrap("look", queue, err)
}

// Await waits until one of the places has left the queue. A context that ends while the
// session is connected comes back as context.Cause(ctx), untouched.
func (s *Session) Await(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	return s.wait(ctx, "await", queue, func(ctx context.Context) error { return s.driver.Watch(ctx, queue, places...) })
}

// ownWatchDelay is how long a contender waits before it watches its own entry as well. Most
// waits are shorter, and would pay a watch for what it does not tell them.
const ownWatchDelay = time.Second

// Follow waits until the place directly ahead has left the queue, and reports whether own is
// known to be the first: that place has handed it on. After any other leaving
// the caller reads the queue: own may have been removed in the same moment.
//
// The error is ErrRemoved when own is not in the queue any more though the
// session lives. A wait that is not longer than ownWatchDelay need not notice
// that: an operator's removal of own can be overtaken by the handoff, and the
// hold is notified of it then. For the rest it is like Await.
func (s *Session) Follow(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (first bool, err error) {
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchOwn := func() {
		if s.Await(following, queue, own) == nil {
			cancel(errGone)
		}
	}
	timer := time.AfterFunc(ownWatchDelay, func() { s.Go(watchOwn) })
	defer timer.Stop()
	passed := false
	err = s.wait(following, "await", queue, func(ctx context.Context) (err error) {
		passed, err = s.can.Handoff.Follow(ctx, queue, own, ahead)
		return err
	})
	switch {
	case context.Cause(following) == errGone: //nolint:errorlint // our own word, and not one in the cause of ctx
		if _, err = s.Ahead(ctx, queue, own); err == nil { // it cannot be there: see V1
			err = wrap("await", queue, ErrRemoved)
		}
		return false, err // or the session has ended, and own with it
	case err != nil:
		return false, err
	}
	return passed, nil
}

// wait runs a request that is answered when something happens, and not before.
func (s *Session) wait(ctx context.Context, op string, queue driver.Queue, f func(context.Context) error) error {
	bound, stop := bind(ctx, s.ctx)
	defer stop()
	err := s.retry(bound, op, queue, func() error { return f(bound) })
	if err == nil {
		return nil
	}
	if state, _ := s.State(); ctx.Err() != nil && s.Ended() == nil && state == event.StateConnected &&
		!errors.Is(err, ErrUnavailable) && !definite(err) {
		return context.Cause(ctx)
	}
	return wrap(op, queue, s.outcome(ctx, err))
}

// Leave removes an entry of this session. ErrNotHeld means that it was not there any
// more, and that nothing was deleted.
//
// When ctx ends first, or the service refuses, the error says so, and the
// removal goes on in the background until it is done or the session, and with
// it the entry, has ended. With a context that was dead before the call, Leave
// still tries for up to two seconds.
func (s *Session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, s.driver.Leave)
}

// Pass is Leave of one that stands first in the queue and excludes everybody else.
// Whoever follows it is told so.
func (s *Session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, s.can.Handoff.Pass)
}

func (s *Session) leave(
	ctx context.Context, queue driver.Queue, own driver.Place, leave func(context.Context, driver.Queue, driver.Place) error,
) error {
	ctx, stop := Afterwards(ctx)
	defer stop()
	uncertain, gone := false, false
	err := s.request(ctx, "leave", queue, s.patience, func(ctx context.Context) error {
		err := leave(ctx, queue, own)
		gone = errors.Is(err, errGone)
		if gone && uncertain {
			return nil // an earlier attempt did it and its reply was lost
		}
		uncertain = uncertain || err != nil && !definite(err)
		return err
	})
	switch {
	case err == nil:
		if s.settle(queue, own.ID) && !uncertain {
			s.retire(own.ID)
		}
		return nil
	case gone:
		s.settle(queue, own.ID)
		return wrap("leave", queue, ErrNotHeld)
	}
	s.abandon(queue, own, !uncertain)
	return &Error{Op: "leave", Name: string(queue), Err: err, Maybe: uncertain}
}

// List reads the first limit entries of a queue, all if limit is 0, in order.
func (s *Session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	var entries []driver.Entry
	err := s.request(ctx, "list", queue, s.patience, func(ctx context.Context) error {
		var err error
		entries, err = s.driver.List(ctx, queue, limit)
		return err
	})
	return entries, wrap("list", queue, err)
}

// removed is ErrRemoved for a driver's word that an entry is not in the queue.
func removed(err error) error {
	if errors.Is(err, errGone) {
		return ErrRemoved
	}
	return err
}
