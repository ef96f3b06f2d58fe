package partition

import (
	"net/http"
	"sync/atomic"

	"github.com/baton-go/baton/internal/probe"
)

// Health has HTTP handlers for the probes of a process that runs a partition.
// The zero Health is ready to use, with [WithHealth]: one Partition each. It
// must not be copied.
type Health struct{ of atomic.Pointer[Partition] }

func (h *Health) show(p *Partition) { h.of.Store(p) }

// Ready returns a handler that answers 200 while this process is a member and
// holds all shards that the plan gives it, perhaps none, else 503; the body
// says why. As a readiness probe it makes a rollout wait until each new process
// has its shards. A member that settles (see WithSettle) is ready without any.
func (h *Health) Ready() http.Handler {
	return probe.Handler(func() (bool, string) {
		if p := h.of.Load(); p != nil {
			return p.status.Ready()
		}
		return false, "not a member"
	})
}

// Live returns a handler that answers 503 while the last renewal of a session
// that holds shards is not acknowledged, and while work runs after the loss of
// its shard or ErrOverrun; else 200. It fails during an outage of the service,
// when a restart does not help: failureThreshold × periodSeconds must exceed
// the TTL.
func (h *Health) Live() http.Handler {
	return probe.Handler(func() (bool, string) {
		if p := h.of.Load(); p != nil {
			return p.status.Live()
		}
		return true, "ok"
	})
}
