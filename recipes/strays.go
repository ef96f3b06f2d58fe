package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

const (
	strayDelay = time.Second      // of waiting, before the first read
	strayReach = 4                // entries that are read, from the head
	strayPause = 10 * time.Second // between two reads of a queue by one session
)

// seekStrays reports strays ahead (see driver.Entry) of a contender that waits
// for 1, 10, 100 seconds and so on. Behind a stray the call would end with
// nothing but "context deadline exceeded".
func (a *attempt) seekStrays(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(strayDelay, func() {
		a.session.Go(func() {
			for pause := 10 * strayDelay; !a.nameStrays(ctx); pause *= 10 {
				select {
				case <-time.After(pause):
				case <-ctx.Done():
					return
				}
			}
		})
	})
	return func() { timer.Stop(); cancel() }
}

// nameStrays reports whether there was a stray. It reads nothing if the session
// has read the queue for another contender shortly before.
func (a *attempt) nameStrays(ctx context.Context) (found bool) {
	q := a.queue
	if !a.session.Once(q.id, strayPause) {
		return false
	}
	entries, _ := a.session.List(ctx, q.id, strayReach)
	for _, e := range entries {
		if e.Stray == "" || e.Token >= a.joined.Token {
			continue
		}
		found = true
		q.client.Log().Warn("baton: a stray entry blocks the queue",
			"queue", q.id, "service", q.client.String(), "error", e.Stray)
		q.client.Observe(event.Event{Kind: event.Stray, Session: a.session.ID(),
			Queue: q.id, Err: errors.New(e.Stray)})
	}
	return found
}
