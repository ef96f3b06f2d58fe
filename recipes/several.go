package recipes

import "context"

// This file is for recipes that make one hold of several, one acquired after
// the other.

// Carried returns the key and the value with which ctx, the context of a hold,
// carries the hold: a context that returns this value for this key re-enters
// it. Another context has none.
func Carried(ctx context.Context) (key, value any, ok bool) {
	c, ok := ctx.(*holdContext)
	if !ok {
		return nil, nil, false
	}
	return c.grant.turn.queue.key, c.grant, true
}

// DeferMaxHold returns a context with which Acquire does not start the time of
// [WithMaxHold]: StartMaxHold does, when the work begins. The time of
// WithHoldWarning starts in any case, since the name is held.
func DeferMaxHold(ctx context.Context) context.Context {
	return context.WithValue(ctx, deferred{}, true)
}

// StartMaxHold starts the time of WithMaxHold of the hold whose context is ctx,
// unless it was started or the hold is over.
func StartMaxHold(ctx context.Context) {
	c, ok := ctx.(*holdContext)
	if !ok {
		return
	}
	g := c.grant
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	if g.deferred && g.handles() > 0 {
		g.deferred = false
		g.startTimer(g.turn.queue.maxHold, true)
	}
}
