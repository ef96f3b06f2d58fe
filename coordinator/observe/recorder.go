package observe

import (
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator"
)

// Recorder is an observer that keeps all events, for tests. The zero Recorder is ready; it is safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	events []coordinator.Event
}

// Observe implements coordinator.Observer.
func (r *Recorder) Observe(e coordinator.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Count is the number of events of a kind so far: of recipes of the named kinds ("mutex"), if there are any names, and else of all.
func (r *Recorder) Count(kind coordinator.EventKind, recipes ...string) (n int) {
	for _, e := range r.Events() {
		if e.Kind != kind {
			continue
		}
		if of, _, _ := e.Line.Split(); len(recipes) == 0 || slices.Contains(recipes, of) {
			n++
		}
	}
	return n
}

// Events returns the events so far, in the order in which they were told.
func (r *Recorder) Events() []coordinator.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
