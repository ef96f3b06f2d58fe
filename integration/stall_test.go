package integration_test

import (
	"fmt"
	"sync"
	"time"
)

// stall is a time in which this process was not scheduled, or its timers were not run.
type stall struct{ from, to time.Time }

func (s stall) length() time.Duration { return s.to.Sub(s.from) }

// stalls notices them, as far as one goroutine can: it wakes up again and again, and notes when it woke up late. A
// client in the same process was as blind for as long.
type stalls struct {
	stop, stopped chan struct{}

	mu   sync.Mutex
	seen []stall
}

// What is worth noting, and how often it is looked for.
const (
	stallLeast = 20 * time.Millisecond
	stallLook  = 2 * time.Millisecond
)

// watchStalls begins to look; the caller calls end.
func watchStalls() *stalls {
	s := &stalls{stop: make(chan struct{}), stopped: make(chan struct{})}
	go s.look()
	return s
}

func (s *stalls) look() {
	defer close(s.stopped)
	tick := time.NewTimer(0)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
		now := time.Now()
		if now.Sub(last) > stallLook+stallLeast {
			s.mu.Lock()
			s.seen = append(s.seen, stall{last.Add(stallLook), now})
			s.mu.Unlock()
		}
		last = now
		tick.Reset(stallLook)
	}
}

func (s *stalls) end() {
	close(s.stop)
	<-s.stopped
}

// between is for how long the process stood still, in all, from one moment to another.
func (s *stalls) between(from, to time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum time.Duration
	for _, x := range s.seen {
		if x.from.Before(from) {
			x.from = from
		}
		if x.to.After(to) {
			x.to = to
		}
		sum += max(0, x.length())
	}
	return sum
}

// String counts them.
func (s *stalls) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	long := 0
	for _, x := range s.seen {
		longest = max(longest, x.length())
		if x.length() >= 100*time.Millisecond {
			long++
		}
	}
	return fmt.Sprintf("%d of 20 ms or more, %d of 100 ms or more, the longest %v", len(s.seen), long, longest.Round(time.Millisecond))
}
