package memory

import (
	"maps"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/event"
)

// Stats are counters of a service, or of one client of it. Reading them is no
// request.
type Stats struct {
	// Requests counts those that arrived, by operation: without those that were
	// dropped, are still under way, or came while the service was stopped.
	Requests map[Op]int
	// Wakeups counts the notifications of waiting calls: a watched entry left, or
	// a head, record or queue changed. A wait that is answered at once, or ended by
	// the loss of the session, is none.
	Wakeups int
	// Watches counts the calls that wait now, Sessions and Entries what is there
	// now.
	Watches, Sessions, Entries int
}

// Total is the number of requests of all operations.
func (s Stats) Total() int {
	n := 0
	for _, count := range s.Requests {
		n += count
	}
	return n
}

// Since returns what was counted after before was taken. What is there now stays
// what is there now.
func (s Stats) Since(before Stats) Stats {
	requests := map[Op]int{}
	for op, n := range s.Requests {
		if n -= before.Requests[op]; n > 0 {
			requests[op] = n
		}
	}
	s.Requests = requests
	s.Wakeups -= before.Wakeups
	return s
}

// counts are what a service and each of its clients count as things happen.
type counts struct {
	requests map[Op]int
	wakeups  int
}

func newCounts() counts { return counts{requests: map[Op]int{}} }

// stats returns the counters, with what sessions have at the service now.
func (c counts) stats(sessions []*session) Stats {
	stats := Stats{Requests: maps.Clone(c.requests), Wakeups: c.wakeups, Sessions: len(sessions)}
	for _, session := range sessions {
		stats.Watches += len(session.watches)
		stats.Entries += len(session.entries)
	}
	return stats
}

// Stats returns the counters of the whole service. Its entries include those
// that Baton did not write.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.counts.stats(s.sessionsInOrder())
	stats.Entries = len(s.entries)
	return stats
}

// Stats returns the counters of this client: its own requests and notifications,
// and the watches, live sessions and entries it has at the service.
func (d *Driver) Stats() Stats {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	return d.counts.stats(d.sessionsInOrder())
}

// Tally is an observer that keeps the events of one client: give it to
// coordinator.WithObserver. The zero Tally is ready to use. It must not be copied.
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

// Events returns all events, in the order in which they were observed.
func (t *Tally) Events() []event.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.events)
}
