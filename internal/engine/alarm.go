package engine

import (
	"sync"
	"time"
)

// alarms ring a fixed time after they were added. Most are taken back long before, so that a timer for each would
// cost more than what it guards: one timer serves all, and is not touched when an alarm comes or goes.
type alarms struct {
	after time.Duration

	mu    sync.Mutex
	ring  Alarm // the head of a ring of those that are set, oldest first
	armed bool  // call is to be called
	over  bool  // see sound
}

// Bell is what an alarm rings, in a goroutine that it must not keep.
type Bell interface{ Ring() }

// Alarm is for a bell that is to ring. It is memory of whoever has it rung, and for one time.
type Alarm struct {
	of         *alarms
	prev, next *Alarm // nil if it is not set any more
	due        time.Time
	bell       Bell
}

// never is after how long those alarms ring that do so by sound alone.
const never = 0

func newAlarms(after time.Duration) *alarms {
	q := &alarms{after: after}
	q.ring.prev, q.ring.next = &q.ring, &q.ring
	return q
}

// add has a bell ring, by an alarm that is not added yet; at once if all have rung already.
func (q *alarms) add(a *Alarm, b Bell) {
	if a.of, a.bell = q, b; !q.set(a) {
		b.Ring()
	}
}

func (q *alarms) set(a *Alarm) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return false
	}
	a.prev, a.next = q.ring.prev, &q.ring
	a.prev.next, a.next.prev = a, a
	if q.after == never {
		return true
	}
	a.due = time.Now().Add(q.after)
	if !q.armed {
		q.armed = true
		time.AfterFunc(q.after, q.call)
	}
	return true
}

// call rings what is due.
func (q *alarms) call() { ring(q.due()) }

func ring(all []Bell) {
	for _, b := range all {
		b.Ring()
	}
}

// sound has all ring at once, and those that are added later too.
func (q *alarms) sound() { ring(q.all()) }

func (q *alarms) all() (all []Bell) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.over = true; q.ring.next != &q.ring; {
		all = append(all, q.ring.next.bell)
		q.ring.next.unset()
	}
	return all
}

// due takes out what is due, and arms the timer for the next one.
func (q *alarms) due() (due []Bell) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for q.ring.next != &q.ring && !q.ring.next.due.After(now) {
		due = append(due, q.ring.next.bell)
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

// Stop takes the alarm back, and reports whether it did: it has not rung and will not.
func (a *Alarm) Stop() bool {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	set := a.next != nil
	a.unset()
	return set
}
