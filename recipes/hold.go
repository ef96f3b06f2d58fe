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

// Hold is one handle of a grant. Each re-entry gets a handle of its own, with
// the same token; the grant is released with the last one. A Hold is safe for
// concurrent use.
type Hold struct {
	level    *level
	ctx      holdContext
	released atomic.Bool
}

// Token is the fencing token of the grant. Show it to every resource that the
// hold protects, with each access, reads included, and have the resource refuse
// tokens smaller than the greatest it has seen.
func (h *Hold) Token() coordinator.Token { return h.ctx.grant.token }

// Context ends when the hold does: released, lost with the session, or removed.
// Its cause tells which (ErrReleased, ErrSessionLost, ErrRemoved, ErrClosed).
// With WithMaxHold it can end sooner. It has the values of the context given to
// the call that made this hold, but not its deadline. Its Err looks at the
// clock, so that a process that was paused sees the loss at once; contexts
// derived from it see it when their timers have run. After a re-entry it ends
// with the last handle of its mode.
//
// Given to a call on the same queue, it re-enters the hold.
func (h *Hold) Context() context.Context { return &h.ctx }

// Err returns nil while this handle holds, and then why it does not. It does
// not wait, except after the machine may have slept: then it asks the service
// first, for two seconds at most, and without an answer the hold is lost.
func (h *Hold) Err() error { return h.Check(context.Background()) }

// Check is Err, and waits no longer than ctx, whose cause it returns then.
func (h *Hold) Check(ctx context.Context) error {
	if h.released.Load() {
		return coordinator.ErrReleased
	}
	return h.ctx.grant.err(ctx)
}

// Deadline is when the hold ends unless the session is renewed before, as it is
// every quarter of the TTL.
func (h *Hold) Deadline() time.Time { return h.ctx.grant.session.Deadline() }

// Session is the ID of the session that holds.
func (h *Hold) Session() string { return h.ctx.grant.session.ID() }

// ID is the contender's, the same in all modes. It is unique while the hold
// lasts, and together with the token for ever.
func (h *Hold) ID() string { return h.Place().ID }

// Revoked waits until another client asks the holder to release, as Curator's
// Revoker does, and then returns nil; the holder may release or not. It costs a
// request. Where queues are not shared with such a client the error is
// ErrInvalid; when the hold ends first, why it ended; else the cause of ctx.
func (h *Hold) Revoked(ctx context.Context) error {
	g := h.ctx.grant
	if err := h.Check(ctx); err != nil {
		return err
	}
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(&h.ctx, func() { cancel(context.Cause(&h.ctx)) })()
	for {
		place := g.standing()
		err := g.session.Revoked(bound, g.queue.id, place)
		if errors.Is(err, coordinator.ErrRemoved) && g.standing() != place {
			continue // it was converted
		}
		if over := h.Check(ctx); over != nil && err != nil {
			return over
		}
		return err
	}
}

// Place is the entry, with its key at the service, as the last conversion that
// is known to have succeeded left it.
func (h *Hold) Place() driver.Place {
	h.ctx.grant.mu.Lock()
	defer h.ctx.grant.mu.Unlock()
	return h.ctx.grant.place
}

// State is what the client knows of the session, and a channel that is closed
// when that changes.
func (h *Hold) State() (event.State, <-chan struct{}) { return h.ctx.grant.session.State() }

// Release releases this handle, and the grant with the last one: its context
// ends with ErrReleased, and then the entry is removed. With the last handle of
// its mode, when others are left in a lesser mode, the entry is converted to
// that instead. It works for up to two seconds with a ctx that has ended, such
// as that of the hold.
//
// A handle is released once; after that Release returns ErrNotHeld and does
// nothing. When the hold was lost before, the error says why, and nothing is
// deleted. ErrNotHeld also says that somebody deleted the entry and the hold
// did not notice it before, because it was younger than engine.SettleAfter or
// being converted. After any other error the release goes on in the background.
func (h *Hold) Release(ctx context.Context) error {
	if !h.released.CompareAndSwap(false, true) {
		return coordinator.ErrNotHeld
	}
	g := h.ctx.grant
	// The clock decides here too: nil says that the grant held until now.
	if g.session.Ended() == nil && g.leaveOthers(h.level) {
		return nil
	}
	ctx, stop := engine.ReleaseContext(ctx)
	defer stop()
	err := g.err(ctx)       // before its contexts end as released
	if g.ctx.Err() == nil { // not known to be over
		err = nil
	}
	last, t := g.leave(h.level, err != nil)
	switch {
	case err != nil:
		return err
	case last:
		return g.end(ctx)
	case t == nil:
		return nil
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
	if !g.over(coordinator.ErrReleased) { // lost since Release has checked
		_ = g.session.Check(ctx) // which may be ending at this moment
		g.cancel(coordinator.ErrReleased)
		if cause := context.Cause(g.ctx); !errors.Is(cause, coordinator.ErrReleased) {
			return cause
		}
	}
	held := time.Since(g.since)
	err := g.withdraw(ctx)
	// It was not released but lost, at an unknown moment. An error that says
	// "maybe" can have the cause of ctx inside, which can be any error.
	if errors.Is(err, coordinator.ErrNotHeld) && !coordinator.MayHaveApplied(err) {
		g.reportLoss(held, coordinator.ErrRemoved)
		return err
	}
	g.mu.Lock()
	long := g.timed()
	g.mu.Unlock()
	g.queue.client.Observe(event.Event{Kind: event.Released, Session: g.session.ID(),
		Queue: g.queue.id, Token: g.token, Duration: held, Long: long, Err: err})
	return err
}

// Converts reports whether the service can convert an entry at all. Where it
// cannot, Convert is ErrInvalid.
func (h *Hold) Converts() bool { return h.ctx.grant.session.Converts() }

// modeRule is the contract's for modes. A mode that breaks it must not become
// the goal of a conversion under way.
var modeRule = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// Convert changes the mode of this hold's entry to one that excludes less, and
// wakes the contenders that watch it. After an error with Maybe set it goes on
// in the background. A mode that breaks a rule is ErrInvalid, and changes
// nothing.
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

// Write changes the payload that listings show. Calls for one grant follow one
// after the other. After an error the old or the new one may be shown, until
// the next call succeeds. It ends when the hold does, and returns why that
// ended.
func (h *Hold) Write(ctx context.Context, payload []byte) error {
	g := h.ctx.grant
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: payload has %d bytes; at most %d are allowed",
			coordinator.ErrInvalid, len(payload), MaxPayload)
	}
	if err := h.toWrite(ctx); err != nil {
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
		g.removed() // unless it was released at this moment
	}
	if over := g.err(ctx); over != nil {
		return over
	}
	return err
}

// toWrite takes the lock for writing the entry's value. The caller releases it
// by receiving.
func (h *Hold) toWrite(ctx context.Context) error {
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
			over = h.ctx.grant.ctx.Done() // only its context has ended, by WithMaxHold
		}
	}
}

// Sequencer describes this grant so that any process can check it: see package
// fence. It names the entry as it is now. A conversion, when a part is released
// or a write lock becomes a read lock, ends earlier sequencers, and the next
// call makes another one, with the same token.
//
// It costs nothing, but for the first of a session, which reads the identity of
// the service, and for a grant that is going to be converted to Terms.Held,
// which happens first.
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
		// which has changed nothing
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
