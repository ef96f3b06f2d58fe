package recipes

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// deferred marks a context for watchTime.
type deferred struct{}

// DeferMaxHold returns a context with which Acquire does not start the time of
// [WithMaxHold]: StartMaxHold does, when the work begins. The time of
// WithHoldWarning starts in any case, since the name is held. It is for recipes
// that make one hold of several, one acquired after the other.
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
		g.deferred = false // a second call starts no second timer
		g.startTimer(g.turn.queue.maxHold, true)
	}
}

// watchTime starts the timers of a grant that was acquired with ctx. The caller
// holds the turn's mu.
func (g *grant) watchTime(ctx context.Context) {
	g.startTimer(g.turn.queue.warnAfter, false)
	if g.deferred = ctx.Value(deferred{}) != nil; !g.deferred {
		g.startTimer(g.turn.queue.maxHold, true)
	}
}

// startTimer starts the timer of WithHoldWarning or of WithMaxHold. The caller
// holds the turn's mu. The timer's function runs in a goroutine of the session,
// so that Close waits for it and notifies no observer afterwards.
func (g *grant) startTimer(after time.Duration, tooLong bool) {
	if after > 0 && g.turn.ctx.Err() == nil {
		lasts := func() { g.lasts(after, tooLong) }
		g.timers = append(g.timers, time.AfterFunc(after, func() { g.turn.session.Go(lasts) }))
	}
}

// lasts reports that the grant lasts longer than a limit. tooLong: the limit is
// that of WithMaxHold, so the contexts of the grant end.
func (g *grant) lasts(limit time.Duration, tooLong bool) {
	turn := g.turn
	turn.mu.Lock()
	if g.handles() == 0 || turn.ctx.Err() != nil { // it is over; the timer fired before stopTimers
		turn.mu.Unlock()
		return
	}
	first := !g.long // of the two timers: observers get one event.HeldLong
	g.long = true
	if tooLong {
		g.tooLong = true
		g.endLevel(&g.top, ErrHeldTooLong)
		g.endLevel(&g.low, ErrHeldTooLong)
	}
	// Run comes after mu: the name stays held, so no next holder may begin in
	// between.
	turn.mu.Unlock()
	g.ends().Run()
	ev := event.Event{Session: turn.session.ID(), Queue: turn.queue.id, Token: turn.token,
		Duration: time.Since(g.since)}
	c, said := turn.queue.client, "baton: hold lasts long"
	if tooLong {
		said = "baton: hold lasts too long; its context was ended, and the name is held until it is released"
	}
	c.Log().Warn(said, "queue", turn.queue.id, "token", turn.token, "session", turn.session.ID(),
		"held", ev.Duration, "limit", limit)
	if first {
		ev.Kind = event.HeldLong
		c.Observe(ev)
	}
	if tooLong {
		ev.Kind = event.HeldTooLong
		c.Observe(ev)
	}
}
