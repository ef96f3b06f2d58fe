package integration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// stall is a time in which this process was not scheduled, or its timers did
// not run.
type stall struct{ from, to time.Time }

func (s stall) length() time.Duration { return s.to.Sub(s.from) }

// stalls records stalls, as far as one goroutine can: it wakes up at short
// intervals, and records late wake-ups. A client in the same process was
// stopped for as long.
type stalls struct {
	stop, stopped chan struct{}

	mu   sync.Mutex
	seen []stall
}

// The shortest recorded stall, and the interval of the wake-ups.
const (
	stallLeast = 20 * time.Millisecond
	stallLook  = 2 * time.Millisecond
)

// watchStalls starts recording; the caller calls end.
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

// between returns for how long, in all, the process was stopped from one moment
// to another.
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

// String counts the stalls.
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

// telling records when a holder was notified of its loss, and the stalls of
// this process.
type telling struct {
	t        testing.TB
	deadline func() time.Time
	told     chan struct{}
	at       time.Time
	still    *stalls
}

// awaitTelling starts recording for the hold with this context and deadline.
func awaitTelling(t testing.TB, ctx context.Context, deadline func() time.Time) *telling {
	x := &telling{t: t, deadline: deadline, told: make(chan struct{}), still: watchStalls()}
	t.Cleanup(x.still.end)
	context.AfterFunc(ctx, func() {
		x.at = time.Now()
		close(x.told)
	})
	return x
}

// wait waits for the notification.
func (x *telling) wait() time.Time {
	x.t.Helper()
	select {
	case <-x.told:
	case <-time.After(callBound):
		x.t.Fatal("the holder is not notified")
	}
	return x.at
}

// before waits for the notification, and checks that it came before the next
// grant.
func (x *telling) before(granted time.Time, what string) {
	x.t.Helper()
	toldBefore(x.t, x.still, what, x.deadline(), x.wait(), granted)
}

// toldBefore checks that a holder was notified before the next grant. P2
// excepts a stopped process: a process that was stopped for most of the delay
// does not fail the test.
func toldBefore(t testing.TB, still *stalls, what string, deadline, told, granted time.Time) {
	t.Helper()
	if !told.After(granted) {
		t.Logf("%s: notified %v before the next grant", what, granted.Sub(told).Round(time.Millisecond))
		return
	}
	say, stood := t.Errorf, still.between(deadline, told)
	if stood > told.Sub(deadline)/2 {
		say = t.Logf
	}
	say("%s: notified %v after the next grant, %v after its deadline; the process stood still for %v of that", what,
		told.Sub(granted), told.Sub(deadline), stood)
}

// verdict is a testing.TB that records failures.
type verdict struct {
	testing.TB
	failed bool
}

func (*verdict) Helper()                 {}
func (*verdict) Logf(string, ...any)     {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }

func TestOnlyAStallExcusesALateNotification(t *testing.T) {
	deadline := time.Now()
	after := func(d time.Duration) time.Time { return deadline.Add(d) }
	for what, c := range map[string]struct {
		told, granted time.Duration
		stall         stall
		failed        bool
	}{
		"in time":            {told: 1, granted: 2},
		"late":               {told: 2000, granted: 1000, failed: true},
		"late for a stall":   {told: 2000, granted: 1000, stall: stall{after(100), after(1900)}},
		"late beyond one":    {told: 2000, granted: 1000, stall: stall{after(100), after(1000)}, failed: true},
		"stalled before":     {told: 2000, granted: 1000, stall: stall{after(-5000), after(10)}, failed: true},
		"stalled afterwards": {told: 2000, granted: 1000, stall: stall{after(2000), after(5000)}, failed: true},
	} {
		v := &verdict{TB: t}
		toldBefore(v, &stalls{seen: []stall{c.stall}}, what, deadline, after(c.told), after(c.granted))
		if v.failed != c.failed {
			t.Errorf("%s: failed is %v", what, v.failed)
		}
	}
}
