package recipes

import (
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// ErrHeldTooLong is the cause of a hold's context that WithMaxHold has ended. The
// name is still held, and Err of the hold is nil.
var ErrHeldTooLong = errors.New("held for longer than the longest hold")

// overtime is what a grant has with WithHoldWarning or WithMaxHold.
type overtime struct {
	timers  [2]*time.Timer // those that are not needed are nil
	long    bool           // observers know that the grant lasts long
	tooLong bool           // the contexts were ended
}

// watchTime sets the timers. The caller holds g.mu. What they run belongs to the
// session, so that Close waits for it and no observer is notified after that.
func (g *grant) watchTime() {
	l := g.queue
	if l.warnAfter == 0 && l.maxHold == 0 || g.ctx.Err() != nil {
		return
	}
	g.overtime = new(overtime)
	for i, after := range []time.Duration{l.warnAfter, l.maxHold} {
		if after > 0 {
			lasts := func() { g.lasts(after, i == 1) }
			g.overtime.timers[i] = time.AfterFunc(after, func() { g.session.Go(lasts) })
		}
	}
}

// timed stops the timers of a grant that is over, and reports whether observers
// know that it lasted long. The caller holds g.mu.
func (g *grant) timed() bool {
	if g.overtime == nil {
		return false
	}
	for _, t := range g.overtime.timers {
		if t != nil {
			t.Stop()
		}
	}
	return g.overtime.long
}

func (g *grant) lasts(limit time.Duration, tooLong bool) {
	g.mu.Lock()
	if g.holds() == 0 || g.ctx.Err() != nil { // it is over; timed may have been called
		g.mu.Unlock()
		return
	}
	first := !g.overtime.long
	g.overtime.long = true
	if tooLong {
		g.overtime.tooLong = true
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
