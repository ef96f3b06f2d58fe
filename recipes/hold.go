package recipes

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/fence"
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
func (h *Hold) Token() coordinator.Token { return h.ctx.grant.token }

// Context ends when the hold is over; after re-entries, with the last handle of
// its mode. Unless an operator ended the hold, it ends before a contender that
// it excludes can hold. The cause is ErrReleased, ErrSessionLost, ErrRemoved or
// ErrClosed, or [ErrHeldTooLong] (see WithMaxHold). It has the values of
// Acquire's ctx, but does not end with it; the context of [Hold.Under] does.
// Its Err reads the clock, as [Hold.Err] does: right after a pause it may
// report a loss that Done does not show yet. Acquire on the queue with this
// context re-enters the hold.
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
	return h.ctx.grant.err(ctx)
}

// Deadline returns the time at which the session counts as lost if no renewal
// is acknowledged before it. The client renews the session every tenth of the
// TTL.
func (h *Hold) Deadline() time.Time { return h.ctx.grant.session.Deadline() }

// Session returns the ID of the session that holds.
func (h *Hold) Session() string { return h.ctx.grant.session.ID() }

// ID returns the contender's ID, which conversions keep. It is unique while the
// hold lasts, and together with the token for ever.
func (h *Hold) ID() string { return h.Place().ID }

// Revoked is only for queues shared with Apache Curator (layout=curator). It
// blocks until another client asks the holder to release, and then returns nil;
// the hold stays. The error is ErrInvalid in another layout, that of Err if the
// hold ends first, or the cause of ctx.
func (h *Hold) Revoked(ctx context.Context) error {
	g := h.ctx.grant
	if err := h.Check(ctx); err != nil {
		return err
	}
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(&h.ctx, func() { cancel(context.Cause(&h.ctx)) })()
	for {
		place := g.settledPlace()
		err := g.session.Revoked(bound, g.queue.id, place)
		if errors.Is(err, coordinator.ErrRemoved) && g.settledPlace() != place {
			continue // it was converted
		}
		if over := h.Check(ctx); over != nil && err != nil {
			return over
		}
		return err
	}
}

// Place returns the entry's place after the last conversion that is known to
// have succeeded.
func (h *Hold) Place() driver.Place {
	h.ctx.grant.mu.Lock()
	defer h.ctx.grant.mu.Unlock()
	return h.ctx.grant.place
}

// State returns the state of the session, and a channel that is closed when it
// changes.
func (h *Hold) State() (event.State, <-chan struct{}) { return h.ctx.grant.session.State() }

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
	g := h.ctx.grant
	// Reads the clock: nil must mean that the grant held until now.
	if g.session.Ended() == nil && g.leaveOthers(h.level) {
		return nil
	}
	ctx, stop := engine.ReleaseContext(ctx)
	defer stop()
	err := g.err(ctx)       // before its contexts end with ErrReleased
	if g.ctx.Err() == nil { // not known to be over
		err = nil
	}
	last, t := g.leave(h.level, err != nil)
	switch {
	case err != nil:
		lost := err // else err would be on the heap in each release
		h.lost.Store(&lost)
		return err
	case last:
		return g.end(ctx)
	case t == nil:
		return nil
	case !h.Converts():
		return errKept
	}
	if err = g.await(ctx, t); err != coordinator.ErrReleased { //nolint:errorlint // the grant's cause
		return err
	}
	if errors.Is(t.err, coordinator.ErrRemoved) {
		return coordinator.ErrNotHeld
	}
	return nil // the other handles were released meanwhile, and the grant with them
}

func (g *grant) end(ctx context.Context) error {
	if !g.over(coordinator.ErrReleased) { // lost since the check in Release
		_ = g.session.Check(ctx) // waits for an end that is under way
		g.finish(coordinator.ErrReleased)
		if cause := context.Cause(g.ctx); !errors.Is(cause, coordinator.ErrReleased) {
			return cause
		}
	}
	held := time.Since(g.since)
	err := g.leaveQueue(ctx)
	// The hold was lost at an unknown moment. Not if the error is uncertain: it
	// may wrap the cause of ctx, which may be any error.
	if errors.Is(err, coordinator.ErrNotHeld) && !coordinator.MayHaveApplied(err) {
		g.reportLoss(held, coordinator.ErrRemoved)
		return err
	}
	g.mu.Lock()
	long := g.stopTimers()
	g.mu.Unlock()
	g.queue.client.Observe(event.Event{Kind: event.Released, Session: g.session.ID(),
		Queue: g.queue.id, Token: g.token, Duration: held, Long: long, Err: err})
	return err
}

