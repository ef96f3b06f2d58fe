package semaphore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/semaphore"
)

// version is the record's version of the contender under test.
const version = 7

// asking is the mode of a contender that joined with the same record.
func asking(n int) string { return semaphore.AskingMode(n, version) }

// The modes that can be ahead of a contender for permits. One joined with an
// older record; the last is foreign.
var permitModes = []string{asking(1), asking(2), asking(3), semaphore.AskingMode(1, version-1), "h1",
	"h2", "h3", ""}

// becomes are the modes that an entry can have later; "-" means that it left.
func becomes(mode string) []string {
	c, ok := semaphore.ParseMode(mode)
	later := []string{mode, "-"}
	if !ok {
		return later
	}
	if !c.Held {
		later = append(later, semaphore.HoldingMode(c.N))
	}
	for k := 1; k < c.N; k++ {
		later = append(later, semaphore.HoldingMode(k))
	}
	return later
}

// permitQueues calls f with every queue of up to three ahead, every limit from
// 1 to 5, and every number of permits within it. Longer queues add nothing new,
// since the rule adds up the permits ahead.
func permitQueues(f func(modes []string, limit, n int)) {
	level := [][]string{nil}
	for range 4 {
		var next [][]string
		for _, modes := range level {
			for limit := 1; limit <= 5; limit++ {
				for n := 1; n <= min(limit, 3); n++ {
					f(modes, limit, n)
				}
			}
			for _, m := range permitModes {
				next = append(next, append(slices.Clone(modes), m))
			}
		}
		level = next
	}
}

// permitPlaces returns the places that have not left. A converted entry is
// another place.
func permitPlaces(modes []string) []driver.Place {
	var ahead []driver.Place
	for i, m := range modes {
		if m != "-" {
			ahead = append(ahead, driver.Place{Key: fmt.Sprint(i, m), Mode: m})
		}
	}
	return ahead
}

// sumOf returns the permits ahead, held or asked for. A foreign entry has all.
func sumOf(modes []string, limit int) (sum int) {
	for _, m := range modes {
		if c, ok := semaphore.ParseMode(m); ok {
			sum += c.N
		} else if m != "-" {
			sum += limit
		}
	}
	return sum
}

// futures calls f with every queue that a queue can become.
func futures(modes []string, f func(later []string)) {
	later := slices.Clone(modes)
	var at func(i int)
	at = func(i int) {
		if i == len(modes) {
			f(later)
			return
		}
		for _, m := range becomes(modes[i]) {
			later[i] = m
			at(i + 1)
		}
	}
	at(0)
}

// other reports whether the contender of a mode asks with another record.
func other(mode string) bool {
	c, ok := semaphore.ParseMode(mode)
	return ok && !c.Held && c.Version != version
}

// TestPermitsAreAdmittedExactlyIfTheSumFits and no contender ahead asks with
// another record, in every short queue. It also checks which places are watched
// if not.
func TestPermitsAreAdmittedExactlyIfTheSumFits(t *testing.T) {
	permitQueues(func(modes []string, limit, n int) {
		ahead := permitPlaces(modes)
		v := semaphore.Permits(limit, version, n)(ahead)
		fits := sumOf(modes, limit)+n <= limit && !slices.ContainsFunc(modes, other)
		if v.Admitted != fits {
			t.Fatalf("%q, %d of %d: admitted = %v", modes, n, limit, v.Admitted)
		}
		if v.Admitted {
			return
		}
		// The first waiter watches all; each other waiter the nearest waiter.
		waiting := -1
		for i, m := range modes {
			if other(m) || !semaphore.SaysHeld(m) && sumOf(modes[:i+1], limit) > limit {
				waiting = i
			}
		}
		switch {
		case waiting >= 0 && (len(v.Watch) != 1 || v.Watch[0] != ahead[waiting] || v.Record):
			t.Fatalf("%q, %d of %d: watches %v instead of %v", modes, n, limit, v, ahead[waiting])
		case waiting < 0 && (!slices.Equal(v.Watch, ahead) || !v.Record):
			t.Fatalf("%q, %d of %d: the first waiter watches %v", modes, n, limit, v)
		}
	})
}

// TestPermitsOnceAdmittedStayAdmitted when contenders ahead leave, release a
// part, or convert to show that they hold.
func TestPermitsOnceAdmittedStayAdmitted(t *testing.T) {
	permitQueues(func(modes []string, limit, n int) {
		rule := semaphore.Permits(limit, version, n)
		if !rule(permitPlaces(modes)).Admitted {
			return
		}
		futures(modes, func(later []string) {
			if !rule(permitPlaces(later)).Admitted {
				t.Fatalf("%q, %d of %d: no longer admitted when that becomes %q", modes, n,
					limit, later)
			}
		})
	})
}

// TestPermitsWatchWhatAdmitsThem: a contender that is admitted later, in any
// future of the queue, was notified: a place that it watches has left or was
// converted, or it watches a waiter that is admitted by then, and therefore
// converts its entry. (docs/model has a model of that conversion.)
func TestPermitsWatchWhatAdmitsThem(t *testing.T) {
	permitQueues(func(modes []string, limit, n int) {
		rule := semaphore.Permits(limit, version, n)
		v := rule(permitPlaces(modes))
		if v.Admitted {
			return
		}
		futures(modes, func(later []string) {
			now := permitPlaces(later)
			if !rule(now).Admitted {
				return
			}
			for _, w := range v.Watch {
				if !slices.Contains(now, w) {
					return
				}
			}
			i := slices.Index(now, v.Watch[0])
			c, _ := semaphore.ParseMode(v.Watch[0].Mode)
			if len(v.Watch) != 1 || c.Held ||
				!semaphore.Permits(limit, version, c.N)(now[:i]).Admitted {
				t.Fatalf("%q, %d of %d: admitted when that becomes %q, but only %v is watched",
					modes, n, limit, later, v.Watch)
			}
		})
	})
}

