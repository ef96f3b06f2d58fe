package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// This file watches the entry of a turn: for the end of the session, for its
// removal by others, and for contenders behind it.

// hook makes the session report its end to the turn, even if no caller uses
// its context. alive: the session has not ended yet. The caller holds t.mu,
// since settled can run at once.
func (t *turn) hook(h lossReceiver) (alive bool) {
	t.holder = h
	t.unhook, alive = t.session.Hold(t.settled, t.ends.Run, t.lost)
	return alive
}

// settled is called after engine.SettleAfter. Shorter holds do not cost the
// watch for a deletion of the entry, nor the conversion to Terms.Held, unless a
// contender behind may need that at once: see attempt.hold.
func (t *turn) settled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The session may call it just after a release or a loss: then a conversion
	// could create the entry again.
	if t.leaving || t.ctx.Err() != nil {
		return
	}
	if t.heldMode != "" {
		t.convert(t.heldMode)
	}
	t.session.Go(t.watchSelf) // false at the end of the session, which ends the turn
}

// watchSelf ends the turn when its entry is removed. A release, and a loss with
// the session, are reported elsewhere. A watch that the service refuses for now
// is tried again: the next contender is admitted when the entry is removed.
func (t *turn) watchSelf() {
	for refused := 0; ; {
		place := t.stablePlace() // during a conversion the watch would fire
		if t.session.Await(t.ctx, t.queue.id, place) != nil {
			// Also when the turn is over: then PauseAgain returns at once.
			if refused++; PauseAgain(t.ctx, t.queue, refused) != nil {
				return
			}
			continue
		}
		// A conversion replaces the entry on some services. If one has begun
		// since, the watch has seen that, and the new place is watched.
		if t.stablePlace() == place {
			// after a pause of the process the clock may show that the session
			// has ended
			if t.err(t.ctx) == nil {
				t.removed()
			}
			return
		}
	}
}

// awaitBehind waits until wants accepts a contender behind the entry, and then
// returns true. It returns false if ctx or the turn ends first. As for
// watchSelf, a refused watch is tried again.
func (t *turn) awaitBehind(ctx context.Context, wants func(driver.Place) bool) bool {
	for refused := 0; ; {
		// Not the place of an entry that a conversion is about to replace: its
		// departure would look like a removal.
		place := t.stablePlace()
		err := t.session.Wanted(ctx, t.queue.id, place, wants)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case t.stablePlace() != place:
			continue // it was converted: watch the new place at once
		case errors.Is(err, coordinator.ErrRemoved) && t.err(t.ctx) == nil:
			// watchSelf may see it, too, or may not be running yet.
			t.removed()
			return false
		}
		if refused++; PauseAgain(ctx, t.queue, refused) != nil {
			return false
		}
	}
}
