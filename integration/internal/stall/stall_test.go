package stall

import (
	"testing"
	"testing/synctest"
	"time"
)

func at(ms int) time.Time { return time.Time{}.Add(time.Duration(ms) * time.Millisecond) }

func TestStallIsFoundInTheTimesThatItMet(t *testing.T) {
	r := &Record{least: 500 * time.Millisecond}
	r.wake(at(0), at(499)) // too short
	r.wake(at(1000), at(1500))
	r.wake(at(2000), at(2700))
	for _, c := range []struct {
		from, to       int
		longest, inAll time.Duration
	}{
		{from: 0, to: 1000}, {from: 1500, to: 2000}, {from: 2700, to: 9000},
		{from: 0, to: 1001, longest: 500, inAll: 1}, {from: 1400, to: 2001, longest: 700, inAll: 101},
		{from: 2100, to: 2200, longest: 700, inAll: 100}, {from: 0, to: 9000, longest: 700, inAll: 1200},
	} {
		if got, ok := r.During(at(c.from), at(c.to)); got != c.longest*time.Millisecond || ok != (c.longest > 0) {
			t.Errorf("between %d and %d ms: %v, %v", c.from, c.to, got, ok)
		}
		if got := r.Between(at(c.from), at(c.to)); got != c.inAll*time.Millisecond {
			t.Errorf("between %d and %d ms: %v in all, want %v", c.from, c.to, got, c.inAll*time.Millisecond)
		}
	}
	if n, longest := r.Total(600 * time.Millisecond); n != 1 || longest != 700*time.Millisecond {
		t.Errorf("%d stalls, the longest %v", n, longest)
	}
	if got := r.String(); got != "2 of 500ms or more, 2 of 100ms or more, the longest 700ms" {
		t.Error(got)
	}
}

func TestProcessThatRunsHasNoStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Watch(10*time.Millisecond, 20*time.Millisecond)
		time.Sleep(10 * time.Second)
		r.End()
		if n, longest := r.Total(0); n != 0 {
			t.Errorf("%d stalls in a process that runs, the longest %v", n, longest)
		}
	})
}
