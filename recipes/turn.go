package recipes

import (
	"context"
	"sync"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// turn is an entry on the side of the client: one that was admitted, or that of
// a shared turn from the join on. A grant is what a caller has under it. The
// turn has all that concerns the entry: where it is and what it says, the watch
// for its removal, the note of a lock-delay, and how it is passed on.
//
//	attempt ---> taken ---> last grant released ---> passed on to the next entry
//	               |
//	               +------> lost: the session is over, or the entry deleted
//
// A turn ends once, in finish or with its session. Its contexts end before its
// entry leaves, since the next contender may hold from then on.
type turn struct {
	queue   *Queue
	session *engine.Session
	token   driver.Token
	// the place from which a release hands over: that of an exclusive entry
	// that was first in the queue; else zero
	handoff driver.Place
	noted   driver.Version // of its note in the record; see attempt.lockDelay
	told    bool           // admitted by a handoff, or as the first that joined

	ctx    context.Context // ends when the turn does, with the cause
	cancel context.CancelCauseFunc
	// of all contexts under the turn: run after each that is ended, before the
	// entry leaves or is converted
	ends   engine.Ends
	unhook func() bool // stops the report of a loss with the session

	// Guards what follows, and the fields of the grants under the turn: a
	// release is one step for both, see grant.dropHandle. It is locked before
	// the session's lock and the locks of contexts, and never while a request
	// is sent or an observer called.
	mu      sync.Mutex
	holder  lossReceiver // notified of the loss; set in hook
	many    many         // nil: the turn has one grant
	written bool         // a holder has written the entry's value, or may have
	leaving bool         // no grant is left, and there will be none: the entry is removed
	info    info
	place   driver.Place // after the last conversion known to have succeeded
	value   []byte
	// the mode to convert to after engine.SettleAfter; empty if there is none
	// or the conversion has begun
	heldMode string
	// held, by sending to it, while the entry's value is written or the entry
	// converted
	writing    chan struct{}
	conversion *conversion // the latest conversion; nil if there was none
}

// lossReceiver is the grant of a turn, or the turn itself if it serves several.
type lossReceiver interface {
	// lost is called once if the turn is lost, without locks, in the goroutine
	// that has ended it.
	lost(cause error)
}

// many is a turn that serves several grants: see kept and shared.
type many interface {
	// release ends one of its grants, whose contexts have ended, and removes
	// the entry if that is due.
	release(ctx context.Context, g *grant) error
	// wanted adds a call of Hold.Wanted to the wait of one of its grants.
	wanted(g *grant) *wanted
	// atOnce reports whether it has several grants at the same time.
	atOnce() bool
}

// take makes the turn that of an entry which was admitted, or which has joined
// for a shared turn.
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

// over reports whether the turn has no grant any more, or was lost.
func (t *turn) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leaving || t.ctx.Err() != nil
}

// removed ends a turn whose entry is gone. The user may never release a lost
// hold, so the entry is removed once more, in the background: a late join could
// still create it again.
func (t *turn) removed() {
	// Several watches may come here, and a release at the same time: the first
	// one reports.
	if !t.finish(coordinator.ErrRemoved) {
		return
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
	if t.many != nil && t.many.atOnce() {
		return engine.Invalid("%q: the entry is shared with other calls of this process", t.queue.name)
	}
	return nil
}

// finish ends a turn with a cause, and reports whether it was the first to end
// it: before a release, a removal that was seen, and the end of the session.
// Only then the caller goes on to remove the entry or to report the loss.
func (t *turn) finish(cause error) bool {
	// Under mu, so that a second caller returns only after the first one's
	// contexts have ended: both may remove the entry. unhook is set under mu,
	// and locks the session: this is the order of the two locks.
	t.mu.Lock()
	defer t.mu.Unlock()
	// Without unhook it is not admitted yet: its attempt sees the removal.
	first := t.unhook != nil && t.unhook()
	if first {
		t.endContexts(cause)
	}
	return first
}

// endContexts ends all contexts under the turn. When it returns, the entry may
// leave.
func (t *turn) endContexts(cause error) {
	// In this order: the functions that Run calls look at the contexts.
	t.cancel(cause)
	t.ends.Run()
}

// lost is called once: when the session ends, by a caller to which t.unhook
// returned true, or by the one whose hook found that the session was over.
func (t *turn) lost() {
	t.mu.Lock()
	h := t.holder
	t.mu.Unlock()
	// Without mu: it logs and calls observers, which may use the hold.
	h.lost(context.Cause(t.ctx))
}
