package engine

import (
	"context"
	"sync"
	"time"
)

// outbox hands items to a function of the user's, one at a time and in their
// order. The function may block for ever, like a log handler that writes to a
// full pipe: then it delays only the items behind. put never waits for it.
//
// Its goroutine lives while there are items, so a client that logs nothing has
// none. Close waits for it with flush, as long as the context of Close allows.
//
// A panic of the function is not recovered: it ends the process, as in any
// goroutine, with the function in the stack.
type outbox[T any] struct {
	deliver func(T)
	// report delivers that items were dropped after all those delivered so far.
	report func(dropped int)

	mu      sync.Mutex
	items   []T // not yet taken by run
	running bool
	dropped int           // since run took the last items
	idle    chan struct{} // closed when run ends; nil unless flush waits
}

// mostItems bounds an outbox. Ten thousand holds that are lost in one moment
// fit: one line and one event each.
const mostItems = 16 << 10

// mostSpare bounds the slice that an idle outbox keeps.
const mostSpare = 64

// put adds an item. If the outbox is full, the item is dropped and counted.
func (o *outbox[T]) put(item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full() {
		o.dropped++
		return
	}
	o.add(item)
}

// full reports whether run lags by mostItems. The caller holds o.mu.
func (o *outbox[T]) full() bool { return len(o.items) >= mostItems }

// add is put without a bound. The caller holds o.mu.
func (o *outbox[T]) add(item T) {
	o.items = append(o.items, item)
	o.start()
}

// start starts run, unless it runs. The caller holds o.mu.
func (o *outbox[T]) start() {
	if !o.running {
		o.running = true
		go o.run(nil, 0) // flush waits for it
	}
}

// run delivers items, of which so many were dropped behind them, and then all
// that were put meanwhile. It takes all at once. So those that were dropped
// since the last time came after the last of these, and the report of them is
// in its place.
//
// The function may end its goroutine by runtime.Goexit, as a failed test does.
// Another run then goes on behind that item.
func (o *outbox[T]) run(items []T, dropped int) {
	done, idle := 0, false
	defer func() {
		if !idle {
			go o.run(items[done:], dropped)
		}
	}()
	var spare []T // so that a few items now and then need no new slice
	for {
		for done < len(items) {
			done++
			o.deliver(items[done-1])
		}
		if n := dropped; n > 0 {
			dropped = 0
			o.report(n)
		}
		clear(items)
		if spare = items[:0]; cap(spare) > mostSpare {
			spare = nil
		}
		o.mu.Lock()
		items, dropped, done = o.items, o.dropped, 0
		o.items, o.dropped = spare, 0
		// A mailbox also drops while it is empty: see mailbox.takes.
		if idle = len(items) == 0 && dropped == 0; idle {
			o.running = false
			if o.idle != nil {
				close(o.idle)
				o.idle = nil
			}
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
	}
}

// flush waits until nothing is left to deliver, or ctx ends.
func (o *outbox[T]) flush(ctx context.Context) {
	o.mu.Lock()
	if o.dropped > 0 { // perhaps since run has ended
		o.start()
	}
	if !o.running {
		o.mu.Unlock()
		return
	}
	if o.idle == nil {
		o.idle = make(chan struct{})
	}
	idle := o.idle
	o.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Flush waits until what the client has logged and observed so far was
// delivered, but at most for d. It is for a caller that may end the process.
func (c *Client) Flush(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	c.flush(ctx)
}

func (c *Client) flush(ctx context.Context) {
	c.lines.flush(ctx)
	for _, o := range c.mailboxes {
		o.flush(ctx)
	}
}
