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
	ctx      holdContext
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
func (h *Hold) Context() context.Context { return &h.ctx }

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

// Release releases this handle. For the last handle it ends the grant's context
// with ErrReleased, and removes the entry. For the last handle of its mode, if
// handles of a lesser mode are left, it converts the entry to that mode.
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
	if n, ok := h.ctx.Context.(*nested); ok && n.again {
		n.release()
		n.cancel(coordinator.ErrReleased)
		n.ends.Run()
		n.ends.Close()
	}
	// Reads the clock: nil must mean that the grant held until now.
	if turn.session.Ended() == nil && grant.leaveOthers(h.level) {
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
	last, conv := grant.leave(h.level, err != nil)
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
		return grant.end(ctx)
	case conv == nil: // others hold in the same mode, or in one that excludes more
		return nil
	case !h.Converts():
		return errKept
	}
	// The caller wants to know that those behind were let in: it waits for the
	// conversion. ErrReleased: others have released the grant meanwhile, and
	// then it does not matter any more.
	if err = turn.await(ctx, conv); err != coordinator.ErrReleased { //nolint:errorlint // the turn's cause
		return err
	}
	if errors.Is(conv.err, coordinator.ErrRemoved) {
		return coordinator.ErrNotHeld
	}
	return nil // the other handles were released meanwhile, and the grant with them
}

var errKept = fmt.Errorf("%w: this service cannot convert an entry: this handle is released, "+
	"and the others exclude as before until the last one is", coordinator.ErrInvalid)

// Converts reports whether the service can convert entries. If not, Convert
// returns ErrInvalid.
func (h *Hold) Converts() bool { return h.turn().session.Converts() }

// turn returns the turn of the hold's grant.
func (h *Hold) turn() *turn { return h.ctx.grant.turn }

// handle returns another handle. Its context has the values of ctx but does
// not end with ctx, which bounds only the wait. The caller holds the turn's mu.
func (g *grant) handle(ctx context.Context, l *level) *Hold {
	return g.handleIn(ctx, new(Hold), l)
}

// handleIn is handle with an object that the caller has made.
func (g *grant) handleIn(ctx context.Context, h *Hold, l *level) *Hold {
	g.enter(l) // first: it may replace the level's context
	h.level, h.ctx = l, holdContext{Context: l.ctx, values: ctx, grant: g}
	return h
}

// again is handle of a re-entry, which may be taken with the context of a hold
// that was itself taken within this one.
func (g *grant) again(ctx context.Context, l *level) *Hold {
	h := g.handle(ctx, l)
	if n := g.within(ctx, l.ctx, g.ends()); n != nil {
		n.again, h.ctx.Context = true, n
	}
	return h
}

// ErrOtherMode means that the context carries a hold of the queue whose mode
// does not include the requested mode.
var ErrOtherMode = fmt.Errorf("%w: the context holds the name in another mode: unlock it first",
	coordinator.ErrInvalid)

// Held reports whether ctx carries a live hold of the queue: see Hold.Context.
func (q *Queue) Held(ctx context.Context) bool {
	g, _ := ctx.Value(q.key).(*grant)
	// err reads the clock and may ask the service: not with mu.
	if g == nil || g.turn.err(ctx) != nil {
		return false
	}
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	return g.handles() > 0
}

// reenter returns another handle of the live grant of this queue that ctx
// carries, or nil if there is none. If the grant's mode does not include the
// requested mode, it returns an error: the caller would wait for itself.
func (q *Queue) reenter(ctx context.Context, request *Request) (*Hold, error) {
	grant, _ := ctx.Value(q.key).(*grant)
	if grant == nil || request.Fresh {
		return nil, nil
	}
	select { // not ctx.Err: that of a hold's context may ask the service
	case <-ctx.Done():
		return nil, nil
	default:
	}
	turn := grant.turn
	// A lost hold is none: the caller joins the queue. An error of ctx leaves
	// open whether the hold is lost, and then joining could wait for itself.
	if err := turn.err(ctx); err != nil {
		if turn.ctx.Err() != nil {
			err = nil
		}
		return nil, err
	}
	turn.mu.Lock()
	defer turn.mu.Unlock()
	// In this order: a released grant has no mode any more.
	switch {
	case grant.handles() == 0:
		return nil, nil // released meanwhile
	case request.Mode == grant.top.mode && grant.top.count > 0:
		return grant.again(ctx, &grant.top), nil
	case grant.low.mode != "" && request.Mode == grant.low.mode:
		grant.low.rule = request.Rule
		return grant.again(ctx, &grant.low), nil
	}
	return nil, ErrOtherMode
}
