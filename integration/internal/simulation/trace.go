package simulation

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// traced is an entry of the trace. It is formatted only when the trace is
// printed.
type traced struct {
	at     time.Duration
	format string
	args   []any
	text   string
}

// log adds to the trace. The caller holds w.mu.
func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, traced{at: w.now(), format: format, args: args})
}

// say is log for callers that do not hold w.mu.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log(format, args...)
}

// violation records a violation. The caller holds w.mu.
func (w *world) violation(format string, args ...any) {
	w.log("VIOLATION: "+format, args...)
	w.sorts = append(w.sorts, format)
	w.bad = append(w.bad, fmt.Sprintf("at %v: ", w.now())+fmt.Sprintf(format, args...))
}

// blame is violation for callers that do not hold w.mu.
func (w *world) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violation(format, args...)
}

// sum returns a hash of the trace. Events of the same instant have no order.
func (w *world) sum() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.trace {
		w.trace[i].text = fmt.Sprintf(w.trace[i].format, w.trace[i].args...)
	}
	slices.SortStableFunc(w.trace, func(a, b traced) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		switch {
		case a.text < b.text:
			return -1
		case a.text > b.text:
			return 1
		}
		return 0
	})
	h := fnv.New64a()
	for _, e := range w.trace {
		fmt.Fprintf(h, "%d %s\n", e.at, e.text)
	}
	return h.Sum64()
}
