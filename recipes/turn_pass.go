package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// This file removes the entry of a turn that is over. Nobody holds under it,
// and its contexts have ended: from the moment at which the service applies the
// removal the next contender may hold.

// passOn removes the entry, whatever its mode. It waits shortly for a
// conversion under way: when the outcome is known, one delete is enough, which
// a service without space does not refuse.
func (t *turn) passOn(ctx context.Context) error {
	t.mu.Lock()
	c := t.conversion // the last one: no handle is left
	t.mu.Unlock()
	sent := false
	defer func() {
		if !sent { // an observer panics, and no handle is left to release
			t.forget(c)
		}
	}()
	// The note first: if the entry left before, the next contender could read
	// that this holder was lost, and wait for the lock-delay.
	t.clearNote(ctx)
	err := t.leave(ctx, c)
	sent = true
	return err
}

// clearNote writes that the turn was released. If that fails, the next
// contender waits, as after a loss.
func (t *turn) clearNote(ctx context.Context) {
	if t.noted == 0 {
		return // no lock-delay: a release costs no second request
	}
	// With the version of the own write: if the entry was removed meanwhile,
	// the note may be that of the next holder, and must stay.
	_, err := t.session.SetRecord(ctx, t.queue.id, note{Token: t.token}.encode(), t.noted)
	if coordinator.MayHaveApplied(err) && ctx.Err() == nil { // perhaps only a reply was lost
		last, _, failed := readNote(ctx, t.session, t.queue.id)
		if failed == nil && (last.Token != t.token || !last.Held) {
			return
		}
	}
	// ErrStale: another client has written since, so this note is gone.
	if err != nil && !errors.Is(err, coordinator.ErrStale) {
		t.queue.client.Log().Warn("baton: cannot write that the hold was released; the next holder waits for the lock-delay",
			"queue", t.queue.id, "token", t.token, "error", err)
	}
}

// leave sends the removal of the entry. t.place needs no lock here: there is no
// handle that could begin a conversion, and the last one is over.
func (t *turn) leave(ctx context.Context, conv *conversion) error {
	// Not beside a conversion: a request of it that is applied after the delete
	// would create the entry again, on services that convert by replacing.
	if conv != nil {
		patience := time.NewTimer(t.session.TTL() / 4)
		defer patience.Stop()
		select {
		case <-conv.done:
		case <-conv.refused: // it may be refused for long, and the delete is not
		case <-ctx.Done():
		case <-patience.C:
		}
		conv.cancel()
		<-conv.done // at once
	}
	// Of what is left, conv.err without maybe means that the last step changed
	// nothing: the entry is at t.place.
	switch {
	case conv == nil || conv.err == nil:
	case errors.Is(conv.err, coordinator.ErrRemoved):
		t.session.ForgetLater(t.queue.id, t.place.ID) // a late join may still arrive
		return coordinator.ErrNotHeld
	case conv.maybe && ctx.Err() != nil: // no time is left
		t.session.ForgetLater(t.queue.id, t.place.ID)
		return t.pending(driver.Wrap(coordinator.ErrUnavailable, context.Cause(ctx)))
	case conv.maybe:
		// The entry has one of two places, so a delete of the known one is not
		// enough.
		return t.session.Forget(ctx, t.queue.id, t.place.ID)
	}
	// Not after a conversion, which changes the place: the entry no longer
	// excludes those behind it, so the successor may not be the only holder.
	t.mu.Lock() // NoHandoff may be called meanwhile
	handsOver := t.place == t.handoff
	t.mu.Unlock()
	if handsOver {
		return t.session.Pass(ctx, t.queue.id, t.place)
	}
	return t.session.Leave(ctx, t.queue.id, t.place)
}

// forget removes the entry in the background, after its last conversion, which
// could create it again. It does so by the ID: if that conversion had no
// answer, the place is unknown.
func (t *turn) forget(c *conversion) {
	if c != nil {
		c.cancel()
		<-c.done
	}
	t.session.ForgetLater(t.queue.id, t.place.ID)
}
