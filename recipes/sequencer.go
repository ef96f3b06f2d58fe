package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
)

// Sequencer tells of this grant in a form that can be shown to others, in any process: see package fence. It names the entry as it
// stands now. A conversion, when a part is released or a write lock becomes a read lock, is the end of sequencers
// that were made before, and the next call makes another, with the same token.
//
// It costs nothing, but for the first of a session, which reads the identity of the service, and for one whose entry does not say yet that it
// holds: that is converted first, as it would be after 250 ms anyway. When the hold is over the error says why. Other errors: ErrUnavailable,
// ErrRefused, the cause of ctx.
func (h *Hold) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	if err := h.Check(ctx); err != nil {
		return fence.Sequencer{}, err
	}
	g := h.ctx.grant
	g.mu.Lock()
	t := g.turn
	if g.held != "" && g.holds() > 0 {
		t = g.convert(g.held)
	}
	g.mu.Unlock()
	if t != nil {
		if err := g.await(ctx, t); err != nil && !errors.Is(err, coordinator.ErrInvalid) { // which has changed nothing
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
	kind, name, _ := g.line.line.Split()
	return fence.Sequencer{Scope: fence.Scope{Service: service, Kind: kind, Name: name}, Token: g.token, Key: g.place.Key}, nil
}
