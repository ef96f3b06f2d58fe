package semaphore_test

import (
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// TestRemovedWaiterForPermitsFails while holders are ahead, as other waiters
// do: at once, or after a second if it has just joined.
func TestRemovedWaiterForPermitsFails(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, after := range []time.Duration{0, time.Minute} {
			parties(t, 3, func(a, b party) {
				held := a.acquire(3)
				var ahead *wait
				at := 1
				if !first {
					ahead, at = a.begin(3), 2
				}
				removed := b.begin(2)
				time.Sleep(after)
				a.svc.Remove(queue, a.svc.Snapshot(queue)[at].Key)
				if after == 0 {
					time.Sleep(time.Second)
				}
				removed.failed(coordinator.ErrRemoved)
				a.release(held)
				if ahead != nil {
					a.release(ahead.granted())
				}
				a.empty()
			})
		}
	}
}
