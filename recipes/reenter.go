package recipes

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator"
)

// This file finds the hold that a context carries, so that a caller that has it
// does not wait for itself.

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
		// The rule comes from the caller: the first request, of the other mode,
		// did not have it. Wanted needs it once the entry has this mode.
		grant.low.rule = request.Rule
		return grant.again(ctx, &grant.low), nil
	}
	// Not a second entry: it would wait for the first one, which the caller
	// cannot release meanwhile.
	return nil, ErrOtherMode
}

// again is handle of a re-entry, which may be taken with the context of a hold
// that was itself taken within this one.
func (g *grant) again(ctx context.Context, l *level) *Hold {
	h := g.handle(ctx, l)
	if n := g.within(ctx, g.contextOf(l), g.ends()); n != nil {
		n.again, h.ctx.Context = true, n
	}
	return h
}

// Carried returns the key and the value with which ctx, the context of a hold,
// carries the hold: a context that returns this value for this key re-enters
// it. Another context has none. It is for recipes that make one hold of
// several, one acquired after the other.
func Carried(ctx context.Context) (key, value any, ok bool) {
	c, ok := ctx.(*holdContext)
	if !ok {
		return nil, nil, false
	}
	return c.grant.turn.queue.key, c.grant, true
}
