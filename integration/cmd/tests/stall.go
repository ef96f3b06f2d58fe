package main

import (
	"sync"
	"time"
)

// The interval at which the detector wakes up, and the gap between two wake-ups
// that counts as a stall. A process that rests is woken within milliseconds
// even on a machine with many busy processes: a gap this long means that the
// machine itself stood still.
const (
	stallTick  = 10 * time.Millisecond
	stallLeast = 500 * time.Millisecond
)

// stall is a time in which the machine stood still.
type stall struct{ from, to time.Time }

func (s stall) length() time.Duration { return s.to.Sub(s.from) }

// stalls records when the machine stood still.
type stalls struct {
	stop, stopped chan struct{}

	mu   sync.Mutex
	seen []stall
}

// watchStalls starts recording, until end.
func watchStalls() *stalls {
	s := &stalls{stop: make(chan struct{}), stopped: make(chan struct{})}
	go s.watch()
	return s
}

func (s *stalls) watch() {
	defer close(s.stopped)
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
		// The ticker's own time is that at which it fired, which may be
		// before the stall.
		now := time.Now()
		s.record(last, now)
		last = now
	}
}

func (s *stalls) record(last, now time.Time) {
	if now.Sub(last) < stallLeast {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, stall{last, now})
}

// end stops the recording. What was recorded stays readable.
func (s *stalls) end() {
	close(s.stop)
	<-s.stopped
}

// during returns the longest stall that overlaps the time between from and to.
func (s *stalls) during(from, to time.Time) (longest time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stall := range s.seen {
		if stall.from.Before(to) && stall.to.After(from) {
			longest, ok = max(longest, stall.length()), true
		}
	}
	return longest, ok
}

// total returns how many stalls were recorded, and the longest.
func (s *stalls) total() (n int, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stall := range s.seen {
		longest = max(longest, stall.length())
	}
	return len(s.seen), longest
}
