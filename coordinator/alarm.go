package coordinator

import (
	"sync"
	"time"
)

// alarms calls functions a fixed time after they were set. Most are taken back long before, so that a timer for each would
// cost more than what it guards: one timer serves all, and is not touched when an alarm comes or goes.
type alarms struct {
	after time.Duration

	mu    sync.Mutex
	ring  Alarm // the head of a ring of those that are set, oldest first
	armed bool  // call is to be called
}

// Alarm is a call to come.
type Alarm struct {
	of         *alarms
	prev, next *Alarm // nil if it is not set any more
	due        time.Time
	f          func()
}

func newAlarms(after time.Duration) *alarms {
	q := &alarms{after: after}
	q.ring.prev, q.ring.next = &q.ring, &q.ring
	return q
}

// set has f called, in a goroutine that it must not keep.
func (q *alarms) set(f func()) *Alarm {
	a := &Alarm{of: q, f: f}
	q.mu.Lock()
	defer q.mu.Unlock()
	a.due = time.Now().Add(q.after)
	a.prev, a.next = q.ring.prev, &q.ring
	a.prev.next, a.next.prev = a, a
	if !q.armed {
		q.armed = true
		time.AfterFunc(q.after, q.call)
	}
	return a
}

// call calls what is due.
func (q *alarms) call() {
	for _, f := range q.due() {
		f()
	}
}

// due takes out what is due, and arms the timer for the next one.
func (q *alarms) due() (due []func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for q.ring.next != &q.ring && !q.ring.next.due.After(now) {
		due = append(due, q.ring.next.f)
		q.ring.next.unset()
	}
	if q.armed = q.ring.next != &q.ring; q.armed {
		time.AfterFunc(q.ring.next.due.Sub(now), q.call)
	}
	return due
}

// unset is called with the mutex held.
func (a *Alarm) unset() {
	if a.next != nil {
		a.prev.next, a.next.prev = a.next, a.prev
		a.prev, a.next = nil, nil
	}
}

// Stop takes the alarm back, if it has not been called yet.
func (a *Alarm) Stop() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.unset()
}