var errKept = fmt.Errorf("%w: this service cannot convert an entry: this handle is released, "+
	"and the others exclude as before until the last one is", coordinator.ErrInvalid)

// Converts reports whether the service can convert entries. If not, Convert
// returns ErrInvalid.
func (h *Hold) Converts() bool { return h.ctx.grant.session.Converts() }

// modeRule is the driver contract's rule for modes. An invalid mode must not
// become the goal of a conversion under way.
var modeRule = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// Convert changes the mode of this hold's entry to one that excludes less, and
// wakes the contenders that watch it. After an error with Maybe set it
// continues in the background. The error is ErrInvalid for an invalid mode.
func (h *Hold) Convert(ctx context.Context, mode string) error {
	if err := h.Check(ctx); err != nil {
		return err
	}
	if !modeRule.MatchString(mode) {
		return fmt.Errorf("%w: mode %.20q: want 1 to 16 characters of a-z and 0-9",
			coordinator.ErrInvalid, mode)
	}
	g := h.ctx.grant
	g.mu.Lock()
	if g.holds() == 0 {
		g.mu.Unlock()
		return coordinator.ErrReleased
	}
	t := g.convert(mode)
	g.mu.Unlock()
	return g.await(ctx, t)
}

// Write changes the payload that listings show. Concurrent calls for a grant
// run one after the other. After an error listings may show either payload,
// until the next call succeeds. If the hold ends first, the error is that of
// Err.
func (h *Hold) Write(ctx context.Context, payload []byte) error {
	g := h.ctx.grant
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: payload has %d bytes; at most %d are allowed",
			coordinator.ErrInvalid, len(payload), MaxPayload)
	}
	if err := h.lockWriting(ctx); err != nil {
		return err
	}
	defer func() { <-g.writing }()
	if err := h.Check(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	i, place := g.info, g.place
	g.mu.Unlock()
	i.Payload = append([]byte(nil), payload...)
	value, err := g.queue.encode(i)
	if err != nil {
		return err
	}
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })()
	err = g.session.Write(bound, g.queue.id, place, value)
	switch {
	case err == nil:
		g.mu.Lock()
		g.info, g.value = i, value
		g.mu.Unlock()
		return nil
	case errors.Is(err, coordinator.ErrRemoved) && ctx.Err() == nil:
		g.removed() // does nothing after a concurrent release
	}
	if over := g.err(ctx); over != nil {
		return over
	}
	return err
}

// lockWriting locks g.writing. The caller unlocks it by receiving.
func (h *Hold) lockWriting(ctx context.Context) error {
	over := h.ctx.Done()
	for {
		select {
		case h.ctx.grant.writing <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			if err := h.Check(ctx); err != nil {
				return err
			}
			over = h.ctx.grant.ctx.Done() // WithMaxHold has ended only the handle's context
		}
	}
}

// Sequencer returns the token with the name and service of the queue, for
// another process to check: see package fence. A conversion invalidates earlier
// sequencers; the next call returns another one with the same token.
//
// It sends no request, except that the first call of a session reads the
// identity of the service, and that a grant with Terms.Held is converted first.
// If the hold is over, the error is that of Err. In a layout of other clients,
// which has no place for the service's identity, it is ErrInvalid, and the hold
// stays.
func (h *Hold) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	if err := h.Check(ctx); err != nil {
		return fence.Sequencer{}, err
	}
	g := h.ctx.grant
	g.mu.Lock()
	t := g.conversion
	if g.held != "" && g.holds() > 0 {
		t = g.convert(g.held)
	}
	g.mu.Unlock()
	if t != nil {
		// after ErrInvalid the entry is unchanged
		if err := g.await(ctx, t); err != nil && !errors.Is(err, coordinator.ErrInvalid) {
			return fence.Sequencer{}, err
		}
	}
	service, err := g.session.Service(ctx)
	if over := h.Check(ctx); over != nil {
		err = over
	}
	if err != nil {
		return fence.Sequencer{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	kind, name, _ := g.queue.id.Split()
	scope := fence.Scope{Service: service, Kind: kind, Name: name}
	return fence.Sequencer{Scope: scope, Token: g.token, Key: g.place.Key}, nil
}
