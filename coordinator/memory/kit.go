package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// Once gives a fate to the first request of a kind, and harms no other: for [Service.OnRequest].
//
//	svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DropReply: true})) // applied, and the caller does not hear of it
func Once(op Op, fate Fate) func(Request) Fate {
	var done atomic.Bool
	return func(r Request) Fate {
		if r.Op == op && done.CompareAndSwap(false, true) {
			return fate
		}
		return Fate{}
	}
}

// Expire ends all sessions of this client at the service, as [Service.Expire] does one, and reports whether there was any. The client may
// open another one at once.
func (d *Driver) Expire() bool {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	found := false
	for _, seat := range d.svc.seatsInOrder() {
		if seat.client.driver == d {
			d.svc.end(seat, ByOperator)
			found = true
		}
	}
	return found
}

// RemoveGrant deletes the entry of a grant as an operator would who has its token, that of a lock, a permit or a term. It reports whether
// there was one; see [Service.Remove] for what follows.
func (s *Service) RemoveGrant(token driver.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		for _, e := range l.entries {
			if e.Token == token {
				s.erase(e)
				return true
			}
		}
	}
	return false
}

// Tally is an observer that keeps what it is told, for tests: give it to a client by coordinator.WithObserver. The zero Tally is
// ready to use, must not be copied, and may be used by many goroutines at once.
type Tally struct {
	mu     sync.Mutex
	events []event.Event
}

// Observe keeps an event.
func (t *Tally) Observe(e event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// Count is the number of events of a kind.
func (t *Tally) Count(kind event.Kind) int {
	n := 0
	for _, e := range t.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// Events are all events, in the order in which they were told.
func (t *Tally) Events() []event.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.events)
}
