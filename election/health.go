package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
)

// Health tells a prober, such as Kubernetes or a load balancer, whether this
// process leads, and whether it should be restarted. The zero Health is ready
// to use: give it to Run by WithHealth, or call Show for each term. It is safe
// for concurrent use, must not be copied, and starts no goroutine.
//
// In a Kubernetes Deployment let Live be the liveness probe, and not Ready the
// readiness probe: one pod alone would be ready then, so a rollout that waits
// for its new pods keeps the old leader for ever. See docs/cookbook.md.
type Health struct {
	mu    sync.Mutex
	term  *Term             // the one that work runs under; nil when none does
	note  string            // why it is not ready; with a term: that its work was told to stop
	stuck []<-chan struct{} // of works left behind, closed when they end
}

// Show has h show a term that was won by Campaign. Call stop when the work
// under it has stopped; Live counts on that. Showing another term takes the
// place of this one. It is not for terms of Run.
func (h *Health) Show(t *Term) (stop func()) {
	h.set(t, "")
	return func() { h.done(t) }
}

// Ready returns a handler that answers 200 while this process leads: by the
// clock, and not any more when its work was told to stop. Otherwise it answers
// 503. Both come with a line of text that says why, and are not to be cached.
// Methods other than GET and HEAD get 405.
func (h *Health) Ready() http.Handler { return handler(h.ready) }

// Live returns a handler that answers 503 when this process acts as leader but
// cannot be sure of it for long, or not at all: its session is suspended, which
// means that it could not be renewed the last time; or its term was lost and
// the work still runs (not if it was resigned); or Run has left work behind
// (see WithDrain) and it still runs. Otherwise, leading or not, it answers 200.
// The rest is as for Ready.
//
// An outage of the coordination service suspends all leaders. Restarting them
// does not help then, so let the prober be patient (failureThreshold, in
// Kubernetes).
func (h *Health) Live() http.Handler { return handler(h.live) }

func handler(look func() (ok bool, text string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		ok, text := look()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, text+"\n")
		}
	})
}

func (h *Health) ready() (bool, string) {
	h.mu.Lock()
	t, note := h.term, h.note
	h.mu.Unlock()
	if t != nil && note == "" {
		// Asked without the lock: it may end the session, which calls
		// observers.
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
	case t != h.term: // another one since: it has had no time to get into trouble
	case len(h.stuck) > 0:
		return false, "work was left behind and still runs"
	case over != nil && !errors.Is(over, coordinator.ErrReleased):
		return false, "the term is over, but its work still runs: " + fmt.Sprint(over)
	case state == event.StateSuspended:
		return false, "leading, but the session cannot be renewed"
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

// What follows is told by Run.

// waiting: a candidate without a term. err is why it lost the last one or did
// not get it, until it is queued again.
func (h *Health) waiting(err error) {
	note := "candidate"
	if err != nil {
		note = fmt.Sprint(err)
	}
	h.set(nil, note)
}

func (h *Health) drains(ctx context.Context) {
	note := "told to stop: " + fmt.Sprint(context.Cause(ctx)) // Sprint outlives a cause that panics
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note = note
}

// done: the work under t has returned.
func (h *Health) done(t *Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term == t {
		h.term, h.note = nil, ""
	}
}

// leaves: the work under the term has not returned, and nobody waits for it.
func (h *Health) leaves(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stuck = append(h.stuck, j.gone)
}

func (h *Health) set(t *Term, note string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term, h.note = t, note
}
