package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// This file has what the turns that serve several callers of a Queue object
// share: kept (one after the other) and shared (at the same time).

// readsPerTTL is how often a turn that serves several callers reads the queue:
// a watch that is silent, for whatever reason, must not starve the others.
const readsPerTTL = 10

// watches reports whether the service can watch the queue. Without that nothing
// would show that another contender waits. An error is left to the ordinary
// attempt.
func (q *Queue) watches(ctx context.Context) bool {
	s, err := q.client.Session(ctx)
	return err == nil && s.WatchesQueues()
}

// call is a call of Acquire that may be served by a turn which another call has
// joined. It is one object with what it gets: each lock makes one.
type call struct {
	Request
	ctx    context.Context
	began  time.Time
	handed time.Time // when the turn was given to it, if it has waited
	failed *attempt  // its entry has left, and this call's event says so

	grant grant
	hold  Hold
}

// cause is the cause with which the call's context has ended, or nil. It does
// not call Err: that of a hold's context may ask the service.
func (c *call) cause() error {
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	default:
		return nil
	}
}

// after reports whether a call began after the session of a join had ended, and
// nobody had noticed that: the process had stood still. As without the join of
// others, the call must not see an error for that, and joins again.
func (c *call) after(join *attempt, err error) bool {
	return join != nil && join.session != nil && errors.Is(err, coordinator.ErrSessionLost) &&
		!c.began.Before(join.session.Deadline())
}

// notGranted notifies the observers of a call that does not get a turn.
func (c *call) notGranted(q *Queue, err error) {
	e := event.Event{Kind: event.NotGranted, Op: c.Op, Queue: q.id, Context: c.ctx,
		Duration: time.Since(c.began), Err: err}
	if a := c.failed; a != nil && a.session != nil {
		e.Session, e.Token = a.session.ID(), a.joined.Token
	}
	q.client.Observe(e)
}

// begin makes the session report its end to the holder of a turn that an
// attempt has won.
func (t *turn) begin(h lossReceiver, won *attempt) {
	t.mu.Lock()
	alive := t.hook(h)
	t.mu.Unlock()
	won.mustLeave = false // from here on the turn removes the entry
	if !alive {           // the session reports nothing to a turn that began afterwards
		t.lost()
	}
}

// connected reports whether the latest renewals were answered. While they are
// not, no further call gets the turn: see the two alive.
func (t *turn) connected() bool {
	state, _ := t.session.State()
	return state == event.StateConnected
}

// granted notifies the observers before there is a hold, so that they get a
// grant before its loss. since is when a call that has waited was woken.
func (t *turn) granted(c *call, local, waited bool, since time.Time) {
	e := event.Event{Kind: event.Granted, Session: t.session.ID(), Op: c.Op, Queue: t.queue.id,
		Token: t.token, Context: c.ctx, Duration: time.Since(c.began), Waited: waited, Local: local}
	if waited {
		e.HandOver = time.Since(since)
	}
	t.queue.client.Observe(e)
}

// give begins the call's grant.
func (t *turn) give(c *call) *Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	// As in attempt.hold, and in the same order.
	c.grant.begin(t, &c.Request)
	c.grant.watchTime(c.ctx)
	c.grant.nest(c.ctx)
	return c.grant.handleIn(c.ctx, &c.hold, &c.grant.top)
}

// notGranted notifies the observers of a failed join whose error no call gets.
func (a *attempt) notGranted(began time.Time, err error) {
	if a.joined.Token != 0 { // else there is no entry whose end is to be reported
		a.observe(a.session.Context(), began, event.NotGranted, err)
	}
}

// notGranted notifies the observers of the end of a turn that no call has used:
// each entry that has joined is granted or not.
func (t *turn) notGranted(op string, began time.Time) {
	t.queue.client.Observe(event.Event{Kind: event.NotGranted, Session: t.session.ID(),
		Op: op, Queue: t.queue.id, Token: t.token, Context: t.ctx,
		Duration: time.Since(began), Err: context.Cause(t.ctx)})
}

// readIsDue reports whether the queue is to be read again, which was last read
// at that time, and notes it. See readsPerTTL.
func (t *turn) readIsDue(last *time.Time) bool {
	if time.Since(*last) < t.session.TTL()/readsPerTTL {
		return false
	}
	*last = time.Now()
	return true
}

// behind reads the queue, and reports whether wants accepts a contender behind
// the entry.
func (t *turn) behind(wants func(driver.Place) bool) bool {
	// An error is no answer: the watch goes on, and the next read is soon.
	yes, err := t.session.Behind(t.ctx, t.queue.id, t.stablePlace(), wants)
	return err == nil && yes
}

// unanswered is the error of a caller that gives up while its join goes on for
// others: the cause, with ErrUnavailable if the service does not answer.
func unanswered(ctx context.Context, cause error, c *engine.Client, queued bool) error {
	inTime := queued || errors.Is(ctx.Err(), context.Canceled)
	if inTime && c.Connected() {
		return cause
	}
	return driver.Wrap(coordinator.ErrUnavailable, cause)
}
