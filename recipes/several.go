package recipes

import (
	"context"
	"time"
)

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
	return c.grant.queue.key, c.grant, true
}

// deferred marks a context for watchTime.
type deferred struct{}

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
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deferred && g.holds() > 0 {
		g.deferred = false
		g.startTimer(g.queue.maxHold, true)
	}
}

// startTimer starts the timer of WithHoldWarning or of WithMaxHold. The caller
// holds g.mu. The timer's function runs in a goroutine of the session, so that
// Close waits for it and notifies no observer afterwards.
func (g *grant) startTimer(after time.Duration, tooLong bool) {
	if after > 0 && g.ctx.Err() == nil {
		lasts := func() { g.lasts(after, tooLong) }
		g.timers = append(g.timers, time.AfterFunc(after, func() { g.session.Go(lasts) }))
	}
}
