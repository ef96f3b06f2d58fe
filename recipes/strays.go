package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

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
