package recipes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// turn is an admitted entry: what the client has at the service. A grant is
// what a caller has under it. The turn has all that concerns the entry: where
// it is and what it says, the watch for its removal, the note of a lock-delay,
// and how it is passed on.
//
//	attempt ---> taken ---> last grant released ---> passed on to the next entry
//	               |
//	               +------> lost: the session is over, or the entry deleted
//
// A turn ends once, in over or with its session. Its contexts end before its
// entry leaves, since the next contender may hold from then on.
type turn struct {
	queue   *Queue
	session *engine.Session
	token   driver.Token
	// the place from which a release hands over: that of an exclusive entry
	// that was first in the queue; else zero
	handoff driver.Place
	noted   driver.Version // of its note in the record; see attempt.lockDelay

	ctx    context.Context // ends when the turn does, with the cause
	cancel context.CancelCauseFunc
	// of all contexts under the turn: run after each that is ended, before the
	// entry leaves or is converted
	ends   engine.Ends
	unhook func() bool // stops the report of a loss with the session

	// Guards what follows, and the fields of the grants under the turn: a
	// release is one step for both, see grant.leave. It is locked before the
	// session's lock and the locks of contexts, and never while a request is
	// sent or an observer called.
	mu      sync.Mutex
	holder  holder // notified of the loss; set when the turn is taken
	many    many   // nil: the turn has one grant
	written bool   // the entry's value was written by a holder
	leaving bool   // no grant is left, and there will be none: the entry is removed
	info    info
	place   driver.Place // after the last conversion known to have succeeded
	value   []byte
	// the mode to convert to after engine.SettleAfter; empty if there is none
	// or the conversion has begun
	held string
	// held, by sending to it, while the entry's value is written or the entry
	// converted
	writing    chan struct{}
	conversion *conversion // the latest conversion; nil if there was none
}

// holder uses a turn.
type holder interface {
	// lost is called once if the turn is lost, without locks, in the goroutine
	// that has ended it.
	lost(cause error)
}

// many is a turn that serves several grants: see kept and shared.
type many interface {
	// release ends one of its grants, whose contexts have ended, and removes
	// the entry if that is due.
	release(ctx context.Context, g *grant) error
}

// take makes the turn that of an entry which was admitted.
func (t *turn) take(
	q *Queue, s *engine.Session, joined driver.Joined, i info, value []byte,
) {
	t.queue, t.session, t.token = q, s, joined.Token
	t.place, t.info, t.value = joined.Place, i, value
	t.writing = make(chan struct{}, 1)
	// From the session's context, not the caller's: the caller's bounds only
	// the wait.
	t.ctx, t.cancel = context.WithCancelCause(s.Context())
}

// start makes the session report its end to the turn, even if no caller uses
// its context. alive: the session has not ended yet. The caller holds t.mu,
// since settled can run at once.
func (t *turn) start(h holder) (alive bool) {
	t.holder = h
	t.unhook, alive = t.session.Hold(t.settled, t.ends.Run, t.lost)
	return alive
}

// err returns nil while the turn lasts, and then why it ended. It reads the
// clock, since timers may be late. If the service has to be asked and ctx ends
// before the answer, err returns the cause of ctx; then it is unknown whether
// the turn is over.
func (t *turn) err(ctx context.Context) error {
	var unknown error
	if t.ctx.Err() == nil {
		// ends the session and t.ctx if the deadline has passed
		unknown = t.session.Check(ctx)
	}
	// Again: Check may have ended it, and the cause is the better answer.
	if t.ctx.Err() == nil {
		return unknown
	}
	return context.Cause(t.ctx)
}

// settled is called after engine.SettleAfter. Shorter holds cost neither the
// conversion to Terms.Held nor the watch for a deletion of the entry.
func (t *turn) settled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The session may call it just after a release or a loss: then a conversion
	// could create the entry again.
	if t.leaving || t.ctx.Err() != nil {
		return
	}
	if t.held != "" {
		t.convert(t.held)
	}
	t.session.Go(t.watchSelf) // false at the end of the session, which ends the turn
}

