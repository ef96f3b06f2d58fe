package recipes

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// kept is a turn that may serve several callers of one process, one after the
// other, and that may be kept while nobody works under it. See WithRetain.
//
//	             +----- handed over to the next of the local queue ----+
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
	won    *attempt
	began  time.Time

	busy    bool      // a caller holds, or is about to
	grant   *grant    // what that caller holds, once it does
	waiting []*caller // wait for this turn, in order
	closed  bool      // the gate
	gone    bool      // it is lost
	grants  int
	latest  time.Duration // how long the latest hold lasted
	asked   time.Time     // when another contender was seen; zero if none was
	watched bool          // another contender will be seen
	read    time.Time     // when the queue was last read: see look
	idle    *time.Timer   // runs while it is idle
	since   time.Time     // when it became idle
	told    bool          // there was an event.Kept
	// its end was reported
	reported bool
	closing  func() // stops Session.OnClose

	suspicion *time.Timer // nil before a caller has waited; see suspect
	suspects  bool        // it runs
	named     bool        // the present hold was named in a warning
}

const (
	// servedFor is how long the local queue is served at least after another
	// contender was seen. It is far above the cost of a local hand-over.
	servedFor = 10 * time.Millisecond

	firstPause, lastPause = 30 * time.Second, 8 * time.Minute // see waste
)

// take returns the turn that an attempt has won. It is busy: the caller of take
// gives it to a caller of Acquire. open: callers may wait in its local queue.
func (k *keeper) take(a *attempt, open bool) *kept {
	t := &kept{keeper: k, won: a, began: time.Now(), busy: true, closed: !open,
		read: time.Now(), closing: func() {}}
	t.take(a.queue, a.session, a.joined, a.info, a.value)
	t.noted, t.many = a.noted, t
	if a.first {
		t.handoff = a.joined.Place
	}
	t.idle = time.AfterFunc(time.Hour, func() { t.session.Go(t.tooLong) })
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
	if !t.alive(waiter.ctx) {
		if err := waiter.over(); err != nil {
			return nil, err
		}
		keeper.mu.Lock()
		defer keeper.mu.Unlock()
		if waiter.got == nil { // the turn was idle when it came
			waiter.got = make(chan *kept, 1)
		}
		t.shut()
		// At once: this caller came before those of the local queue.
		waiting := t.waiting
		if !waiter.Try { // see served
			waiting = append([]*caller{waiter}, waiting...)
		}
		t.waiting = nil
		keeper.requeue(waiting)
		return nil, nil
	}
	if local := t.grants > 0; local {
		t.granted(&waiter.call, local, waiter.waited, waiter.handed)
	} else {
		t.granted(&waiter.call, local, t.won.waited, t.won.woken)
	}
	keeper.mu.Lock()
	t.grants++
	t.grant, t.named = &waiter.grant, false
	gone := t.gone
	h := t.give(&waiter.call)
	t.look()
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
	return t.grants == 0 || t.connected()
}

// release ends a grant, whose contexts have ended. It passes the turn on with
// the caller's context, if that is due, and returns the error. Otherwise no
// request is sent.
func (t *kept) release(ctx context.Context, grant *grant) error {
	keeper, held := t.keeper, time.Since(grant.since)
	keeper.mu.Lock()
	t.latest = held
	gone := t.gone
	due := !gone && t.due()
	switch {
	case due:
		t.depart()
	case !gone:
		t.grant = nil // a loss from here on is none of this caller
	}
	keeper.mu.Unlock()
	if gone || due {
		ctx, stop := engine.ReleaseContext(ctx)
		defer stop()
		err := grant.end(ctx)
		t.report()
		return err
	}
	defer t.handOver() // after the report, in the order in which observers expect it
	grant.released(held, true, nil)
	return nil
}

