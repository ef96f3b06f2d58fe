package recipes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
)

// Handle is what the locks, permits and terms of all recipes have in common:
// they embed it. It is safe for concurrent use, and must not be copied.
type Handle struct {
	level    *level
	ctx      holdContext
	released atomic.Bool
}

// Token is the fencing token of the grant, strictly greater than those of the
// earlier grants that excluded it. Re-entering gives the same token. Show it to
// every resource that the hold protects, with each access, reads included, and
// have the resource refuse tokens smaller than the greatest it has seen.
func (h *Handle) Token() coordinator.Token { return h.ctx.grant.token }

// Context ends when the hold does, and before anyone that it excludes can hold:
// released, lost with the session, or removed. Its cause tells which
// (coordinator.ErrReleased, ErrSessionLost, ErrRemoved, ErrClosed). With
// WithMaxHold it can end sooner. It has the values of the context given to the
// call that made this handle, but not its deadline. Its Err looks at the clock,
// so that a process that was paused sees the loss at once; contexts derived from
// it see it when their timers have run.
//
// Given to a call on the same mutex or read-write lock, it re-enters the hold.
// After that it ends with the last handle of its mode.
func (h *Handle) Context() context.Context { return &h.ctx }

// Err returns nil while this handle holds, by the clock, and then why it does
// not. It does not wait, except after the machine may have slept: then it asks
// the service first, for two seconds at most, and without an answer the hold is
// lost.
func (h *Handle) Err() error { return h.check(context.Background()) }

func (h *Handle) check(ctx context.Context) error {
	if h.released.Load() {
		return coordinator.ErrReleased
	}
	return h.ctx.grant.err(ctx)
}

// Deadline is when the hold is lost unless the session is renewed before, as it
// is every quarter of the TTL. It has a monotonic clock reading.
func (h *Handle) Deadline() time.Time { return h.ctx.grant.session.Deadline() }

// Session is the ID of the session that holds, as listings show it.
func (h *Handle) Session() string { return h.ctx.grant.session.ID() }

// Revoked waits until another client asks the holder to release, as Curator's
// Revoker does on a client with that layout, and then returns nil. The hold goes
// on; the holder decides. It costs a request. The error is ErrInvalid where no
// client can ask, why the hold ended if it does so first, and else the cause of
// ctx.
func (h *Handle) Revoked(ctx context.Context) error {
	return h.ctx.grant.queue.describe(ctx, "await a revocation", h.revoked(ctx))
}

func (h *Handle) revoked(ctx context.Context) error {
	g := h.ctx.grant
	if err := h.check(ctx); err != nil {
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
		if over := h.check(ctx); over != nil && err != nil {
			return over
		}
		return err
	}
}

// Sequencer describes this grant so that any process can check it: see package
// coordinator/fence. It names the entry as it is now: a conversion, when a part
// of a permit is released or a write lock becomes a read lock, ends earlier
// sequencers, and the next call makes another one, with the same token. When the
// hold is over the error says why, as Err does. Other errors: ErrUnavailable,
// ErrRefused, the cause of ctx.
//
// It costs nothing, but for the first of a session, which reads the identity of
// the service, and the first of a permit, whose entry has to say that it holds.
func (h *Handle) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := h.sequencer(ctx)
	return s, h.ctx.grant.queue.describe(ctx, "sequencer", err)
}

func (h *Handle) sequencer(ctx context.Context) (fence.Sequencer, error) {
	if err := h.check(ctx); err != nil {
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
	if over := h.check(ctx); over != nil {
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
