package recipes

import (
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// ErrHeldTooLong is the cause of a hold's context that WithMaxHold has ended.
// The name is held still, for the work may still run: nobody else is admitted
// until it is released. So Err of the hold is nil.
var ErrHeldTooLong = errors.New("held for longer than the longest hold")

// WithHoldWarning has a hold told of that lasts for so long: a queue at Warn and
// a event.HeldLong, once for each grant. A holder that hangs while its session
// lives keeps everybody else out, and nothing but the time tells of it. Zero,
// as by default: it is not told.
func WithHoldWarning(d time.Duration) Option { return func(o *options) { o.warnAfter = d } }

// WithMaxHold is WithHoldWarning, and ends the hold's context too, with
// ErrHeldTooLong as its cause: work that heeds its context stops. It does not
// release the name, since work that does not heed it may still run; whoever
// holds releases as ever. Contexts of those who re-enter later have ended from
// the beginning. With both options the warning comes after the shorter time.
func WithMaxHold(d time.Duration) Option { return func(o *options) { o.maxHold = d } }

// checkOvertime checks what WithHoldWarning and WithMaxHold were given. Of two bad
// durations it names the hold warning.
func (o options) checkOvertime(name string) error {
	for _, given := range []struct {
		what string
		d    time.Duration
	}{{"hold warning after", o.warnAfter}, {"longest hold", o.maxHold}} {
		if d := given.d; d < 0 || d > 0 && d < time.Millisecond {
			return invalid("%s %v for %q: want 0 for none, or at least 1ms", given.what, d, name)
		}
	}
	return nil
}

// overtime is what a grant has if its queue has one of the two options.
type overtime struct {
	timers  [2]*time.Timer // those that are not needed are nil
	long    bool           // it was told that the grant lasts long
	tooLong bool           // the contexts were ended
}

// watchTime sets the timers. The caller holds g.mu. What they run is the
// session's, so that Close waits for it: nobody is told of anything after that.
func (g *grant) watchTime() {
	l := g.queue
	if l.warnAfter == 0 && l.maxHold == 0 || g.ctx.Err() != nil {
		return
	}
	g.overtime = new(overtime)
	for i, after := range []time.Duration{l.warnAfter, l.maxHold} {
		if after > 0 {
			g.overtime.timers[i] = time.AfterFunc(after, func() { g.session.Go(func() { g.lasts(after, i == 1) }) })
		}
	}
}

// timed stops the timers of a grant that is over, and reports whether it was
// told that it lasted long. The caller holds g.mu.
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

// lasts is called when the grant has lasted for so long.
func (g *grant) lasts(limit time.Duration, tooLong bool) {
	g.mu.Lock()
	if g.holds() == 0 || g.ctx.Err() != nil { // after that nobody looks at long any more
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
	e := event.Event{Session: g.session.ID(), Queue: g.queue.id, Token: g.token, Duration: time.Since(g.since)}
	c, said := g.queue.client, "baton: hold lasts long"
	if tooLong {
		said = "baton: hold lasts too long; its context was ended, and the name is held until it is released"
	}
	c.Log().Warn(said, "queue", g.queue.id, "token", g.token, "session", g.session.ID(), "held", e.Duration, "limit", limit)
	if first {
		e.Kind = event.HeldLong
		c.Observe(e)
	}
	if tooLong {
		e.Kind = event.HeldTooLong
		c.Observe(e)
	}
}