// due reports whether the turn is to be passed on before the next caller. The
// caller holds the keeper's mu.
func (t *kept) due() bool {
	t.mu.Lock()
	changed := t.conversion != nil || t.written
	t.mu.Unlock()
	waiting := len(t.waiting) > 0
	switch {
	case changed, !t.connected():
		return true
	case t.closed && waiting:
		return time.Since(t.asked) >= max(servedFor, 2*t.latest)
	case t.closed:
		return true
	}
	return !waiting && time.Now().Before(t.keeper.until)
}

// depart prepares that the turn is passed on: nobody gets it any more. The
// caller holds the keeper's mu.
func (t *kept) depart() {
	t.shut()
	waiting := t.waiting
	t.waiting = nil
	t.keeper.requeue(waiting)
	t.mu.Lock()
	t.leaving = true
	t.mu.Unlock()
}

// handOver gives the turn to the next caller of the local queue, or keeps it
// idle, or passes it on in the background.
func (t *kept) handOver() {
	if t.handedOver() {
		return
	}
	// Reported before it is idle, so that its end is reported later. A caller
	// may come meanwhile, so it is decided again, also if an observer panics.
	defer t.handedOver()
	t.queue.client.Observe(event.Event{Kind: event.Kept, Session: t.session.ID(),
		Queue: t.queue.id, Token: t.token})
}

// handedOver is handOver, except that it returns false where the turn would be
// idle for the first time.
func (t *kept) handedOver() bool {
	keeper := t.keeper
	keeper.mu.Lock()
	defer keeper.mu.Unlock()
	switch {
	case t.gone: // lost has sent the local queue away
	case t.due():
		t.depart()
		t.session.Go(func() { t.end(t.session.Context()) })
	case len(t.waiting) > 0:
		t.watch()
		t.pop()
	case !t.told:
		t.told = true
		return false
	default:
		t.busy, t.since = false, time.Now()
		t.idle.Reset(t.queue.retain)
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

// end removes the entry of a turn that nobody holds.
func (t *kept) end(ctx context.Context) {
	defer t.report()
	if t.over(coordinator.ErrReleased) {
		_ = t.passOn(ctx) // after an error it continues in the background
	}
}

// report notifies the observers that a turn which was kept is over, once. If
// no caller has held, since those that waited for it have given up, it also
// reports that: each entry that has joined is granted or not.
func (t *kept) report() {
	keeper := t.keeper
	keeper.mu.Lock()
	t.idle.Stop()
	if t.suspicion != nil {
		t.suspicion.Stop()
	}
	stop, told := t.closing, t.told
	t.closing, t.told = func() {}, false
	unused := t.grants == 0 && !t.reported
	t.reported = true
	e := event.Event{Kind: event.GivenUp, Session: t.session.ID(), Queue: t.queue.id,
		Token: t.token, Duration: time.Since(t.began)}
	if !t.asked.IsZero() {
		e.HandOver = time.Since(t.asked)
	}
	keeper.mu.Unlock()
	stop()
	if unused {
		t.unused(t.won.Op, t.began)
	}
	if told {
		t.queue.client.Observe(e)
	}
}

// lost implements holder. An idle turn that is lost is no loss of a hold. The
// callers that wait for it join on the next session.
func (t *kept) lost(cause error) {
	k := t.keeper
	k.mu.Lock()
	t.gone = true
	g := t.grant
	t.depart()
	k.mu.Unlock()
	if g != nil {
		g.lost(cause)
	}
	t.report()
}

// shut closes the gate. The caller holds the keeper's mu.
func (t *kept) shut() {
	t.closed = true
	if t.keeper.turn == t {
		t.keeper.turn = nil
	}
}

// taken is the error of a Try of this process while a caller has the turn.
func (t *kept) taken(op string) *TakenError {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &TakenError{Op: op, Name: t.queue.name, Holder: Contender{
		Identity: t.info.Identity, Since: t.info.Since, Token: t.token, Session: t.session.ID(),
		ID: t.place.ID, Key: t.place.Key, Mode: t.place.Mode, Payload: t.info.Payload,
		Retains: true, Holding: true,
	}}
}
