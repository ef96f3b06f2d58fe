package semaphore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// TestListingShowsHoldersAndWaiters in order, with what they chose to show.
// FIELD 53, 54
func TestListingShowsHoldersAndWaiters(t *testing.T) {
	parties(t, 5, func(a, b party) {
		if l := a.list(); l.Limit != 0 || l.Held != 0 || l.Free() != 0 || len(l.Contenders) != 0 {
			t.Errorf("before anybody asked: %+v", l)
		}
		s, err := semaphore.New(a.client, "jobs", 5, semaphore.WithIdentity("alice"), semaphore.WithPayload([]byte("batch 7")))
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Acquire(a.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w := b.begin(3)
		l := b.list()
		if l.Limit != 5 || l.Held != 4 || l.Free() != 1 || len(l.Contenders) != 2 {
			t.Fatalf("listing %+v", l)
		}
		if c := l.Contenders[0]; c.Permits != 4 || !c.Holding || c.Identity != "alice" || !bytes.Equal(c.Payload, []byte("batch 7")) ||
			c.Token != p.Token() || c.Session != a.session() || time.Since(c.Since) != time.Minute {
			t.Errorf("holder %+v", c)
		}
		if c := l.Contenders[1]; c.Permits != 3 || c.Holding || c.Identity != b.client.Identity() || time.Since(c.Since) != 0 {
			t.Errorf("waiter %+v", c)
		}
		a.release(p)
		b.release(w.granted())
		a.empty()
	})
}

// TestForeignEntryShutsTheLineBehindIt: what it has is not known.
func TestForeignEntryShutsTheQueueBehindIt(t *testing.T) {
	parties(t, 5, func(a, b party) {
		p := a.acquire(1)
		stray := a.svc.AddForeign(queue)
		w := b.begin(1)
		w.waits()
		if l := a.list(); l.Held != 1 || l.Free() != 0 || len(l.Contenders) != 3 || l.Contenders[1].Permits != 0 || l.Contenders[1].Holding {
			t.Errorf("listing %+v", l)
		}
		_, err := a.s.TryAcquire(a.Context(), 1)
		wantErr(t, err, coordinator.ErrTaken)
		a.release(p)
		w.waits()
		if l := a.list(); l.Held != 0 || l.Free() != 0 {
			t.Errorf("listing %+v, %d free", l, l.Free())
		}
		a.svc.Remove(queue, stray.Key)
		b.release(w.granted())
		a.empty()
	})
}
