package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Follower follows the first of a queue. It is not safe for concurrent use.
type Follower struct {
	queue   *Queue
	session *engine.Session
	known   driver.Version    // of the last head that the session has shown
	shown   driver.Version    // of the last head from Next; driver.Any before the first
	place   driver.Place      // of that head
	token   coordinator.Token // the greatest from Next
	last    Contender         // from Next
	stale   bool              // NextOrStale has returned that the last may be out of date
}

// Follow returns a follower of the queue's first contender. It does no I/O.
func (q *Queue) Follow() *Follower {
	return &Follower{queue: q, shown: driver.Any}
}

// Next returns the first contender in the queue. Calls after the first block
// until it has changed. ok is false if the queue is empty. Next may skip
// changes, but never the latest. Tokens never fall from one call to the next,
// unless the service has lost its data. After a lost session Next may return an
// older payload of the same contender, or a contender that has just left again.
//
// Each follower watches one entry, however long the queue is. If ctx ends while
// Next waits, the error is context.Cause(ctx).
func (f *Follower) Next(ctx context.Context) (first Contender, ok bool, err error) {
	for losses := 1; ; losses++ {
		session, err := f.queue.client.Session(ctx)
		if err != nil {
			return first, false, engine.Describe(ctx, "observe", f.queue.name, err)
		}
		if session != f.session { // after a loss of data, known can be another head's version
			f.session, f.known = session, driver.Any
		}
		head, err := session.Head(ctx, f.queue.id, f.known)
		if err == nil && f.earlier(head) {
			head, err = f.confirm(ctx, session, head)
		}
		switch {
		case err == nil:
			if f.take(head) {
				first = f.queue.contender(head.Entry)
				first.Holding = head.Version != 0
				f.last = first
				return first, first.Holding, nil
			}
			losses = 0
		case ctx.Err() != nil || !errors.Is(err, coordinator.ErrSessionLost):
			return first, false, engine.Describe(ctx, "observe", f.queue.name, err)
		default:
			if err := PauseAgain(ctx, f.queue, losses); err != nil {
				return first, false, err
			}
		}
	}
}

// NextOrStale is like Next, but does not hide that the service is silent: when
// the session is suspended or lost, it returns the contender of the last call
// with Stale set, once. The next call returns when the service has confirmed a
// state, also if that is the same.
func (f *Follower) NextOrStale(ctx context.Context) (first Contender, ok bool, err error) {
	switch {
	case f.stale:
		// Not at the first answer: a server that is cut off from the others may
		// still answer reads. It cannot acknowledge a renewal.
		if err := f.awaitRenewal(ctx); err != nil {
			return first, false, err
		}
		f.known, f.shown = driver.Any, driver.Any
		first, ok, err = f.Next(ctx)
		f.stale = err != nil
		return first, ok, err
	case f.session == nil: // nothing was shown
		return f.Next(ctx)
	}
	bound, cancel := context.WithCancel(ctx)
	watched := make(chan bool, 1)
	go func() { // waited for below
		watched <- silent(bound, f.session)
		cancel()
	}()
	first, ok, err = f.Next(bound)
	cancel()
	if silent := <-watched; silent && err != nil && ctx.Err() == nil {
		f.stale = true
		first, err = f.last, nil
		first.Stale, ok = true, first.Holding
	}
	return first, ok, err
}

// silent waits until the session is suspended or lost, or ctx ends.
func silent(ctx context.Context, s *engine.Session) bool {
	for {
		state, changed := s.State()
		if state != event.StateConnected {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// awaitRenewal waits for a session that the service renews.
func (f *Follower) awaitRenewal(ctx context.Context) error {
	for {
		session, err := f.queue.client.Session(ctx)
		if err != nil {
			return engine.Describe(ctx, "observe", f.queue.name, err)
		}
		state, changed := session.State()
		if state == event.StateConnected {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// earlier reports whether a head has a smaller token than one that was shown. A
// new session may first show older heads than the last session.
func (f *Follower) earlier(h driver.Head) bool { return h.Version != 0 && h.Token < f.token }

// confirm returns the head after a request that every server has to know, so
// that it is no state of the past: a write of no version, as in
// [Queue.LatestRecord]. If its token is still smaller, the service has lost its
// data, and tokens begin anew. If the service refuses the write, or the layout
// has no records, confirm asks whether the entry of the head is there: behind
// that of a greater token it cannot be. Else it returns h, which take ignores.
func (f *Follower) confirm(ctx context.Context, session *engine.Session, head driver.Head) (driver.Head, error) {
	_, err := session.SetRecord(ctx, f.queue.id, []byte("0"), driver.Any)
	switch {
	case errors.Is(err, coordinator.ErrRefused), errors.Is(err, coordinator.ErrInvalid):
		err = session.EntryExists(ctx, f.queue.id, head.Key, head.Token)
		switch {
		case err == nil:
			f.token = 0
		case errors.Is(err, coordinator.ErrRemoved), errors.Is(err, coordinator.ErrRefused):
			err = nil
		}
		return head, err
	case !Overtaken(ctx, err):
		return head, causeIfStale(ctx, err)
	}
	head, err = session.Head(ctx, f.queue.id, driver.Any)
	if err == nil && f.earlier(head) {
		f.token = 0
	}
	return head, err
}

// take stores a head, and reports whether it is new. An older state of the same
// contender cannot be recognized, and is returned again.
func (f *Follower) take(h driver.Head) bool {
	f.known = h.Version
	if h.Version == f.shown && h.Place == f.place || f.earlier(h) {
		return false
	}
	f.shown, f.place, f.token = h.Version, h.Place, max(f.token, h.Token)
	return true
}
