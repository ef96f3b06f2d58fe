package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
)

// This file is the conductor of an attempt: it makes one of a request, takes it
// through its steps, and makes a hold or an error of the outcome.

// newAttempt returns the attempt of a request, with the admission that it
// needs.
func (q *Queue) newAttempt(r Request, i info) *attempt {
	if r.Terms != nil {
		// One object for both: each permit makes one.
		c := &count{attempt: attempt{Request: r, queue: q, info: i}, terms: r.Terms}
		c.admission = c
		return &c.attempt
	}
	a := &attempt{Request: r, queue: q, info: i, rule: r.Rule}
	if r.exclusive() {
		a.rule = Exclusive
	}
	a.admission = follow{a} // a pointer in an interface: not another object
	return a
}

// newInfo is what the entry of a request says.
func (q *Queue) newInfo(r Request, began time.Time) info {
	return info{Identity: q.identity, Since: began.UTC().Round(time.Millisecond), Payload: r.Payload}
}

// win returns nil when the contender is admitted; then the caller must make a
// turn of the entry. Otherwise win removes the entry. It calls leaveLater only
// for an error: callers defer that as well, for an observer that panics.
func (a *attempt) win(ctx context.Context) (err error) {
	if a.value, err = a.queue.encode(a.info); err != nil {
		return err
	}
	err = a.join(ctx)
	switch {
	case a.session == nil:
		// There is no session that could be asked who has the name.
		return err
	case err == nil:
		err = a.wait(ctx)
	default:
		// Only after a failed join: an exclusive Try that has joined is first,
		// and a lock-delay does not end sooner since a contender asks.
		if err = a.taken(ctx, err); a.mayAskIdle(err) {
			err = a.askIdle(ctx, err)
		}
	}
	// In this order: the lock-delay is read as the first in the queue, since
	// only then is the note that of a contender that is gone.
	if err == nil {
		err = a.lockDelay(ctx)
	}
	if err == nil {
		// The session may have ended since, for instance during a pause of the
		// process. This is the last step before the caller works: nothing that
		// takes time may come between it and the hold.
		err = a.session.Check(ctx)
	}
	if err != nil {
		// Before taken, which asks the service who holds: the entry must not
		// block the queue during that request.
		a.leaveLater()
		return a.taken(ctx, err)
	}
	return nil
}

// hold returns the first handle of the grant that the attempt has won.
func (a *attempt) hold(ctx context.Context) *Hold {
	// One object for both: each lock makes one.
	both := &struct {
		turn  turn
		grant grant
	}{}
	turn, grant := &both.turn, &both.grant
	turn.take(a.queue, a.session, a.joined, a.info, a.value)
	turn.noted, turn.heldMode, turn.told = a.noted, a.heldMode(), a.told
	if a.exclusive() && a.first {
		// Only this place: an entry that is not the first, or does not exclude
		// those behind it, must not tell its successor that it is admitted.
		turn.handoff = a.joined.Place
	}
	grant.begin(turn, &a.Request)
	// The end of the session is reported to the turn from the call of start on,
	// in other goroutines. They lock mu first, so they find the handle.
	turn.mu.Lock()
	alive := turn.hook(grant)
	grant.watchTime(ctx)
	// After watchTime and before handle: the contexts of the handles are
	// derived from it.
	grant.nest(ctx)
	if turn.heldMode != "" && !a.knownHolder {
		turn.convert(turn.heldMode)
	}
	h := grant.handle(ctx, &grant.top)
	turn.mu.Unlock()
	// The turn has the entry now. Not earlier: an observer or a timer that
	// panics above leaves it to leaveLater.
	a.mustLeave = false
	if !alive {
		// The session has ended since win checked it, and so reports nothing to
		// a turn that began afterwards. Without mu, which lost locks.
		turn.lost()
	}
	return h
}

// WaitError is what the error of a call wraps that waited in the queue until
// its context ended, or a deadlock: see WithDeadlockError. The
// [coordinator.Error] around it has the operation and the name.
type WaitError = engine.WaitError

// explain makes a WaitError of an error with which ctx, or a deadlock, has
// ended the wait that began at since, if that is not zero. "context deadline
// exceeded" alone does not say which lock was not free.
func (q *Queue) explain(ctx context.Context, op string, since time.Time, err error) error {
	var cycle *DeadlockError
	switch {
	case since.IsZero():
		return err
	case ctx.Err() == nil && errors.As(err, &cycle): // see seekDeadlock
		err = cycle
	case ctx.Err() == nil:
		return err
	case engine.IsCause(ctx, err):
	case !errors.Is(err, coordinator.ErrUnavailable):
		return err // the answer of the service, or the end of the session
	default:
		if step, ok := err.(*engine.Error); ok { //nolint:errorlint // ours: of the failed step
			err = step.Err
		}
	}
	return &engine.Error{Op: op, Name: q.name,
		Err: &WaitError{Queued: time.Since(since), Err: err}}
}
