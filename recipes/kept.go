package recipes

import (
	"context"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// kept is a turn that may serve several callers of a Queue object, one after
// the other, and that may be kept while nobody works under it. See WithRetain.
//
//	             +----- the next of the local queue has it -----+
//	             v                                              |
//	won ---> a caller holds ----- released, the gate is open ---+
//	             ^    |                                         |
//	a caller     |    | released, the gate is closed,           | nobody waits
//	comes        |    v and nobody waits or the time is up      v
//	             |  passed on <------- asked, or too long --- idle
//	             +----------------------------------------------+
//
// The gate is open until another contender is seen behind the entry. Once
// closed it stays closed: callers that come later join the queue again. So
// another contender is overtaken only by callers that came before it was seen,
// and for a limited time. There is no shortest time for which a turn is kept:
// that would make the other contenders wait for nothing.
//
// The keeper's mu guards the fields.
type kept struct {
	turn
	keeper *keeper
	won    *attempt  // that has won it
	began  time.Time // when it was won

	// a caller holds, or is about to; who sets it, while it is false, has the
	// turn: a caller that comes, or passOnIfIdle
	busy         bool
	grant        *grant        // what that caller holds, once it does
	waiting      []*caller     // wait for this turn, in order
	closed       bool          // the gate
	isLost       bool          // lost was called: it was not passed on
	served       int           // all that it has had
	latest       time.Duration // how long the latest hold lasted
	asked        time.Time     // when another contender was seen; zero if none was
	watched      bool          // another contender will be seen
	lastRead     time.Time     // when the queue was last read: see readIfDue
	idle         *time.Timer   // runs while it is idle; one for all such times
	idleSince    time.Time     // when it became idle
	keptObserved bool          // there was an event.Kept
	// its end was reported
	endReported bool
	stopOnClose func() // stops Session.OnClose

	suspicion *time.Timer // nil before a caller has waited; see suspect
	suspects  bool        // it runs
	named     bool        // the present hold was named in a warning
}

// caller is a call of Acquire that keeps. While it waits, it is in exactly one
// list: the local queue of a turn, or next of the keeper. What is sent to got
// takes it out of both, under the keeper's mu: so one that is in neither has
// its answer, or finds it in got.
type caller struct {
	call

	// guarded by the keeper's mu
	in        *kept     // it waits in the local queue of this turn
	cancelled bool      // it has given up as the last one, and waits for the join
	waited    bool      // in a local queue
	since     time.Time // when it was queued: there, or at the service

	got chan *kept // the turn, or nil if err is set; has room for one
	err error      // set before got, as failed and handed
}

func (w *caller) get(t *kept) {
	w.in, w.handed = nil, time.Now()
	w.got <- t // never blocks: a caller waits for one answer at a time
}

// take returns the turn that an attempt has won. It is busy: the caller of take
// gives it to a caller of Acquire. open: callers may wait in its local queue.
func (k *keeper) take(a *attempt, open bool) *kept {
	t := &kept{keeper: k, won: a, began: time.Now(), busy: true, closed: !open,
		lastRead: time.Now(), stopOnClose: func() {}}
	t.take(a.queue, a.session, a.joined, a.info, a.value)
	t.noted, t.many = a.noted, t
	if a.first { // and exclusive, as in attempt.hold: see keeper.keeps
		t.handoff = a.joined.Place
	}
	// Made once and reset: each release would else make a timer. The duration
	// does not matter, since it is stopped at once.
	t.idle = time.AfterFunc(time.Hour, func() { t.session.Go(t.idleTooLong) })
	t.idle.Stop()
	return t
}

// serve gives the turn to a caller, which has waited for it. Without a hold and
// an error the turn is of no use, and the caller waits for another one.
func (t *kept) serve(waiter *caller) (*Hold, error) {
	keeper, held := t.keeper, false
	defer func() {
		if !held { // also if an observer panics
			t.handOver()
		}
	}()
	// Without mu: alive may ask the service.
	if !t.alive(waiter.ctx) {
		// A caller whose context has ended must not join again: it would take
		// an entry that nobody uses.
		if err := waiter.cause(); err != nil {
			return nil, err
		}
		keeper.mu.Lock()
		defer keeper.mu.Unlock()
		if waiter.got == nil { // the turn was idle when it came
			waiter.got = make(chan *kept, 1)
		}
		var first []*caller // it came before those of the local queue
		if !waiter.Try {    // see served
			first = append(first, waiter)
		}
		t.sendAway(first)
		return nil, nil
	}
	// Without mu, since it calls observers. served may be read: only the caller
	// that has the turn, this one, writes it.
	if local := t.served > 0; local {
		t.granted(&waiter.call, local, waiter.waited, waiter.handed)
	} else {
		t.granted(&waiter.call, local, t.won.waited, t.won.woken)
	}
	// In one step with isLost: lost reports to the grant that it finds, and if
	// it came before, serve does so below.
	keeper.mu.Lock()
	t.served++
	t.grant, t.named = &waiter.grant, false
	gone := t.isLost
	h := t.give(&waiter.call)
	t.readIfDue()
	keeper.mu.Unlock()
	held = true
	if gone { // before there was a grant to report it to
		waiter.grant.lost(context.Cause(t.ctx))
	}
	return h, nil
}

// alive reports whether the turn may be given to a caller. While the session is
// suspended only the first may have it, as without the option: what the service
// has not confirmed for long is not worth keeping.
func (t *kept) alive(ctx context.Context) bool {
	if t.err(ctx) != nil {
		return false
	}
	return t.served == 0 || t.connected()
}

// release ends a grant, whose contexts have ended. It passes the turn on with
// the caller's context, if that is due, and returns the error. Otherwise no
// request is sent.
func (t *kept) release(ctx context.Context, grant *grant) error {
	keeper, held := t.keeper, time.Since(grant.since)
	keeper.mu.Lock()
	t.latest = held
	gone := t.isLost
	due := !gone && t.due()
	switch {
	case due:
		t.depart() // with grant set: until the entry leaves, a loss is its own
	case !gone:
		t.grant = nil // a loss from here on is none of this caller
	}
	keeper.mu.Unlock()
	// Only then a request is sent. Hold.release has made no context for it: in
	// most releases that would cost more than all else.
	if gone || due {
		ctx, stop := engine.ReleaseContext(ctx)
		defer stop()
		err := grant.endTurn(ctx)
		t.report()
		return err
	}
	defer t.handOver() // after the report, in the order in which observers expect it
	grant.reportRelease(held, true, nil)
	return nil
}

// handOver gives the turn to the next caller of the local queue, or keeps it
// idle, or passes it on in the background.
func (t *kept) handOver() {
	if t.tryHandOver() {
		return
	}
	// Reported before it is idle, so that its end is reported later. A caller
	// may come meanwhile, so it is decided again, also if an observer panics.
	defer t.tryHandOver()
	t.queue.client.Observe(event.Event{Kind: event.Kept, Session: t.session.ID(),
		Queue: t.queue.id, Token: t.token})
}

// tryHandOver is handOver, except that it returns false where the turn would be
// idle for the first time.
func (t *kept) tryHandOver() bool {
	keeper := t.keeper
	keeper.mu.Lock()
	defer keeper.mu.Unlock()
	switch {
	case t.isLost: // lost has sent the local queue away
	// Again, after release: another contender may have been seen since, or the
	// local queue may be empty by now.
	case t.due():
		t.depart()
		t.session.Go(func() { t.end(t.session.Context()) })
	case len(t.waiting) > 0:
		t.watch() // a second caller may overtake other clients
		t.pop()
	case !t.keptObserved:
		t.keptObserved = true
		return false
	default:
		t.busy, t.idleSince = false, time.Now()
		t.idle.Reset(t.queue.retain) // idleTooLong looks at idleSince: it may fire late
		t.watch()
	}
	return true
}

// pop gives the turn to the first of the local queue. The caller holds the
// keeper's mu.
func (t *kept) pop() {
	w := t.waiting[0]
	t.waiting = t.waiting[1:]
	w.waited = true
	w.get(t)
}

// taken is the error of a Try of this Queue while a caller has the turn.
func (t *kept) taken(op string) *TakenError {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &TakenError{Op: op, Name: t.queue.name, Holder: Contender{
		Identity: t.info.Identity, Since: t.info.Since, Token: t.token, Session: t.session.ID(),
		ID: t.place.ID, Key: t.place.Key, Mode: t.place.Mode, Payload: t.info.Payload,
		Retains: true, Holding: true,
	}}
}

// suspect begins to look for callers in the local queue that may wait for
// themselves: see attempt.suspectOwn. It looks once in a TTL, so that a short
// wait costs nothing. The caller holds the keeper's mu.
func (t *kept) suspect() {
	switch {
	case t.suspects:
	case t.suspicion == nil:
		t.suspicion = time.AfterFunc(t.session.TTL(), func() { t.session.Go(t.nameOwn) })
	default:
		t.suspicion.Reset(t.session.TTL())
	}
	t.suspects = true
}

// nameOwn logs the warning, once for each hold, if a caller has waited for that
// hold for a TTL.
func (t *kept) nameOwn() {
	keeper, next := t.keeper, t.session.TTL()
	keeper.mu.Lock()
	t.suspects = len(t.waiting) > 0 && !t.isLost
	at := slices.IndexFunc(t.waiting, func(w *caller) bool { return !w.Fresh })
	var late *caller
	if g := t.grant; at >= 0 && g != nil && !t.named {
		since := t.waiting[at].since
		if g.since.After(since) {
			since = g.since
		}
		if left := next - time.Since(since); left > 0 {
			next = left
		} else {
			late, t.named = t.waiting[at], true
		}
	}
	if t.suspects {
		t.suspicion.Reset(next)
	}
	keeper.mu.Unlock()
	if late != nil {
		t.queue.warnOfOwn(late.Op, t.token, late.since)
	}
}
