package simulation

import (
	"slices"
	"testing"
	"time"
)

// shrinks is how long a run looks for a smaller world, in real time.
const shrinks = time.Minute

// shrink looks for a world that is smaller than one that fails, and fails in
// the same way: with less time for faults, fewer clients and actors, and fewer
// kinds of faults and operations. It returns the smallest that it finds.
func shrink(t *testing.T, kind Kind, w *world, set settings) (*world, settings) {
	t.Helper()
	began, sort := time.Now(), w.sorts[0]
	smaller := func(next settings) bool {
		if time.Since(began) > shrinks {
			return false
		}
		x := play(t, kind, next)
		if !slices.Contains(x.sorts, sort) {
			return false
		}
		w, set = x, next
		return true
	}
	for smallerTime := true; smallerTime; {
		next := set
		next.until = (w.lasts / 2).Round(time.Millisecond)
		smallerTime = next.until > w.ttl/4 && smaller(next)
	}
	for found := true; found; {
		found = false
		for _, part := range w.swarm.left() {
			if !slices.Contains(w.swarm.left(), part) { // it went with its client
				continue
			}
			next := set
			next.without = append(slices.Clone(set.without), part)
			found = smaller(next) || found
		}
	}
	return w, set
}