// watchSelf ends the turn when its entry is removed. A release, and a loss with
// the session, are reported elsewhere. A watch that the service refuses for now
// is tried again: the next contender is admitted when the entry is removed.
func (t *turn) watchSelf() {
	for refused := 0; ; {
		place := t.settledPlace() // during a conversion the watch would fire
		if t.session.Await(t.ctx, t.queue.id, place) != nil {
			// Also when the turn is over: then PauseAgain returns at once.
			if refused++; PauseAgain(t.ctx, t.queue, refused) != nil {
				return
			}
			continue
		}
		// A conversion replaces the entry on some services. If one has begun
		// since, the watch has seen that, and the new place is watched.
		if t.settledPlace() == place {
			// after a pause of the process the clock may show that the session
			// has ended
			if t.err(t.ctx) == nil {
				t.removed()
			}
			return
		}
	}
}

// removed ends a turn whose entry is gone. The user may never release a lost
// hold, so the entry is left in the background: a late join could still create
// it again.
func (t *turn) removed() {
	if !t.over(coordinator.ErrRemoved) {
		return // released or lost meanwhile: that cause was reported
	}
	t.mu.Lock()
	place := t.place
	t.mu.Unlock()
	// Before the report: an observer may block or panic.
	t.session.LeaveLater(t.queue.id, place)
	t.lost()
}

// alone returns an error if the entry is not the caller's alone: a change would
// be one of the holds of others.
func (t *turn) alone() error {
	if _, several := t.many.(*shared); several {
		return engine.Invalid("%q: the entry is shared with other calls of this process", t.queue.name)
	}
	return nil
}

// seen waits until wants accepts a contender behind the entry, and then returns
// true. It returns false if ctx or the turn ends first. As for watchSelf, a
// refused watch is tried again.
func (t *turn) seen(ctx context.Context, wants func(driver.Place) bool) bool {
	for refused := 0; ; {
		place := t.settledPlace()
		err := t.session.Wanted(ctx, t.queue.id, place, wants)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case t.settledPlace() != place:
			continue // it was converted
		case errors.Is(err, coordinator.ErrRemoved) && t.err(t.ctx) == nil:
			t.removed()
			return false
		}
		if refused++; PauseAgain(ctx, t.queue, refused) != nil {
			return false
		}
	}
}

// over ends a turn with a cause, and reports whether it did so before the
// session's end.
func (t *turn) over(cause error) bool {
	// Under mu, so that a second caller returns only after the first one's
	// contexts have ended: both may remove the entry. unhook is set under mu,
	// and locks the session: this is the order of the two locks.
	t.mu.Lock()
	defer t.mu.Unlock()
	// Without unhook it is not admitted yet: its attempt sees the removal.
	first := t.unhook != nil && t.unhook()
	if first {
		t.finish(cause)
	}
	return first
}

// finish ends all contexts under the turn. When it returns, the entry may
// leave.
func (t *turn) finish(cause error) {
	// In this order: the functions that Run calls look at the contexts.
	t.cancel(cause)
	t.ends.Run()
}

// lost is called when the session ends, or by a caller to which t.unhook
// returned true: once.
func (t *turn) lost() {
	t.mu.Lock()
	h := t.holder
	t.mu.Unlock()
	// Without mu: it logs and calls observers, which may use the hold.
	h.lost(context.Cause(t.ctx))
}

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
		return
	}
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

// forget removes the entry in the background, after its last conversion, which
// could create it again.
func (t *turn) forget(c *conversion) {
	if c != nil {
		c.cancel()
		<-c.done
	}
	t.session.ForgetLater(t.queue.id, t.place.ID)
}

// leave sends the removal of the entry. t.place needs no lock here: there is no
// handle that could begin a conversion, and the last one is over.
func (t *turn) leave(ctx context.Context, conv *conversion) error {
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
	if t.place == t.handoff { // and was not converted
		return t.session.Pass(ctx, t.queue.id, t.place)
	}
	return t.session.Leave(ctx, t.queue.id, t.place)
}
