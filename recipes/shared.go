package recipes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
)

// shared is a turn that serves several callers of a Queue object at the same
// time: readers. See WithSharedTurns.
//
//	first caller ---> joining ---> admitted: all that wait for it hold
//	                     ^             |  ^
//	   a caller comes ---+             |  +--- a caller comes, the gate is open
//	                                   v
//	                  last grant released ---> the entry leaves
//
// The gate is open, also while it joins, until a contender which the turn keeps
// out is seen behind its entry, or is about to join with this Queue. Once
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
	// belongs to the goroutine that joins, except that attempt.session and
	// attempt.joined do not change any more once it is inQueue
	attempt    *attempt
	cancelJoin context.CancelCauseFunc

	waiting  []*user   // for the join, in order
	queued   time.Time // when it has joined; zero before
	admitted bool
	closed   bool // the gate
	isLost   bool // it is lost
	users    int  // callers that hold, or are about to
	served   int  // grants, also those that are over
	grants   []*grant
	unwatch  context.CancelFunc // ends the watch for other contenders; nil before that
	lastRead time.Time          // when the queue was last read: see readIfDue
	reported bool               // that nobody has used it
}

// user is a call of Acquire that shares a turn.
type user struct {
	call
	// Unless nil, it has waited for the join; has room for one. Sent to after
	// failed and handed are set.
	got  chan error
	ends engine.EndsWithin // of its contexts: see grant.part
}

// inQueue reports whether the entry is known to be queued. The caller holds the
// sharer's mu.
func (t *shared) inQueue() bool { return !t.queued.IsZero() }

// join joins the queue and waits until the entry is admitted, for whichever
// callers there are by then.
func (t *shared) join(ctx context.Context) {
	sharer, began := t.sharer, time.Now()
	defer t.cancelJoin(nil)
	defer t.attempt.leaveLater() // does nothing, unless an observer panics
	t.attempt.Queued = func() {
		// In one step with what sharer.rivalJoined does: of two contenders of
		// this Queue that join at the same time, the second one to come here
		// sees the other.
		sharer.mu.Lock()
		defer sharer.mu.Unlock()
		t.enqueued()
		if sharer.rivalBehind(t.attempt) {
			t.shut()
		}
		if len(t.waiting) > 1 { // one call alone overtakes nobody
			t.watch()
		}
	}
	err := t.attempt.win(ctx)
	sharer.mu.Lock()
	if err != nil {
		reported := t.fail(err, t.attempt)
		if t.inQueue() {
			t.cancel(err) // nobody else ends the context that enqueued has made
		}
		sharer.mu.Unlock()
		if !reported {
			t.attempt.notGranted(began, err)
		}
		return
	}
	// In one step: a call that comes before waits, and is counted here; one
	// that comes later counts itself, in enter. In between the last user could
	// leave.
	waiting := t.waiting
	t.waiting, t.users, t.admitted = nil, len(waiting), true
	sharer.mu.Unlock()
	// The users are counted by now. If the session has ended, each of them sees
	// that and joins again.
	t.begin(t, t.attempt)
	for _, u := range waiting {
		u.handed = time.Now()
		u.got <- nil
	}
}

// errAgain is the answer to a call that begins again.
var errAgain = errors.New("the session had ended before the call")

// fail ends a turn that was not admitted. reported: a call gets the error. The
// caller holds the sharer's mu.
func (t *shared) fail(err error, left *attempt) (reported bool) {
	t.shut()
	for _, u := range t.waiting {
		if u.after(left, err) {
			u.got <- errAgain
			continue
		}
		if !reported { // one event ends the one entry
			u.failed, reported = left, true
		}
		u.got <- err
	}
	t.waiting = nil
	return reported
}

// enqueued makes the turn that of its entry, which may not be admitted yet. The
// caller holds the sharer's mu.
func (t *shared) enqueued() {
	a := t.attempt
	t.take(a.queue, a.session, a.joined, a.info, a.value)
	// From here on, and not from the admission: a contender behind may be seen
	// while the turn waits, and keeps its rank.
	t.many, t.queued, t.lastRead = t, time.Now(), time.Now()
}

// wait waits until the turn is admitted, or the call's context ends.
func (t *shared) wait(user *user) error {
	var err error
	select {
	case err = <-user.got:
	case <-user.ctx.Done():
		var left bool
		if left, err = t.giveUp(user); left {
			return err
		}
		err = <-user.got // it is there, or comes soon
	}
	if err == nil {
		return nil
	}
	t.sharer.mu.Lock()
	since := t.since(user)
	t.sharer.mu.Unlock()
	return t.sharer.queue.explain(user.ctx, user.Op, since, err)
}

