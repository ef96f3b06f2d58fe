package recipes

import (
	"context"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
)

// shared is a turn that serves several callers of one process at the same time:
// readers. See WithSharedTurns.
//
//	first caller ---> joining ---> admitted: all that wait for it hold
//	                     ^             |  ^
//	   a caller comes ---+             |  +--- a caller comes, the gate is open
//	                                   v
//	                  last grant released ---> the entry leaves
//
// The gate is open, also while it joins, until a contender which the turn keeps
// out is seen behind its entry, or is about to join in this process. Once
// closed it stays closed: callers that come later share another turn, whose
// entry is behind that contender. So no contender is starved by callers that
// come one after the other, and each is overtaken only by callers that came
// before it was seen.
//
// A turn is not kept: its entry leaves with the last grant.
//
// The sharer's mu guards the fields.
type shared struct {
	turn
	sharer *sharer
	// belongs to the goroutine that joins, except that won.session and
	// won.joined do not change any more once it is inQueue
	won        *attempt
	cancelJoin context.CancelCauseFunc

	waiting  []*user   // for the join, in order
	queued   time.Time // when it has joined; zero before
	admitted bool
	closed   bool // the gate
	gone     bool // it is lost
	users    int  // callers that hold, or are about to
	served   int  // grants, also those that are over
	grants   []*grant
	unwatch  context.CancelFunc // ends the watch for other contenders; nil before that
	read     time.Time          // when the queue was last read: see look
	reported bool               // that nobody has used it
}

// user is a call of Acquire that shares a turn.
type user struct {
	call
	// Unless nil, it has waited for the join; has room for one. Sent to after
	// left and handed are set.
	got chan error
}

// inQueue reports whether the entry is known to be queued. The caller holds the
// sharer's mu.
func (t *shared) inQueue() bool { return !t.queued.IsZero() }

// join joins the queue and waits until the entry is admitted, for whichever
// callers there are by then.
func (t *shared) join(ctx context.Context) {
	s := t.sharer
	defer t.cancelJoin(nil)
	defer t.won.leaveLater() // does nothing, unless an observer panics
	t.won.Queued = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.enqueued()
		if s.rivalBehind(t.won) {
			t.shut()
		}
		if len(t.waiting) > 1 {
			t.watch()
		}
	}
	err := t.won.win(ctx)
	s.mu.Lock()
	if err != nil {
		t.fail(err, t.won)
		if t.inQueue() {
			t.cancel(err)
		}
		s.mu.Unlock()
		return
	}
	waiting := t.waiting
	t.waiting, t.users, t.admitted = nil, len(waiting), true
	s.mu.Unlock()
	// The users are counted by now. If the session has ended, each of them sees
	// that and joins again.
	t.begin(t, t.won)
	for _, u := range waiting {
		u.handed = time.Now()
		u.got <- nil
	}
}

// fail ends a turn that was not admitted. The caller holds the sharer's mu.
func (t *shared) fail(err error, left *attempt) {
	t.shut()
	for _, u := range t.waiting {
		u.left = left
		left = nil // one event ends the one entry
		u.got <- err
	}
	t.waiting = nil
}

// enqueued makes the turn that of its entry, which may not be admitted yet. The
// caller holds the sharer's mu.
func (t *shared) enqueued() {
	a := t.won
	t.take(a.queue, a.session, a.joined, a.info, a.value)
	t.many, t.queued, t.read = t, time.Now(), time.Now()
}

// wait waits until the turn is admitted, or the call's context ends.
func (t *shared) wait(u *user) error {
	var err error
	select {
	case err = <-u.got:
	case <-u.ctx.Done():
		var left bool
		if left, err = t.giveUp(u); left {
			return err
		}
		err = <-u.got // it is there, or comes soon
	}
	if err == nil {
		return nil
	}
	t.sharer.mu.Lock()
	since := t.since(u)
	t.sharer.mu.Unlock()
	return t.sharer.queue.explain(u.ctx, u.Op, since, err)
}

// since is when a call was queued, or zero. The caller holds the sharer's mu.
func (t *shared) since(u *user) time.Time {
	if t.inQueue() && t.queued.Before(u.began) {
		return u.began
	}
	return t.queued
}

// giveUp removes a call whose context has ended, and returns the error. left is
// false if the turn answers: it does already, or this is the last call that
// waits. Then giveUp cancels the join, whose result says whether the service
// has answered. That may be the turn, if it was admitted at that moment.
func (t *shared) giveUp(u *user) (left bool, err error) {
	s, cause := t.sharer, context.Cause(u.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(t.waiting, u)
	switch {
	case at < 0:
		return false, nil
	case len(t.waiting) == 1:
		t.shut() // callers that come must not get the end of this one
		t.cancelJoin(cause)
		return false, nil
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	return true, s.queue.explain(u.ctx, u.Op, t.since(u),
		unanswered(u.ctx, cause, s.queue.client, t.inQueue()))
}

// serve gives a call that is counted in users its grant. Without a hold and an
// error the turn is of no use.
func (t *shared) serve(u *user) (*Hold, error) {
	s, held := t.sharer, false
	defer func() {
		if !held { // also if an observer panics
			t.drop()
		}
	}()
	if !t.alive(u.ctx) {
		if err := u.over(); err != nil {
			return nil, err
		}
		s.mu.Lock()
		t.shut()
		s.mu.Unlock()
		return nil, nil
	}
	s.mu.Lock()
	t.served++
	local := t.served > 1
	s.mu.Unlock()
	if local {
		t.granted(&u.call, local, u.got != nil, u.handed)
	} else {
		t.granted(&u.call, local, t.won.waited, t.won.woken)
	}
	s.mu.Lock()
	t.grants = append(t.grants, &u.grant)
	gone := t.gone
	h := t.give(&u.call)
	t.look()
	s.mu.Unlock()
	held = true
	if gone { // before there was a grant to report it to
		u.grant.lost(context.Cause(t.ctx))
	}
	return h, nil
}

// alive reports whether the turn may be given to a call. While the session is
// suspended only the first may have it, as without the option: the service has
// not confirmed for long that the turn is held.
func (t *shared) alive(ctx context.Context) bool {
	if t.err(ctx) != nil {
		return false
	}
	t.sharer.mu.Lock()
	first := t.served == 0
	t.sharer.mu.Unlock()
	return first || t.connected()
}

// release implements many. Only the last grant sends a request.
func (t *shared) release(ctx context.Context, g *grant) error {
	s, held := t.sharer, time.Since(g.since)
	s.mu.Lock()
	t.users--
	over := t.gone
	switch {
	case over:
	case t.users == 0:
		over = true // the grant stays, since a loss from here on is also its own
		t.depart()
	default:
		t.grants = slices.DeleteFunc(t.grants, func(o *grant) bool { return o == g })
	}
	s.mu.Unlock()
	if over {
		ctx, stop := engine.ReleaseContext(ctx)
		defer stop()
		return g.end(ctx)
	}
	g.released(held, true, nil)
	return nil
}

// drop is release of a call that did not get a grant.
func (t *shared) drop() {
	s := t.sharer
	s.mu.Lock()
	t.users--
	last, gone := t.users == 0 && !t.gone, t.gone
	if last {
		t.depart()
	}
	s.mu.Unlock()
	switch {
	case gone:
		t.report()
	case last:
		t.session.Go(func() {
			if t.over(coordinator.ErrReleased) {
				_ = t.passOn(t.session.Context()) // after an error it continues in the background
			}
			t.report()
		})
	}
}
