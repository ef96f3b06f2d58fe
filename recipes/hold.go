package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Hold is a handle of a grant. Each re-entry returns another handle with the
// same token; releasing the last one releases the grant. A Hold is safe for
// concurrent use.
type Hold struct {
	level    *level
	ctx      holdContext // complete once unasked is false: see context
	unasked  atomic.Bool
	released atomic.Bool
	lost     atomic.Pointer[error] // why it was lost before its release
}

// Token returns the fencing token of the grant. Pass it to every resource that
// the hold protects, with each access, reads included, and let the resource
// refuse every token smaller than the greatest it has seen.
func (h *Hold) Token() coordinator.Token { return h.turn().token }

// Context ends when the hold is over; after re-entries, with the last handle of
// its mode. Unless an operator ended the hold, it ends before a contender that
// it excludes can hold. The cause is ErrReleased, ErrSessionLost, ErrRemoved or
// ErrClosed, or [ErrHeldTooLong] (see WithMaxHold). If Acquire's ctx carries
// other holds, it also ends, with the cause, when one of them is lost, but not
// when it is released. It has the values of Acquire's ctx, but does not end
// with it; the context of [Hold.Under] does. Its Err reads the clock, as
// [Hold.Err] does: right after a pause it may report a loss that Done does not
// show yet. Acquire on the queue with this context re-enters the hold.
func (h *Hold) Context() context.Context { return h.context() }

// context completes the hold's context when it is first asked for. Most callers
// that lock a kept turn again do not ask, and it would be half of what is
// allocated for them.
func (h *Hold) context() *holdContext {
	// Not always with mu: a function that was given to OnEnd may come here.
	if h.unasked.Load() {
		turn := h.turn()
		turn.mu.Lock()
		defer turn.mu.Unlock()
		if h.ctx.Context == nil {
			h.ctx.Context = h.ctx.grant.contextOf(h.level)
			h.unasked.Store(false)
		}
	}
	return &h.ctx
}

// Err returns nil while this handle holds, and then why it ended. It compares
// the deadline with the clock, so it reports a loss right after a pause. If the
// machine may have slept it asks the service, for up to two seconds; without an
// answer the hold counts as lost.
func (h *Hold) Err() error { return h.Check(context.Background()) }

// Check is like Err, but returns the cause of ctx if ctx ends first.
func (h *Hold) Check(ctx context.Context) error {
	if h.released.Load() {
		if lost := h.lost.Load(); lost != nil {
			return *lost
		}
		return coordinator.ErrReleased
	}
	return h.turn().err(ctx)
}

// Deadline returns the time at which the session counts as lost if no renewal
// is acknowledged before it. The client renews the session every tenth of the
// TTL.
func (h *Hold) Deadline() time.Time { return h.turn().session.Deadline() }

// Session returns the ID of the session that holds.
func (h *Hold) Session() string { return h.turn().session.ID() }

// ID returns the contender's ID, which conversions keep. It is unique while the
// hold lasts, and together with the token for ever.
func (h *Hold) ID() string { return h.Place().ID }

// Place returns the entry's place after the last conversion that is known to
// have succeeded.
func (h *Hold) Place() driver.Place {
	t := h.turn()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.place
}

// State returns the state of the session, and a channel that is closed when it
// changes.
func (h *Hold) State() (event.State, <-chan struct{}) { return h.turn().session.State() }

// HandedOver reports whether the last holder's release has admitted the
// contender, or the queue was empty when it joined. Otherwise it has read the
// queue: the holder was lost, called NoHandoff, or gave up before it held. On a
// service without handoffs each contender that waited has.
func (h *Hold) HandedOver() bool { return h.turn().told }

// NoHandoff makes the release one without a handoff: the next contender reads
// the queue, and its HandedOver is false. It is for recipes in which a
// contender may let others pass. It does no I/O.
func (h *Hold) NoHandoff() {
	t := h.turn()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handoff = driver.Place{}
}

