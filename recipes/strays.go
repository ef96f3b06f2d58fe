package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

const (
	strayDelay = time.Second      // of waiting, before the queue is read
	strayReach = 4                // entries from the head: each is a read on ZooKeeper
	strayPause = 10 * time.Second // between two reads for all contenders of a Queue
)

// watchStrays looks for strays (see driver.Entry) once if the contender waits
// for long, which else would end with nothing but "context deadline exceeded".
// A stray that comes later stands behind.
func (a *attempt) watchStrays(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(strayDelay, func() { a.session.Go(func() { a.lookForStrays(ctx) }) })
	return func() { timer.Stop(); cancel() }
}

// lookForStrays warns also of a queue that the driver refuses to read.
func (a *attempt) lookForStrays(ctx context.Context) {
	l, now := a.queue, time.Now()
	rests := l.rests.Load()
	if now.UnixNano() < rests ||
		!l.rests.CompareAndSwap(rests, now.Add(strayPause).UnixNano()) {
		return
	}
	entries, err := a.session.List(ctx, l.id, strayReach)
	if errors.Is(err, coordinator.ErrRefused) {
		entries = append(entries, driver.Entry{Stray: err.Error()})
	}
	for _, e := range entries {
		if e.Stray != "" {
			l.client.Log().Warn("baton: a stray entry blocks the queue",
				"queue", l.id, "service", l.client.String(), "error", e.Stray)
			l.client.Observe(event.Event{Kind: event.Stray, Session: a.session.ID(),
				Queue: l.id, Err: errors.New(e.Stray)})
		}
	}
}
