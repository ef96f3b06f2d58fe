package election

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/probe"
)

// Health has HTTP handlers for probes: see docs/cookbook.md. The zero Health is
// ready to use, with [WithHealth] or Show.
type Health struct {
	mu    sync.Mutex
	term  *Term             // of the work that runs; nil when none does
	note  string            // why it is not ready; with a term: its work has to stop
	stall bool              // that is since it makes no progress
	stuck []<-chan struct{} // one per job that Run gave up, closed when it ends
}

// Show makes h report a term of Campaign. Call stop when its work has stopped.
func (h *Health) Show(t *Term) (stop func()) {
	h.set(t, "")
	return func() { h.done(t) }
}

// Ready returns a handler that answers 200 while this process leads and its
// work shall not stop, else 503. As readiness it would block each rollout.
func (h *Health) Ready() http.Handler { return probe.Handler(h.ready) }

// Live returns a handler that answers 503 while the last renewal is not
// acknowledged, and while work runs after a lost term, ErrStalled or
// ErrOverrun: failureThreshold × periodSeconds must exceed the TTL.
func (h *Health) Live() http.Handler { return probe.Handler(h.live) }

func (h *Health) ready() (bool, string) {
	h.mu.Lock()
	t, note := h.term, h.note
	h.mu.Unlock()
	if t != nil && note == "" {
		// Without the mutex: Err may end the session, which calls observers.
		if err := t.Err(); err != nil {
			note = fmt.Sprint(err)
		}
	}
	switch {
	case t != nil && note == "":
		return true, fmt.Sprintf("leading, token %d", t.Token())
	case note == "":
		return false, "not leading"
	}
	return false, "not leading: " + note
}

func (h *Health) live() (bool, string) {
	h.mu.Lock()
	t := h.term
	h.mu.Unlock()
	var state event.State
	var over error
	if t != nil {
		over = t.Err()
		state, _ = t.hold.State()
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	h.stuck = slices.DeleteFunc(h.stuck, ended)
	switch {
	case t != h.term: // a new term, which cannot be in trouble yet
	case len(h.stuck) > 0:
		return false, "work still runs after its drain"
	case over != nil && !errors.Is(over, coordinator.ErrReleased):
		return false, "the term is over, but its work still runs: " + fmt.Sprint(over)
	case h.stall:
		return false, "the work makes no progress"
	case state == event.StateSuspended:
		return false, "leading, but the session is suspended"
	}
	return true, "ok"
}

func ended(job <-chan struct{}) bool {
	select {
	case <-job:
		return true
	default:
		return false
	}
}

// Run calls the methods below.

// waiting: a candidate without a term. err is why it has none, until it is
// queued again.
func (h *Health) waiting(err error) {
	note := "candidate"
	if err != nil {
		note = fmt.Sprint(err)
	}
	h.set(nil, note)
}

func (h *Health) drains(ctx context.Context, stalled bool) {
	note := "stopping: " + fmt.Sprint(context.Cause(ctx)) // Sprint survives a cause that panics
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note, h.stall = note, stalled
}

// done: the work under t has returned.
func (h *Health) done(t *Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term == t {
		h.term, h.note, h.stall = nil, "", false
	}
}

// leave: the work of the term has not returned, and Run does not wait for it.
func (h *Health) leave(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stuck = append(h.stuck, j.gone)
}

func (h *Health) set(t *Term, note string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term, h.note, h.stall = t, note, false
}