// TestPermitsWakeAtMostOneWhenAHolderLeaves: only the first waiter watches
// holders. A holder with another record, which looks like a waiter, is also
// watched by all contenders that fit behind it.
func TestPermitsWakeAtMostOneWhenAHolderLeaves(t *testing.T) {
	permitQueues(func(modes []string, limit, n int) {
		if i := slices.IndexFunc(modes, func(m string) bool {
			return m[:min(1, len(m))] == "p" &&
				!other(m)
		}); i >= 0 && slices.ContainsFunc(modes[i:], other) {
			return // a record is never older than that of an entry ahead
		}
		all := permitPlaces(append(slices.Clone(modes), asking(n), asking(1), asking(2)))
		for leaver := range all {
			c, ok := semaphore.ParseMode(all[leaver].Mode)
			if !ok || !c.Held && !semaphore.Permits(limit, c.Version, c.N)(all[:leaver]).Admitted {
				continue
			}
			woken, fit := 0, 0
			for i := leaver + 1; i < len(all); i++ {
				c, ok := semaphore.ParseMode(all[i].Mode)
				if !ok || c.Held {
					continue
				}
				if v := semaphore.Permits(limit, c.Version, c.N)(all[:i]); !v.Admitted &&
					slices.Contains(v.Watch, all[leaver]) {
					woken++
					var ahead []string
					for _, p := range slices.Concat(all[:leaver], all[leaver+1:i]) {
						ahead = append(ahead, p.Mode)
					}
					if other(all[leaver].Mode) && sumOf(ahead, limit)+c.N <= limit {
						fit++
					}
				}
			}
			if woken > fit+1 {
				t.Fatalf("%v, limit %d: %d are woken, of which %d fit, when %d leaves", all, limit,
					woken, fit, leaver)
			}
		}
	})
}

// TestMoreThanTheLimitWaitsForAnotherLimitOnly when no entry is ahead.
func TestMoreThanTheLimitWaitsForAnotherLimitOnly(t *testing.T) {
	if v := semaphore.Permits(2, version, 3)(nil); v.Admitted || len(v.Watch) != 0 || !v.Record {
		t.Errorf("3 of 2: %+v", v)
	}
}

// TestSumsOfPermitsDoNotOverflow: with GOARCH=386 these sums would be negative.
func TestSumsOfPermitsDoNotOverflow(t *testing.T) {
	const most = semaphore.MaxLimit
	for _, modes := range [][]string{
		{semaphore.HoldingMode(most), asking(most), asking(most)},
		{semaphore.HoldingMode(most), "", ""},
		{"", "", "", "", ""},
		{asking(most), asking(most), asking(most), asking(most), asking(most)},
	} {
		for _, n := range []int{1, most} {
			ahead := permitPlaces(modes)
			v := semaphore.Permits(most, version, n)(ahead)
			if v.Admitted || len(v.Watch) != 1 || v.Watch[0] != ahead[len(ahead)-1] {
				t.Errorf("%d behind %q: %+v", n, modes, v)
			}
		}
	}
}

// TestModesOfPermitsReadBack: other modes than those of Asking and Holding do
// not parse.
func TestModesOfPermitsReadBack(t *testing.T) {
	for _, n := range []int{1, 9, 10, semaphore.MaxLimit} {
		for _, v := range []driver.Version{1, 35, 36, 1679615, 1679616, 1 << 62, -2} {
			mode := semaphore.AskingMode(n, v)
			c, ok := semaphore.ParseMode(mode)
			if !ok || c.N != n || c.Held || semaphore.AskingMode(n, c.Version) != mode || len(mode) > 16 {
				t.Errorf("Asking(%d, %d), %q, reads back as %+v, %v", n, v, mode, c, ok)
			}
			if semaphore.AskingMode(n, v+1) == mode {
				t.Errorf("%q is also the mode of the next version", mode)
			}
			ahead := []driver.Place{{Key: "a", Mode: mode}}
			if same := semaphore.Permits(n+1, v, 1)(ahead); n < semaphore.MaxLimit && !same.Admitted {
				t.Errorf("%q is unknown to a contender of the same version", mode)
			}
			if next := semaphore.Permits(n+1, v+1, 1)(ahead); next.Admitted || len(next.Watch) != 1 {
				t.Errorf("a contender of the next version overtakes %q: %+v", mode, next)
			}
		}
		if c, ok := semaphore.ParseMode(semaphore.HoldingMode(n)); !ok ||
			c != (semaphore.Contention{N: n, Held: true}) {
			t.Errorf("Holding(%d) reads back as %+v, %v", n, c, ok)
		}
	}
	for _, mode := range []string{
		"", "p", "h", "x", "r1", "p0v0001", "h0", "p-1v0001", "hx", "p1xv0001",
		"p99999999999999999999v0001", "p1", "p1v", "p1v001",
		"p1v00001", "p1v00_1", "p1v-001", "pv0001", "h1v0001", "h1000000001", "p1000000001v0001",
		"p2147483648v0001",
	} {
		if _, ok := semaphore.ParseMode(mode); ok {
			t.Errorf("%q reads as a mode of permits", mode)
		}
	}
}
