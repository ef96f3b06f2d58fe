package memory

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// Stats are counters of a service, or of one client of it. Reading them is no
// request.
type Stats struct {
	// Requests counts those that arrived, by operation.
	Requests map[Op]int
	// Wakeups counts the notifications of waiting calls. A wait that is
	// answered at once, or ended by the loss of the session, is none.
	Wakeups int
	// Watches counts the calls that wait now, Sessions and Entries what is
	// there now.
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

// Since returns what was counted after before was taken. What is there now
// stays what is there now.
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

// Stats returns the counters of this client, and what it has at the service.
func (d *Driver) Stats() Stats {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	return d.counts.stats(d.sessionsInOrder())
}

// Tally is an observer that keeps the events of one client: give it to
// coordinator.WithObserver. The zero Tally is ready to use. It must not be
// copied.
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

// Step is one change of a queue at the service, for [Service.OnStep].
type Step struct {
	Kind   StepKind
	By     Hand
	Queue  driver.Queue
	Entry  driver.Entry  // that changed: as it is after the step, or as it was if it left
	Passed bool          // for StepLeft: it left by Pass
	Record driver.Record // for StepRecord: as it is after the step
}

// StepKind says what happened.
type StepKind string

// The steps of a service.
const (
	StepJoined    StepKind = "joined"
	StepConverted StepKind = "converted"
	StepWritten   StepKind = "written"
	StepLeft      StepKind = "left"
	StepRecord    StepKind = "record" // the queue's record was written or removed
)

// Hand says who did it.
type Hand string

// The hands that change queues.
const (
	ByClient   Hand = "client"   // a request of the entry's own session
	ByClock    Hand = "clock"    // the session's TTL ran out
	ByOperator Hand = "operator" // a lever of the service, or driver.Operator.Remove
)

// OnStep calls see in every step of every queue, from now on. Nil ends it.
//
// see runs in the middle of the step: after the queue has changed, and before
// anybody is notified. So a hold that is alive in the step in which its entry
// leaves outlives its entry, if only by an instant. see runs with the service's
// lock held: it must not wait, nor call the service or anything that does.
func (s *Service) OnStep(see func(Step)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see = see
}

// step tells the observer of a step. The caller holds s.mu.
func (s *Service) step(step Step) {
	if s.see == nil {
		return
	}
	step.Entry.Value = bytes.Clone(step.Entry.Value)
	s.see(step)
}
