package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// figures are the counts of a world or of a run.
type figures struct {
	faults map[string]int
	states map[string]int // how often they were reached
	// From the end of the faults, or from the call if that was later, to a
	// grant.
	slowest time.Duration
}

func newFigures() figures { return figures{faults: map[string]int{}, states: map[string]int{}} }

// totals are the figures of all worlds of a run.
type totals struct {
	figures
	seeds              uint64
	violations, failed int
}

func (sum *totals) add(w *world) {
	sum.seeds++
	sum.slowest = max(sum.slowest, w.slowest)
	sum.violations += len(w.bad)
	if len(w.bad) > 0 {
		sum.failed++
	}
	for kind, n := range w.faults {
		sum.faults[kind] += n
	}
	for state, n := range w.states {
		sum.states[state] += n
	}
}

func (sum *totals) String() string {
	reached := maps.Clone(sum.states)
	maps.DeleteFunc(reached, func(state string, _ int) bool { return strings.Contains(state, " met: ") })
	return fmt.Sprintf("violations: %d; slowest admission after the faults: %v\nstates: %s\nfaults: %s",
		sum.violations, sum.slowest.Round(time.Millisecond), list(reached), list(sum.faults))
}

// list prints counts.
func list(counts map[string]int) string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	return strings.Join(all, ", ")
}
