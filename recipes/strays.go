package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
)

const (
	strayDelay = time.Second     // of waiting, before the queue is read
	strayReach = 16              // entries from the head
	strayGap   = 5 * time.Second // between two reads for all contenders of a Queue
	strayPause = time.Minute     // the same after a warning
)

// watchStrays looks for strays (see driver.Entry) if the contender waits for
// long. They never leave by themselves, and else the wait would end with
// nothing but "context deadline exceeded". One read is enough: a stray that
// comes later stands behind.
func (a *attempt) watchStrays(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(strayDelay, func() { a.session.Go(func() { a.lookForStrays(ctx) }) })
	return func() { timer.Stop(); cancel() }
}

// lookForStrays reads the head of the queue, unless another contender has done
// so just now, and warns of strays, and of a queue that the driver refuses to
// read because of them.
func (a *attempt) lookForStrays(ctx context.Context) {
	l, now := a.queue, time.Now()
	rests := l.rests.Load()
	if now.UnixNano() < rests ||
		!l.rests.CompareAndSwap(rests, now.Add(strayGap).UnixNano()) {
		return
	}
	entries, err := a.session.List(ctx, l.id, strayReach)
	if errors.Is(err, coordinator.ErrRefused) {
		l.warnOfStray(a.session.ID(), err)
	}
	for _, e := range entries {
		if e.Stray != "" {
			l.warnOfStray(a.session.ID(), fmt.Errorf("entry %q belongs to no session and "+
				"stays until it is removed: %s", e.Key, e.Stray))
		}
	}
}

func (l *Queue) warnOfStray(session string, err error) {
	l.rests.Store(time.Now().Add(strayPause).UnixNano())
	l.client.Log().Warn("baton: a stray entry blocks the queue",
		"queue", l.id, "service", l.client.String(), "error", err)
	l.client.Observe(event.Event{Kind: event.Stray, Session: session, Queue: l.id, Err: err})
}
