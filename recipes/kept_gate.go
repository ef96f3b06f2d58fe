package recipes

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// This file closes the gate of a kept turn, and ends the turn: since another
// contender was seen, the time for which it is kept is over, or it is lost.

const (
	// servedFor is how long the local queue is served at least after another
	// contender was seen. It is far above the cost of a local hand-over.
	servedFor = 10 * time.Millisecond

	firstPause, lastPause = 30 * time.Second, 8 * time.Minute // see waste
)

// watch begins to look for other contenders: when the turn first becomes idle
// or is first given to another caller, so that a single short hold costs
// nothing. The caller holds the keeper's mu.
func (t *kept) watch() {
	if t.watched || t.closed {
		return
	}
	// Once for the turn, and not once for each time that it is idle: the watch
	// is what keeping costs, and must be cheaper than the requests it saves.
	t.watched = true
	t.session.Go(func() {
		if t.awaitBehind(t.ctx, anyone) {
			t.contended()
		}
	})
	t.stopOnClose = t.session.OnClose(t.passOnIfIdle)
}

// anyone: all contenders behind the entry are kept out, and so are those of a
// mode that this recipe does not know.
func anyone(driver.Place) bool { return true }

// readIfDue reads the queue if that is due. The caller holds the keeper's mu.
func (t *kept) readIfDue() {
	if !t.watched || t.closed || !t.readIsDue(&t.lastRead) {
		return
	}
	t.session.Go(func() {
		if t.behind(anyone) {
			t.contended()
		}
	})
}

// contended closes the gate since another contender waits. An idle turn is
// passed on at once.
func (t *kept) contended() {
	k := t.keeper
	k.mu.Lock()
	// Once: the watch and a read may have seen the same contender.
	if !t.closed {
		t.asked = time.Now()
		// Idle after a single grant: nobody has gained. While the first caller
		// still works it is too early to tell, and that is no waste.
		k.waste(t.served == 1 && !t.busy)
		t.shut()
	}
	k.mu.Unlock()
	t.passOnIfIdle(t.session.Context())
}

// waste notes whether a turn was asked for before a second caller had it. Then
// it was kept for nothing: it cost a watch, and the other contender a wait. So
// names that two clients lock in turn are not kept for a while. The caller
// holds k.mu.
func (k *keeper) waste(wasted bool) {
	if !wasted {
		k.pause, k.until = 0, time.Time{}
		return
	}
	k.pause = min(max(2*k.pause, firstPause), lastPause)
	k.until = time.Now().Add(k.pause)
}

// idleTooLong passes on a turn that has been idle for as long as it is kept.
func (t *kept) idleTooLong() {
	k := t.keeper
	k.mu.Lock()
	// The timer may have fired just before a caller came, who has released
	// since: then the time counts anew.
	late := !t.busy && time.Since(t.idleSince) >= t.queue.retain
	k.mu.Unlock()
	if late {
		t.passOnIfIdle(t.session.Context())
	}
}

// passOnIfIdle passes the turn on if it is idle. Otherwise the release will.
func (t *kept) passOnIfIdle(ctx context.Context) {
	k := t.keeper
	k.mu.Lock()
	idle := !t.busy && !t.isLost
	if idle {
		t.busy = true // this goroutine has it now: no second one ends it
		t.depart()
	}
	k.mu.Unlock()
	if idle {
		t.end(ctx)
	}
}

// due reports whether the turn is to be passed on before the next caller. The
// caller holds the keeper's mu.
func (t *kept) due() bool {
	// An entry with another mode or value than the next caller has asked for
	// is of no use to it.
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
	// A pause after waste is for turns that would be idle. Callers that wait
	// already are served: they came before any contender that was seen.
	return !waiting && time.Now().Before(t.keeper.until)
}

// depart prepares that the turn is passed on: nobody gets it any more. The
// caller holds the keeper's mu.
func (t *kept) depart() {
	t.sendAway(nil)
	// As in grant.dropHandle: from here on nothing may create the entry again.
	t.mu.Lock()
	t.leaving = true
	t.mu.Unlock()
}

// end removes the entry of a turn that nobody holds.
func (t *kept) end(ctx context.Context) {
	defer t.report()
	// Else it was lost meanwhile, and the entry is not this turn's to remove.
	if t.finish(coordinator.ErrReleased) {
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
	stop, told := t.stopOnClose, t.keptObserved
	t.stopOnClose, t.keptObserved = func() {}, false
	unused := t.served == 0 && !t.endReported
	t.endReported = true
	e := event.Event{Kind: event.GivenUp, Session: t.session.ID(), Queue: t.queue.id,
		Token: t.token, Duration: time.Since(t.began)}
	if !t.asked.IsZero() {
		e.HandOver = time.Since(t.asked)
	}
	keeper.mu.Unlock() // before observers are called
	stop()
	if unused {
		t.notGranted(t.won.Op, t.began)
	}
	if told {
		t.queue.client.Observe(e)
	}
}

// lost implements lossReceiver. An idle turn that is lost is no loss of a hold.
// The callers that wait for it join on the next session.
func (t *kept) lost(cause error) {
	k := t.keeper
	k.mu.Lock()
	t.isLost = true
	// In one step with isLost: see serve.
	g := t.grant
	t.depart()
	k.mu.Unlock()
	if g != nil {
		g.lost(cause)
	}
	t.report()
}

// sendAway closes the gate, and makes callers wait for another entry: the first
// ones, and then those of the local queue. The caller holds the keeper's mu.
func (t *kept) sendAway(first []*caller) {
	t.shut()
	waiting := append(first, t.waiting...)
	t.waiting = nil
	t.keeper.requeue(waiting)
}

// shut closes the gate. The caller holds the keeper's mu.
func (t *kept) shut() {
	t.closed = true
	if t.keeper.open == t {
		t.keeper.open = nil
	}
}

// wanted implements many: callers of the Queue that wait for the turn have no
// entry that a watch could show.
func (t *kept) wanted(g *grant) *wanted {
	// Until the wait is the grant's: else tellWanted could come in between, and
	// find none.
	t.keeper.mu.Lock()
	defer t.keeper.mu.Unlock()
	if t.grant == g && len(t.waiting) > 0 {
		return wantedNow()
	}
	return g.enterWaitBehind()
}

// tellWanted ends the wait of the grant, if there is one: another caller of the
// Queue waits. The caller holds the keeper's mu.
func (t *kept) tellWanted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.grant; g != nil && g.wanted != nil {
		w := g.wanted
		g.finishWait(w, nil)
		w.cancel()
	}
}

// atOnce implements many.
func (t *kept) atOnce() bool { return false }
