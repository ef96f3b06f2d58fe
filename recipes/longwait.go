package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// This file warns of waits that may never end: behind an entry that no session
// owns, and behind a hold of the caller's own process.

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
	a.since = joined
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

// suspectOwn warns after a TTL that the contender waits for a hold of its own
// session. It may be right to, but a goroutine that locks again without the
// context of its hold waits for itself, and nothing else would say so. A
// request that never re-enters is not suspected.
func (a *attempt) suspectOwn(v Verdict) (stop func()) {
	if a.Fresh || !v.Next || v.Watch[0].Session != a.session.ID() {
		return func() {}
	}
	name := func() { a.nameOwn(v.Watch[0]) }
	timer := time.AfterFunc(a.session.TTL(), func() { a.session.Go(name) })
	return func() { timer.Stop() }
}

// nameOwn logs the warning if the entry ahead is the first in the queue, so
// that it holds, once for each hold: many readers may wait for one writer.
func (a *attempt) nameOwn(ahead driver.Place) {
	q := a.queue
	first, err := a.session.List(a.session.Context(), q.id, 1)
	if err != nil || len(first) == 0 || first[0].Key != ahead.Key {
		return
	}
	if token := first[0].Token; q.suspected.Swap(int64(token)) != int64(token) {
		q.warnOfOwn(a.Op, token, a.since)
	}
}

func (q *Queue) warnOfOwn(op string, token driver.Token, since time.Time) {
	q.client.Log().Warn("baton: waits for a hold of this process; if the caller itself has it, pass the context of the hold",
		"queue", q.id, "call", op, "token", token, "waited", time.Since(since))
}
