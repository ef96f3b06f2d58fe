package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// ErrHeldTooLong is the cause of a hold's context that WithMaxHold has ended.
// The name is still held, and Err of the hold is nil.
var ErrHeldTooLong = errors.New("held for longer than WithMaxHold allows")

// watchTime starts the timers of a grant that was acquired with ctx. The caller
// holds g.mu.
func (g *grant) watchTime(ctx context.Context) {
	g.startTimer(g.queue.warnAfter, false)
	if g.deferred = ctx.Value(deferred{}) != nil; !g.deferred {
		g.startTimer(g.queue.maxHold, true)
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
	g.ends.Run()
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

const (
	strayDelay = time.Second      // of waiting, before the read
	strayReach = 8                // entries that are read, from the head
	strayPause = 10 * time.Second // between two reads of a queue by one session
)

// seekStrays reports the strays (see driver.Entry) of a queue in which a
// contender waits for a second. Behind a stray the call would end with nothing
// but "context deadline exceeded". It reads until a read by the session, since
// the contender has joined, has named a stray or shown the whole queue: a later
// stray is behind the contender.
func (a *attempt) seekStrays(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	joined := time.Now()
	timer := time.AfterFunc(strayDelay, func() {
		a.session.Go(func() {
			for pause := strayPause; ; {
				due, again := a.session.ReadDue(a.queue.id, joined, pause)
				if due {
					if a.nameStrays() {
						a.session.ReadCovered(a.queue.id)
						return
					}
					pause *= 10 // as the queue has to move first
				}
				if again == 0 {
					return
				}
				select {
				case <-time.After(again):
				case <-ctx.Done():
					return
				}
			}
		})
	})
	return func() { timer.Stop(); cancel() }
}

// nameStrays reports whether no more reads are needed: it has named a stray, or
// seen the whole queue.
func (a *attempt) nameStrays() bool {
	q, named := a.queue, false
	// also when this contender waits no more: others may rely on the read
	entries, err := a.session.List(a.session.Context(), q.id, strayReach)
	for _, e := range entries {
		if e.Stray == "" {
			continue
		}
		named = true
		q.client.Log().Warn("baton: a stray entry blocks the contenders behind it",
			"queue", q.id, "service", q.client.String(), "error", e.Stray)
		q.client.Observe(event.Event{Kind: event.Stray, Session: a.session.ID(),
			Queue: q.id, Err: errors.New(e.Stray)})
	}
	return named || err == nil && len(entries) < strayReach
}
