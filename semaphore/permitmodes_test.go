package semaphore_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/semaphore"
)

// TestMoreThanTheLimitWaitsForAnotherLimitOnly once nobody is ahead any more.
func TestMoreThanTheLimitWaitsForAnotherLimitOnly(t *testing.T) {
	if v := semaphore.Permits(2, version, 3)(nil); v.Admitted || len(v.Watch) != 0 || !v.Record {
		t.Errorf("3 of 2: %+v", v)
	}
}

// TestPermitsThatAreMoreThanAnIntAreMore: with GOARCH=386 the sums of these are negative.
func TestPermitsThatAreMoreThanAnIntAreMore(t *testing.T) {
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

// TestModesOfPermitsReadBack: what is not written by Asking or Holding is about no permits.
func TestModesOfPermitsReadBack(t *testing.T) {
	for _, n := range []int{1, 9, 10, semaphore.MaxLimit} {
		for _, v := range []driver.Version{1, 35, 36, 1679615, 1679616, 1 << 62, -2} {
			mode := semaphore.AskingMode(n, v)
			c, ok := semaphore.ParseMode(mode)
			if !ok || c.N != n || c.Held || semaphore.AskingMode(n, c.Version) != mode || len(mode) > 16 {
				t.Errorf("Asking(%d, %d), %q, reads back as %+v, %v", n, v, mode, c, ok)
			}
			if semaphore.AskingMode(n, v+1) == mode {
				t.Errorf("%q does not tell the next version", mode)
			}
			ahead := []driver.Place{{Key: "a", Mode: mode}}
			if same := semaphore.Permits(n+1, v, 1)(ahead); n < semaphore.MaxLimit && !same.Admitted {
				t.Errorf("%q is unknown to one who came by the same version", mode)
			}
			if next := semaphore.Permits(n+1, v+1, 1)(ahead); next.Admitted || len(next.Watch) != 1 {
				t.Errorf("one who came by the next version goes past %q: %+v", mode, next)
			}
		}
		if c, ok := semaphore.ParseMode(semaphore.HoldingMode(n)); !ok || c != (semaphore.Contention{N: n, Held: true}) {
			t.Errorf("Holding(%d) reads back as %+v, %v", n, c, ok)
		}
	}
	for _, mode := range []string{
		"", "p", "h", "x", "r1", "p0v0001", "h0", "p-1v0001", "hx", "p1xv0001", "p99999999999999999999v0001", "p1", "p1v", "p1v001",
		"p1v00001", "p1v00_1", "p1v-001", "pv0001", "h1v0001", "h1000000001", "p1000000001v0001", "p2147483648v0001",
	} {
		if _, ok := semaphore.ParseMode(mode); ok {
			t.Errorf("%q reads as a mode of permits", mode)
		}
	}
}
