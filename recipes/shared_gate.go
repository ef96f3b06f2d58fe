package recipes

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file closes the gate of a shared turn, and ends the turn.

// depart prepares that the entry leaves: nobody gets the turn any more. The
// caller holds the sharer's mu.
func (t *shared) depart() {
	t.shut()
	// As in grant.dropHandle: from here on nothing may create the entry again.
	t.mu.Lock()
	t.leaving = true
	t.mu.Unlock()
}

// lost implements lossReceiver.
func (t *shared) lost(cause error) {
	s := t.sharer
	s.mu.Lock()
	t.isLost = true
	t.depart()
	grants := t.grants
	t.grants = nil
	s.mu.Unlock()
	// Each is a hold of its own for its caller: each reports its loss.
	for _, g := range grants {
		g.lost(cause)
	}
	t.report()
}

// report notifies the observers, once, if no call has used the turn.
func (t *shared) report() {
	t.sharer.mu.Lock()
	unused := t.served == 0 && t.users == 0 && !t.reported
	t.reported = t.reported || unused
	t.sharer.mu.Unlock()
	if unused {
		t.notGranted(t.attempt.Op, t.queued)
	}
}

// shut closes the gate. The caller holds the sharer's mu.
func (t *shared) shut() {
	t.closed = true
	if t.sharer.open == t {
		t.sharer.open = nil
	}
	// Nothing is left to be closed. The watch costs a view of the queue for
	// each change of it.
	if t.unwatch != nil {
		t.unwatch()
	}
}

// watch begins to look for contenders that the turn keeps out: when a second
// call waits for it or gets it, so that a single reader pays nothing. The entry
// is queued. The caller holds the sharer's mu.
func (t *shared) watch() {
	if t.unwatch != nil || t.closed {
		return
	}
	// From the turn's context, so it ends with the turn in any case.
	var ctx context.Context
	ctx, t.unwatch = context.WithCancel(t.ctx)
	t.session.Go(func() {
		if t.awaitBehind(ctx, t.keptOut) {
			t.contended()
		}
	})
}

// keptOut reports whether the turn keeps a contender behind it out.
func (t *shared) keptOut(behind driver.Place) bool {
	return !t.attempt.rule([]driver.Place{behind}).Admitted
}

// readIfDue reads the queue if that is due. The caller holds the sharer's mu.
func (t *shared) readIfDue() {
	if t.unwatch == nil || t.closed || !t.readIsDue(&t.lastRead) {
		return
	}
	t.session.Go(func() {
		if t.behind(t.keptOut) {
			t.contended()
		}
	})
}

// contended closes the gate since a contender waits. The turn is over with its
// grants.
func (t *shared) contended() {
	t.sharer.mu.Lock()
	defer t.sharer.mu.Unlock()
	t.shut()
}

// keepsOut reports whether a turn excludes a mode. The caller holds s.mu.
func (s *sharer) keepsOut(mode string) bool {
	// Without a rule no request with Shares has come, so there is no turn.
	return s.rule != nil && !s.rule([]driver.Place{{Mode: mode}}).Admitted
}

// rivalBehind reports whether a contender of this Queue that turns keep out
// has joined behind an attempt. The caller holds s.mu.
func (s *sharer) rivalBehind(a *attempt) bool {
	// Of another session it is gone, and its token may be that of a service
	// which has lost its data since.
	return s.rival.session == a.session.ID() && s.rival.token > a.joined.Token
}

// wanted implements many: all that a turn keeps out have an entry.
func (t *shared) wanted(g *grant) *wanted { return g.enterWaitBehind() }

// atOnce implements many.
func (t *shared) atOnce() bool { return true }
