package recipes

import (
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// ErrHeldTooLong is the cause of a hold's context that WithMaxHold has ended.
// The name is still held, and Err of the hold is nil.
var ErrHeldTooLong = errors.New("held for longer than WithMaxHold allows")

// watchTime starts the timers. The caller holds g.mu. Their functions run in
// goroutines of the session, so that Close waits for them and notifies no
// observer afterwards.
func (g *grant) watchTime() {
	for i, after := range []time.Duration{g.queue.warnAfter, g.queue.maxHold} {
		if after > 0 && g.ctx.Err() == nil {
			lasts := func() { g.lasts(after, i == 1) }
			g.timers = append(g.timers, time.AfterFunc(after, func() { g.session.Go(lasts) }))
		}
	}
}

// stopTimers stops the timers of a grant that is over, and reports whether
// observers were notified that it lasted long. The caller holds g.mu.
func (g *grant) stopTimers() bool {
	for _, t := range g.timers {
		t.Stop()
	}
	return g.long
}

func (g *grant) lasts(limit time.Duration, tooLong bool) {
	g.mu.Lock()
	if g.holds() == 0 || g.ctx.Err() != nil { // it is over; the timer fired before stopTimers
		g.mu.Unlock()
		return
	}
	first := !g.long
	g.long = true
	if tooLong {
		g.tooLong = true
		g.top.end(ErrHeldTooLong)
		g.low.end(ErrHeldTooLong)
	}
	g.mu.Unlock()
	e := event.Event{Session: g.session.ID(), Queue: g.queue.id, Token: g.token,
		Duration: time.Since(g.since)}
	c, said := g.queue.client, "baton: hold lasts long"
	if tooLong {
		said = "baton: hold lasts too long; its context was ended, and the name is held until it is released"
	}
	c.Log().Warn(said, "queue", g.queue.id, "token", g.token, "session", g.session.ID(),
		"held", e.Duration, "limit", limit)
	if first {
		e.Kind = event.HeldLong
		c.Observe(e)
	}
	if tooLong {
		e.Kind = event.HeldTooLong
		c.Observe(e)
	}
}
