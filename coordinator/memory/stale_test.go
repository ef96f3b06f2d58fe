package memory_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// departures lets five contenders join ahead of another, and leave one by one.
// It returns the size of the view after each. watched calls Watch before.
func departures(t *testing.T, watched bool, opts ...memory.Option) []int {
	t.Helper()
	svc := memory.NewService(opts...)
	a, b := open(t, svc.Driver()), open(t, svc.Driver())
	var all []driver.Place
	for range 5 {
		all = append(all, join(t, a).Place)
	}
	own := join(t, b)
	var sizes []int
	for left := 1; left <= len(all); left++ {
		must(t, a.Leave(t.Context(), queue, all[left-1]))
		if watched {
			must(t, b.Watch(t.Context(), queue, all[left-1]))
		}
		v, err := b.Ahead(t.Context(), queue, own.Place)
		must(t, err)
		view := v.Ahead
		// Each state of this queue is a suffix of the first.
		if !slices.Equal(view, all[len(all)-len(view):]) || len(view) < len(all)-left {
			t.Fatalf("after %d leavings the view is %v, want a suffix of %v", left, view, all)
		}
		sizes = append(sizes, len(view))
	}
	return sizes
}

func TestStaleViewsShowEntriesThatHaveLeft(t *testing.T) {
	current := []int{4, 3, 2, 1, 0}
	if got := departures(t, false); !slices.Equal(got, current) {
		t.Errorf("views without the option have sizes %v, want %v", got, current)
	}
	stale := 0
	for seed := range uint64(10) {
		got := departures(t, false, memory.WithStaleViews(seed))
		if !slices.Equal(got, current) {
			stale++
		}
		if again := departures(t, false, memory.WithStaleViews(seed)); !slices.Equal(got, again) {
			t.Errorf("seed %d gives views of sizes %v, then %v", seed, got, again)
		}
		if got := departures(t, true, memory.WithStaleViews(seed)); !slices.Equal(got, current) {
			t.Errorf("seed %d: views after Watch have sizes %v, want %v", seed, got, current)
		}
	}
	if stale < 8 {
		t.Errorf("only %d of 10 seeds gave a stale view", stale)
	}
}

func TestStaleViewsAreLimitedInAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService(memory.WithStaleViews(1))
		s := open(t, svc.Driver())
		join(t, s) // stays, so that the queue is never empty
		var coming []driver.Joined
		for range 500 {
			coming = append(coming, join(t, s))
		}
		own := join(t, s)
		for i, j := range coming {
			must(t, s.Leave(t.Context(), queue, j.Place))
			v, err := s.Ahead(t.Context(), queue, own.Place)
			must(t, err)
			view := v.Ahead
			if least := len(coming) - i; len(view) < least || len(view) > least+64 {
				t.Fatalf("view of %d places, want %d to %d", len(view), least, least+64)
			}
		}
	})
}
