package recipes_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// TestMoreThanTheLimitWaitsForAnotherLimitOnly once nobody is ahead any more.
func TestMoreThanTheLimitWaitsForAnotherLimitOnly(t *testing.T) {
	if v := recipes.Permits(2, version, 3)(nil); v.Admitted || len(v.Watch) != 0 || !v.Record {
		t.Errorf("3 of 2: %+v", v)
	}
}

// TestPermitsThatAreMoreThanAnIntAreMore: with GOARCH=386 the sums of these are negative.
func TestPermitsThatAreMoreThanAnIntAreMore(t *testing.T) {
	const most = recipes.MaxPermits
	for _, modes := range [][]string{
		{recipes.Holding(most), asking(most), asking(most)},
		{recipes.Holding(most), "", ""},
		{"", "", "", "", ""},
		{asking(most), asking(most), asking(most), asking(most), asking(most)},
	} {
		for _, n := range []int{1, most} {
			ahead := permitPlaces(modes)
			v := recipes.Permits(most, version, n)(ahead)
			if v.Admitted || len(v.Watch) != 1 || v.Watch[0] != ahead[len(ahead)-1] {
				t.Errorf("%d behind %q: %+v", n, modes, v)
			}
		}
	}
}

// TestModesOfPermitsReadBack: what is not written by Asking or Holding is about no permits.
func TestModesOfPermitsReadBack(t *testing.T) {
	for _, n := range []int{1, 9, 10, recipes.MaxPermits} {
		for _, v := range []driver.Version{1, 35, 36, 1679615, 1679616, 1 << 62, -2} {
			mode := recipes.Asking(n, v)
			c, ok := recipes.PermitsOf(mode)
			if !ok || c.N != n || c.Held || recipes.Asking(n, c.Version) != mode || len(mode) > 16 {
				t.Errorf("Asking(%d, %d), %q, reads back as %+v, %v", n, v, mode, c, ok)
			}
			if recipes.Asking(n, v+1) == mode {
				t.Errorf("%q does not tell the next version", mode)
			}
			ahead := []driver.Place{{Key: "a", Mode: mode}}
			if same := recipes.Permits(n+1, v, 1)(ahead); n < recipes.MaxPermits && !same.Admitted {
				t.Errorf("%q is unknown to one who came by the same version", mode)
			}
			if next := recipes.Permits(n+1, v+1, 1)(ahead); next.Admitted || len(next.Watch) != 1 {
				t.Errorf("one who came by the next version goes past %q: %+v", mode, next)
			}
		}
		if c, ok := recipes.PermitsOf(recipes.Holding(n)); !ok || c != (recipes.Contention{N: n, Held: true}) {
			t.Errorf("Holding(%d) reads back as %+v, %v", n, c, ok)
		}
	}
	for _, mode := range []string{
		"", "p", "h", "x", "r1", "p0v0001", "h0", "p-1v0001", "hx", "p1xv0001", "p99999999999999999999v0001", "p1", "p1v", "p1v001",
		"p1v00001", "p1v00_1", "p1v-001", "pv0001", "h1v0001", "h1000000001", "p1000000001v0001", "p2147483648v0001",
	} {
		if _, ok := recipes.PermitsOf(mode); ok {
			t.Errorf("%q reads as a mode of permits", mode)
		}
	}
}
