package main

import (
	"context"
	"fmt"
	"iter"
	"sync"
)

// broker delivers each message twice at once, and again what was not done. When
// all of that is done it delivers each message once more, as a broker does that
// has lost what it was told. It counts how often the costly part was done.
type broker struct {
	queue chan message

	mu    sync.Mutex
	open  int       // deliveries that are not done
	late  []message // those to come
	works int
}

func newBroker(messages int) *broker {
	b := &broker{queue: make(chan message, 2*messages), open: 2 * messages}
	for n := range messages {
		m := message{ID: fmt.Sprint("message-", n+1), Amount: 10}
		b.late = append(b.late, m)
		b.queue <- m
		b.queue <- m
	}
	return b
}

// deliveries are what one consumer gets, until all is done or ctx ends.
func (b *broker) deliveries(ctx context.Context) iter.Seq[message] {
	return func(yield func(message) bool) {
		for {
			select {
			case m, more := <-b.queue:
				if !more || !yield(m) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// again takes a delivery back: it is made again.
func (b *broker) again(m message) { b.queue <- m }

// done is told that a delivery is done.
func (b *broker) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open--; b.open > 0 {
		return
	}
	if len(b.late) == 0 {
		close(b.queue)
		return
	}
	b.open = len(b.late)
	for _, m := range b.late {
		b.queue <- m // there is room: nothing is under way
	}
	b.late = nil
}

func (b *broker) work() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.works++
}

func (b *broker) worked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.works
}
