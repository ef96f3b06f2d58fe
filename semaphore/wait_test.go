package semaphore_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator"
)

// TestWaiterThatWasRemovedFailsAndOthersGoOn: it finds out when it would look next.
// FIELD 17
func TestWaiterThatWasRemovedFailsAndOthersGoOn(t *testing.T) {
	for _, first := range []bool{true, false} {
		parties(t, 3, func(a, b party) {
			held := a.acquire(3)
			var ahead *wait
			at := 1
			if !first {
				ahead, at = a.begin(3), 2
			}
			removed, behind := b.begin(2), a.begin(2)
			a.svc.Remove(queue, a.svc.Snapshot(queue)[at].Key)
			behind.waits()
			a.release(held)
			if ahead != nil {
				a.release(ahead.granted())
			}
			removed.failed(coordinator.ErrRemoved)
			a.release(behind.granted())
			a.empty()
		})
	}
}
