// Package stall records when a process, or the machine, stood still.
//
// One goroutine wakes up at short intervals and records late wake-ups. With a
// gap of tens of milliseconds these are the times in which a client in the same
// process was stopped. A process that rests is woken within milliseconds even
// on a machine with many busy processes: a gap of half a second means that the
// machine itself stood still.
package stall

import (
	"fmt"
	"sync"
	"time"
)

// Stall is a time in which the process was not scheduled, or its timers did not
// run.
type Stall struct{ From, To time.Time }

func (s Stall) length() time.Duration { return s.To.Sub(s.From) }

// Record has the stalls of a time.
type Record struct {
	least         time.Duration
	stop, stopped chan struct{}

	mu   sync.Mutex
	seen []Stall
}

// Watch starts recording, until End. The goroutine wakes up every tick, and
// records a wake-up that is late by least or more.
func Watch(tick, least time.Duration) *Record {
	r := &Record{least: least, stop: make(chan struct{}), stopped: make(chan struct{})}
	go r.watch(tick)
	return r
}

// Of returns a record of given stalls, for tests of verdicts.
func Of(seen ...Stall) *Record { return &Record{seen: seen} }

func (r *Record) watch(tick time.Duration) {
	defer close(r.stopped)
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for last := time.Now(); ; {
		select {
		case <-timer.C:
		case <-r.stop:
			return
		}
		// The timer's own time is that at which it fired, which may be before
		// the stall.
		now := time.Now()
		r.wake(last.Add(tick), now)
		last = now
		timer.Reset(tick)
	}
}

// wake notes a wake-up, and when it was due.
func (r *Record) wake(due, now time.Time) {
	if now.Sub(due) < r.least {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, Stall{due, now})
}

// End stops the recording. What was recorded stays readable.
func (r *Record) End() {
	close(r.stop)
	<-r.stopped
}

// During returns the longest stall that overlaps the time between from and to.
func (r *Record) During(from, to time.Time) (longest time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if s.From.Before(to) && s.To.After(from) {
			longest, ok = max(longest, s.length()), true
		}
	}
	return longest, ok
}

// Between returns for how long, in all, the process was stopped from one moment
// to another.
func (r *Record) Between(from, to time.Time) (sum time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if s.From.Before(from) {
			s.From = from
		}
		if s.To.After(to) {
			s.To = to
		}
		sum += max(0, s.length())
	}
	return sum
}

// Total returns how many stalls were at least so long, and the longest of all.
func (r *Record) Total(least time.Duration) (n int, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		longest = max(longest, s.length())
		if s.length() >= least {
			n++
		}
	}
	return n, longest
}

// String counts the stalls.
func (r *Record) String() string {
	const long = 100 * time.Millisecond
	all, longest := r.Total(0)
	many, _ := r.Total(long)
	return fmt.Sprintf("%d of %v or more, %d of %v or more, the longest %v", all, r.least, many, long, longest.Round(time.Millisecond))
}
