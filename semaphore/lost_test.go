package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// TestRemovedPermitEndsWithItsCause, early or late in its life, and takes nothing from others.
func TestRemovedPermitEndsWithItsCause(t *testing.T) {
	for _, age := range []time.Duration{0, 100 * time.Millisecond, 250 * time.Millisecond, time.Minute} {
		parties(t, 3, func(a, b party) {
			p, other := a.acquire(2), a.acquire(1)
			w := b.begin(2)
			time.Sleep(age)
			a.svc.Remove(queue, a.svc.Snapshot(queue)[0].Key)
			q := w.granted()
			time.Sleep(time.Second)
			synctest.Wait()
			wantErr(t, context.Cause(p.Context()), coordinator.ErrRemoved)
			wantErr(t, p.Err(), coordinator.ErrRemoved)
			wantErr(t, p.ReleasePart(a.Context(), 1), coordinator.ErrRemoved)
			_, err := p.Slots(a.Context())
			wantErr(t, err, coordinator.ErrRemoved)
			wantErr(t, p.Release(a.Context()), coordinator.ErrRemoved)
			if q.Err() != nil || other.Err() != nil {
				t.Errorf("others were disturbed: %v, %v", q.Err(), other.Err())
			}
			a.release(q, other)
			a.empty()
		})
	}
}
