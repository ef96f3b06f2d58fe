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
// but "context deadline exceeded". One read by the session since the contender
// has joined suffices: a later stray is behind it.
func (a *attempt) seekStrays(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	joined := time.Now()
	timer := time.AfterFunc(strayDelay, func() {
		a.session.Go(func() {
			for {
				due, again := a.session.ReadDue(a.queue.id, joined, strayPause)
				if due {
					a.nameStrays(ctx)
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

func (a *attempt) nameStrays(ctx context.Context) {
	q := a.queue
	entries, _ := a.session.List(ctx, q.id, strayReach)
	for _, e := range entries {
		if e.Stray == "" {
			continue
		}
		q.client.Log().Warn("baton: a stray entry blocks the contenders behind it",
			"queue", q.id, "service", q.client.String(), "error", e.Stray)
		q.client.Observe(event.Event{Kind: event.Stray, Session: a.session.ID(),
			Queue: q.id, Err: errors.New(e.Stray)})
	}
}