// Release releases this handle. For the last handle it ends the grant's context
// with ErrReleased, and removes the entry, unless that is kept (see
// [WithRetain]) or has other users (see [WithSharedTurns]). For the last handle
// of its mode, if handles of a lesser mode are left, it converts the entry to
// that mode.
//
// If the hold was lost before, Release returns why: ErrSessionLost, ErrRemoved
// or ErrClosed, and deletes nothing. It returns ErrNotHeld if Release was
// called before, or if the entry was deleted and the hold had not noticed it.
// ErrInvalid means that the service cannot convert: the handle is released, and
// the entry excludes as before until the last one is. After any other error it
// continues in the background. If ctx has already ended, Release tries for up
// to two seconds.
func (h *Hold) Release(ctx context.Context) error {
	if !h.released.CompareAndSwap(false, true) {
		return coordinator.ErrNotHeld
	}
	return h.release(ctx)
}

// release is Release of a handle that is marked as released.
func (h *Hold) release(ctx context.Context) error {
	grant, turn := h.ctx.grant, h.turn()
	// Not the hooks of the grant, which others may still hold. Its own context
	// ends, which would otherwise stay in memory for as long as the grant.
	if n := h.again(); n != nil {
		n.release()
		n.cancel(coordinator.ErrReleased)
		n.ends.Run()
		n.ends.Close()
	}
	// Reads the clock: nil must mean that the grant held until now.
	if turn.session.Ended() == nil && grant.dropUnlessLast(h.level) {
		return nil
	}
	// A turn that serves several callers sends nothing in most releases, unless
	// the service has to be asked: the context would cost more than all else.
	if turn.many == nil || turn.session.MustAsk() {
		var stop context.CancelFunc
		ctx, stop = engine.ReleaseContext(ctx)
		defer stop()
	}
	err := turn.err(ctx)       // before its contexts end with ErrReleased
	if turn.ctx.Err() == nil { // not known to be over
		err = nil
	}
	last, conv := grant.dropHandle(h.level, err != nil)
	switch {
	case err != nil:
		// A lost turn has reported its loss, and its entry is the session's or
		// watchSelf's to remove: the release deletes nothing.
		lost := err // else err would be on the heap in each release
		h.lost.Store(&lost)
		return err
	case last && turn.many != nil:
		return turn.many.release(ctx, grant)
	case last:
		return grant.endTurn(ctx)
	case conv == nil: // others hold in the same mode, or in one that excludes more
		return nil
	case !h.Converts():
		return errNotConverted
	}
	// The caller wants to know that those behind were let in: it waits for the
	// conversion. ErrReleased: others have released the grant meanwhile, and
	// then it does not matter any more.
	if err = turn.awaitConversion(ctx, conv); err != coordinator.ErrReleased { //nolint:errorlint // the turn's cause
		return err
	}
	if errors.Is(conv.err, coordinator.ErrRemoved) {
		return coordinator.ErrNotHeld
	}
	return nil // the other handles were released meanwhile, and the grant with them
}

var errNotConverted = fmt.Errorf("%w: this service cannot convert an entry: this handle is released, "+
	"and the others exclude as before until the last one is", coordinator.ErrInvalid)

// Converts reports whether the service can convert entries. If not, Convert
// returns ErrInvalid.
func (h *Hold) Converts() bool { return h.turn().session.Converts() }

