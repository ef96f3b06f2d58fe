package recipes

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// This file joins the queue for callers that need another entry. One join
// serves all of them, also those that come while it is under way.

// joining is a join for all callers of next.
type joining struct {
	cancel    context.CancelCauseFunc
	cancelled bool // by the last caller, which has given up
	queued    bool // its entry is in the queue of the service
}

// join starts to join the queue for the callers of next, unless that is under
// way. The caller holds k.mu.
func (k *keeper) join() {
	if k.joining != nil || len(k.next) == 0 {
		return
	}
	// Not from a caller's context, nor in its goroutine: the join goes on for
	// the others when that caller gives up.
	ctx, cancel := context.WithCancelCause(context.Background())
	j := &joining{cancel: cancel}
	k.joining = j
	r := k.next[0].Request
	if !k.queue.client.Go(func() { k.runJoin(ctx, j, r) }) {
		cancel(nil)
		k.joinFailed(j, coordinator.ErrClosed, nil) // all callers of next get it
	}
}

// enqueued notes that the callers are in the queue of the service.
func (k *keeper) enqueued() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.joining.queued = true
	for _, w := range k.next {
		if w.since.IsZero() { // else it was in a local queue before
			w.since = time.Now()
		}
	}
}

// runJoin joins and waits, for whichever callers there are by then.
func (k *keeper) runJoin(ctx context.Context, join *joining, request Request) {
	defer join.cancel(nil)
	began := time.Now()
	request.Queued = k.enqueued
	won := k.newAttempt(request)
	defer won.leaveLater() // does nothing, unless an observer panics
	err := won.win(ctx)
	if err == nil {
		k.joinWon(won)
		return
	}
	k.mu.Lock()
	reported := k.joinFailed(join, err, won)
	k.mu.Unlock()
	if !reported {
		won.notGranted(began, err)
	}
}

// newAttempt returns an attempt whose entry says that it may be kept: a Try of
// another client then asks for it, instead of failing for ever. Its payload is
// that of the queue, since any caller may work under it.
func (k *keeper) newAttempt(r Request) *attempt {
	r.Payload = k.queue.payload
	i := k.queue.newInfo(r, time.Now())
	i.Retains = true
	return k.queue.newAttempt(r, i)
}

// joinFailed ends a join that has failed. If it was cancelled, only the caller
// that has cancelled it gets the error: the others came later, and try again,
// as do those that came after the end of its session. reported: a caller gets
// the error. The caller holds k.mu.
func (k *keeper) joinFailed(join *joining, err error, left *attempt) (reported bool) {
	k.joining = nil
	all := k.next
	k.next = nil
	for _, w := range all {
		// They came while the cancelled join ended: "context canceled" is not
		// the end of their contexts.
		if !w.cancelled && (join.cancelled || w.after(left, err)) {
			k.next = append(k.next, w)
			continue
		}
		if w.err = err; !reported { // one event ends the one entry
			w.failed, reported = left, true
		}
		w.get(nil)
	}
	k.join() // for those that came later, if there are any
	return reported
}

// joinWon gives the turn that a join has won to the first caller, and puts the
// others in its local queue.
func (k *keeper) joinWon(won *attempt) {
	turn := k.take(won, true)
	// Until turn.begin the session does not know the turn, so it cannot be lost
	// in this step.
	k.mu.Lock()
	k.joining = nil
	all := k.next
	k.next = nil
	for i, w := range all {
		// The join was cancelled too late for its last caller, whose context
		// has ended. It gets the turn only if it need not wait for others.
		if w.cancelled && i > 0 {
			w.err = context.Cause(w.ctx)
			w.get(nil)
			continue
		}
		w.in = turn
		turn.waiting = append(turn.waiting, w)
	}
	k.setTurn(turn)
	k.mu.Unlock()
	// With the local queue in place: if the session has ended, the local queue
	// is sent away.
	turn.begin(turn, won)
	// The first caller gets it only now: in its own goroutine it could release
	// a turn that has not begun.
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case turn.isLost:
	case len(turn.waiting) > 0:
		if turn.pop(); len(turn.waiting) > 0 {
			turn.suspect()
		}
	default: // all have given up just now
		turn.depart()
		turn.session.Go(func() { turn.end(turn.session.Context()) })
	}
}

// setTurn makes t the turn for callers that come. The caller holds k.mu.
func (k *keeper) setTurn(t *kept) {
	// An operator may have removed the entry of the turn before, which does not
	// know it yet.
	if k.open != nil {
		k.open.shut()
	}
	k.open = t
}

// requeue makes callers wait for another entry, before those that already do:
// they came earlier. The caller holds k.mu.
func (k *keeper) requeue(waiting []*caller) {
	var again []*caller
	for _, w := range waiting {
		if w.cancelled { // its context has ended
			w.err = context.Cause(w.ctx)
			w.get(nil)
			continue
		}
		w.in = nil // giveUp looks for it in next from now on
		again = append(again, w)
	}
	k.next = append(again, k.next...)
	k.join()
}
