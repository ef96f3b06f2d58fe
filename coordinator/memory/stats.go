package memory

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// Stats are counters of a service or of one client.
type Stats struct {
	// Requests counts the requests that arrived, by operation.
	Requests map[Op]int
	// Wakeups counts the notifications of waiting calls. It does not count
	// calls that are answered at once, or end with the session.
	Wakeups int
	// Watches is the current number of waiting calls, Sessions and Entries of
	// sessions and entries.
	Watches, Sessions, Entries int
}

// Total returns the number of requests of all operations.
func (s Stats) Total() int {
	n := 0
	for _, count := range s.Requests {
		n += count
	}
	return n
}

// Since returns the requests and wake-ups after before, and the current
// numbers.
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

// counts are the counters of a service or client.
type counts struct {
	requests map[Op]int
	wakeups  int
}

func newCounts() counts { return counts{requests: map[Op]int{}} }

// stats returns the counters, and the numbers of sessions.
func (c counts) stats(sessions []*session) Stats {
	stats := Stats{Requests: maps.Clone(c.requests), Wakeups: c.wakeups, Sessions: len(sessions)}
	for _, session := range sessions {
		stats.Watches += len(session.watches)
		stats.Entries += len(session.entries)
	}
	return stats
}

// Stats returns the counters of the service. Entries includes foreign ones.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.counts.stats(s.sessionsInOrder())
	stats.Entries = len(s.entries)
	return stats
}

// Stats returns the counters of this client.
func (d *Driver) Stats() Stats {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	return d.counts.stats(d.sessionsInOrder())
}

// Tally is an event.Direct that keeps the events of a client: pass it to
// coordinator.WithObserver. The zero Tally is ready to use. Do not copy it.
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

// Direct implements event.Direct.
func (t *Tally) Direct() {}

// Count returns the number of events of a kind.
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

// Step is one change of a queue at the service, for [Service.OnStep].
type Step struct {
	Kind   StepKind
	By     Hand
	Queue  driver.Queue
	Entry  driver.Entry  // after the step, or before StepLeft
	Passed bool          // for StepLeft: by Pass
	Record driver.Record // for StepRecord: after the step
}

// StepKind is the kind of a Step.
type StepKind string

// The steps of a service.
const (
	StepJoined    StepKind = "joined"
	StepConverted StepKind = "converted"
	StepWritten   StepKind = "written"
	StepLeft      StepKind = "left"
	StepRecord    StepKind = "record" // the queue's record was written or removed
)

// Hand is the originator of a Step.
type Hand string

// The originators.
const (
	ByClient   Hand = "client"   // a request of the entry's own session
	ByClock    Hand = "clock"    // the session's TTL ran out
	ByOperator Hand = "operator" // a lever of the service, or driver.Operator.Remove
)

// OnStep calls see in every step of every queue. Nil ends it.
//
// see runs after the queue has changed and before clients are notified. So a
// hold that is alive in the step that removes its entry has outlived its entry.
// see runs with the service's lock held: it must neither block nor call the
// service.
func (s *Service) OnStep(see func(Step)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see = see
}

// step calls the function of OnStep. The caller holds s.mu.
func (s *Service) step(step Step) {
	if s.see == nil {
		return
	}
	step.Entry.Value = bytes.Clone(step.Entry.Value)
	s.see(step)
}