// Wanted blocks until another contender that this hold keeps out is queued
// behind it, and then returns nil; the hold stays. That is any contender behind
// an exclusive hold, and behind one with a Rule each that the rule of the hold
// would not admit together with it. It may be another goroutine of this
// process. A contender that left before it was seen does not count.
//
// The calls for all handles of a grant share one watch of the queue. It begins
// with the first call, ends with the last, and leaves nothing at the service
// but a watch that ends at the next change. A service without that capability
// is read once a second. In a layout whose clients can ask a holder to release,
// Wanted returns nil then, too.
//
// Errors: that of Err, if the hold ends first; the cause of ctx; ErrRefused;
// ErrInvalid for a hold with Terms, which do not say whom it keeps out alone.
func (h *Hold) Wanted(ctx context.Context) error {
	grant, turn := h.ctx.grant, h.turn()
	if err := h.Check(ctx); err != nil {
		return err
	}
	if grant.counted {
		return engine.Invalid("%q: a hold of a part cannot say who waits for it", turn.queue.name)
	}
	wait := grant.enterWait()
	defer grant.leaveWait(wait)
	over := h.context().Done()
	for {
		grant.turn.mu.Lock()
		changed, done, err := wait.changed, wait.over, wait.err
		grant.turn.mu.Unlock()
		// Before the result: nil says that the hold stays.
		if ended := h.Check(ctx); ended != nil {
			return ended
		}
		if done {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			over = turn.ctx.Done() // WithMaxHold has ended only the handle's context
		}
	}
}

// Under returns the context for work under h. It has the values and the
// deadline of ctx, carries h, and ends with ctx or h, with the cause: with h
// before its entry leaves. Its Err reads the clock. Call stop when the work has
// returned.
func (h *Hold) Under(ctx context.Context) (under context.Context, stop func()) {
	inner, cancel := context.WithCancelCause(ctx)
	c := &workContext{Context: inner, hold: h.context(), cancel: cancel}
	unhook := c.hold.OnEnd(c.over)
	return c, func() {
		unhook()
		_ = c.Err() // ends it with h's cause, if h has ended
		cancel(nil)
	}
}

// Do calls work with the context of [Hold.Under], and then releases h, also if
// work panics. It returns the error of work, joined with the loss of the hold
// or the error of Release. If h does not hold, work is not called. undo names
// the release in errors: "unlock".
//
// Work may release h itself: Do does not release again, and the context of work
// ends, unless other handles of the level are left.
// The result of that release is the work's. If it was a loss, Do joins it even
// if work does not return it.
func (h *Hold) Do(ctx context.Context, undo string, work func(context.Context) error) (err error) {
	describe := func(err error) error {
		return h.turn().queue.describe(context.Background(), undo, err)
	}
	if err := h.Check(ctx); err != nil {
		released := h.Release(ctx)
		if engine.Same(released, err) { // the loss: said once
			return describe(released)
		}
		return errors.Join(err, describe(released))
	}
	under, stop := h.Under(ctx)
	defer func() {
		released := describe(h.releaseOnce(ctx))
		stop()
		switch {
		case err == nil:
			err = released
		case released != nil:
			err = errors.Join(err, released)
		}
	}()
	return work(under)
}

// releaseOnce is Release, or if that was called before, the loss that it found.
func (h *Hold) releaseOnce(ctx context.Context) error {
	if h.released.CompareAndSwap(false, true) {
		return h.release(ctx)
	}
	if lost := h.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}

// again returns the context of a re-entry that was taken within other holds, or
// nil for other handles.
func (h *Hold) again() *nested {
	if h.unasked.Load() { // that of a re-entry is complete from the beginning
		return nil
	}
	return h.ctx.again()
}

// turn returns the turn of the hold's grant.
func (h *Hold) turn() *turn { return h.ctx.grant.turn }

// handle returns another handle. Its context has the values of ctx but does
// not end with ctx, which bounds only the wait. The caller holds the turn's mu.
func (g *grant) handle(ctx context.Context, l *level) *Hold {
	return g.handleIn(ctx, new(Hold), l)
}

// handleIn is handle with an object that the caller has made.
func (g *grant) handleIn(ctx context.Context, h *Hold, l *level) *Hold {
	g.addHandle(l) // first: it may replace the level's context
	h.level, h.ctx = l, holdContext{Context: l.ctx, values: ctx, grant: g}
	if l.ctx == nil {
		h.unasked.Store(true)
	}
	return h
}