// since is when a call was queued, or zero. The caller holds the sharer's mu.
func (t *shared) since(u *user) time.Time {
	// A call that came to a queued entry has waited since it came.
	if t.inQueue() && t.queued.Before(u.began) {
		return u.began
	}
	return t.queued
}

// giveUp removes a call whose context has ended, and returns the error. left is
// false if the turn answers: it does already, or this is the last call that
// waits. Then giveUp cancels the join, whose result says whether the service
// has answered. That may be the turn, if it was admitted at that moment.
func (t *shared) giveUp(user *user) (left bool, err error) {
	sharer, cause := t.sharer, context.Cause(user.ctx)
	sharer.mu.Lock()
	defer sharer.mu.Unlock()
	at := slices.Index(t.waiting, user)
	switch {
	case at < 0: // join or fail has taken it out, and sends the answer
		return false, nil
	case len(t.waiting) == 1:
		t.shut() // callers that come must not get the end of this one
		t.cancelJoin(cause)
		return false, nil
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	return true, sharer.queue.explain(user.ctx, user.Op, t.since(user),
		unanswered(user.ctx, cause, sharer.queue.client, t.inQueue()))
}

// serve gives a call that is counted in users its grant. Without a hold and an
// error the turn is of no use.
func (t *shared) serve(user *user) (*Hold, error) {
	sharer, held := t.sharer, false
	defer func() {
		if !held { // also if an observer panics
			t.drop()
		}
	}()
	// As for kept turns: without mu, since it may ask the service.
	if !t.alive(user.ctx) {
		if err := user.cause(); err != nil {
			return nil, err
		}
		sharer.mu.Lock()
		t.shut()
		sharer.mu.Unlock()
		return nil, nil
	}
	// Before the observers are called: of calls that are served at the same
	// time exactly one reports the wait of the entry, and the others theirs.
	sharer.mu.Lock()
	t.served++
	local := t.served > 1
	sharer.mu.Unlock()
	if local {
		t.granted(&user.call, local, user.got != nil, user.handed)
	} else {
		t.granted(&user.call, local, t.attempt.waited, t.attempt.woken)
	}
	sharer.mu.Lock()
	// In one step with isLost, as in kept.serve.
	user.grant.at = len(t.grants)
	t.grants = append(t.grants, &user.grant)
	user.ends.Begin(t.ctx, &t.ends)
	user.grant.part = &user.ends
	gone := t.isLost
	h := t.give(&user.call)
	t.readIfDue()
	sharer.mu.Unlock()
	held = true
	// Without mu, as lost does it: observers are called.
	if gone { // before there was a grant to report it to
		user.grant.lost(context.Cause(t.ctx))
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
func (t *shared) release(ctx context.Context, ended *grant) error {
	sharer, held := t.sharer, time.Since(ended.since)
	sharer.mu.Lock()
	t.users--
	over := t.isLost
	switch {
	case over:
	case t.users == 0:
		over = true // the grant stays, since a loss from here on is also its own
		t.depart()
	default: // the entry stays: a loss from here on is none of this caller
		last := t.grants[len(t.grants)-1]
		t.grants[ended.at], last.at = last, ended.at
		t.grants[len(t.grants)-1] = nil
		t.grants = t.grants[:len(t.grants)-1]
	}
	sharer.mu.Unlock()
	// Only then a request is sent: see kept.release.
	if over {
		ctx, stop := engine.ReleaseContext(ctx)
		defer stop()
		return ended.endTurn(ctx)
	}
	ended.reportRelease(held, true, nil)
	return nil
}

// drop is release of a call that did not get a grant.
func (t *shared) drop() {
	sharer := t.sharer
	sharer.mu.Lock()
	t.users--
	// In one step with users: a call that comes finds either a user, and with
	// it the entry, or a closed gate.
	last, gone := t.users == 0 && !t.isLost, t.isLost
	if last {
		t.depart()
	}
	sharer.mu.Unlock()
	switch {
	case gone:
		t.report()
	case last:
		// In the background: the call that gives up must not wait for it.
		t.session.Go(func() {
			if t.finish(coordinator.ErrReleased) {
				_ = t.passOn(t.session.Context()) // after an error it continues in the background
			}
			t.report()
		})
	}
}
