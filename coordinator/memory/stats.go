package memory

import (
	"bytes"
	"maps"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// Stats are counters of a service, or of one client of it. Reading them is no request.
type Stats struct {
	// Requests that arrived, by operation. What was dropped, is still under way, or came
	// while the service was stopped is not in it.
	Requests map[Op]int
	// Wakeups counts the notifications sent because a watched entry went, or a head or
	// record changed that was waited for. A wait that is answered at once, or ended by a lost
	// session, is none.
	Wakeups int
	// Watches, those of heads and records among them, Sessions and Entries are there now.
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

// Since is what was counted after before was taken. What is there now stays what is there now.
//
//	before := svc.Stats()
//	... what is measured ...
//	cost := svc.Stats().Since(before)
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

// Stats returns the counters of the whole service.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Requests: maps.Clone(s.counts.requests),
		Wakeups:  s.counts.wakeups,
		Watches:  s.watches,
		Sessions: len(s.seats),
		Entries:  s.entries,
	}
}

// Stats returns the counters of this client: its own requests and notifications, and
// the watches, live sessions and entries it has at the service.
func (d *Driver) Stats() Stats {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	stats := Stats{
		Requests: maps.Clone(d.counts.requests),
		Wakeups:  d.counts.wakeups,
		Watches:  len(d.watches),
	}
	for _, st := range d.svc.seats {
		if st.client.driver == d {
			stats.Sessions++
			stats.Entries += len(st.entries)
		}
	}
	return stats
}

// Snapshot returns the entries of a queue in order, as they are at the service
// now. It is no request, needs no session, and works while the service is stopped.
func (s *Service) Snapshot(queue driver.Queue) []driver.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(queue, 0)
}

// Queues returns the names of all queues that have entries, sorted.
func (s *Service) Queues() []driver.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.queues))
}

// Sessions returns the IDs of all live sessions, oldest first.
func (s *Service) Sessions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.seats))
}

// seatsInOrder returns all live sessions, oldest first.
func (s *Service) seatsInOrder() []*seat {
	all := make([]*seat, 0, len(s.seats))
	for _, id := range slices.Sorted(maps.Keys(s.seats)) {
		all = append(all, s.seats[id])
	}
	return all
}

// list copies entries, values included: a caller may keep and change what it got.
func (s *Service) list(queue driver.Queue, limit int) []driver.Entry {
	l := s.queues[queue]
	if l == nil {
		return nil
	}
	n := len(l.entries)
	if limit > 0 {
		n = min(n, limit)
	}
	entries := make([]driver.Entry, 0, n)
	for _, e := range l.entries[:n] {
		x := e.Entry
		x.Value = bytes.Clone(x.Value)
		entries = append(entries, x)
	}
	return entries
}

// Step is one thing that happened to a queue at the service, for the function
// given to [Service.OnStep].
type Step struct {
	Kind  StepKind
	By    Hand
	Queue driver.Queue
	// Entry is the entry that it happened to: as it is after the step, or, if it left, as it was.
	Entry driver.Entry
	// Passed: it left by Pass, for StepLeft.
	Passed bool
	// Record is the queue's record after the step, for StepRecord.
	Record driver.Record
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

// Whoever can do something to a queue.
const (
	ByClient   Hand = "client"   // a request: of the entry's own session, if it is about an entry
	ByClock    Hand = "clock"    // the session's ttl ran out
	ByOperator Hand = "operator" // Expire, Remove, RemoveRecord, AddForeign, and the Remove of a session
)

// OnStep has see told of every step of every queue, from now on. Nil ends it.
//
// It is told in the middle of the step: after the queue has changed, and before
// anybody hears of that. So a test that finds a hold alive at the moment at
// which its entry leaves has found a hold that outlives its entry, if only by
// an instant. see is called with the service's lock held, by one goroutine at a
// time: it must not wait, nor call the service or anything that does.
func (s *Service) OnStep(see func(Step)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see = see
}

// step tells of a step. The caller holds s.mu.
func (s *Service) step(kind StepKind, by Hand, name driver.Queue, e driver.Entry) {
	step := Step{Kind: kind, By: by, Queue: name, Entry: e}
	if kind == StepRecord {
		step.Record = s.record(name)
	}
	s.tell(step)
}

func (s *Service) tell(step Step) {
	if s.see == nil {
		return
	}
	step.Entry.Value = bytes.Clone(step.Entry.Value)
	s.see(step)
}
