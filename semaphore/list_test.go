package semaphore_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/semaphore"
)

// TestTryAcquireThatFailsSaysWhoAndLeavesNothing that could stand in anybody's way.
// FIELD 31, 55
func TestTryAcquireThatFailsSaysWhoAndLeavesNothing(t *testing.T) {
	parties(t, 3, func(a, b party) {
		p := a.acquire(2)
		b.session()
		time.Sleep(time.Minute)
		before := a.svc.Stats()
		_, err := b.s.TryAcquire(a.Context(), 2)
		var taken *recipes.TakenError
		if !errors.As(err, &taken) || taken.Holder.Identity != a.client.Identity() || taken.Holder.Token != p.Token() {
			t.Errorf("TryAcquire = %v", err)
		}
		wantErr(t, err, coordinator.ErrTaken)
		after := a.svc.Stats()
		if after.Entries != before.Entries || after.Watches != before.Watches || after.Wakeups != before.Wakeups ||
			after.Requests["join"] != before.Requests["join"] {
			t.Errorf("TryAcquire left something: %+v, then %+v", before, after)
		}
		one, err := b.s.TryAcquire(a.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		a.release(p, one)
		a.empty()
	})
}

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

// TestForeignEntryShutsTheQueueBehindIt: what it has is not known.
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

// TestTryAcquiresAtOnceTakeNoMoreThanThereIs, and those who come second leave.
func TestTryAcquiresAtOnceTakeNoMoreThanThereIs(t *testing.T) {
	for round := range 10 {
		parties(t, 3, func(a, b party) {
			a.link.Delay(time.Millisecond, time.Duration(round)*time.Millisecond)
			b.link.Delay(time.Duration(round%3)*time.Millisecond, time.Millisecond)
			var mu sync.Mutex
			var got []*semaphore.Permit
			var wg sync.WaitGroup
			for i := range 6 {
				p := []party{a, b}[i%2]
				wg.Go(func() {
					permit, err := p.s.TryAcquire(p.Context(), 2)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						got = append(got, permit)
					} else {
						wantErr(t, err, coordinator.ErrTaken)
					}
				})
			}
			wg.Wait()
			if len(got) > 1 {
				t.Errorf("%d hold two of three", len(got))
			}
			time.Sleep(time.Second)
			if n := len(a.modes()); n != len(got) {
				t.Errorf("%d entries, %d holders", n, len(got))
			}
			a.release(got...)
			a.release(a.acquire(3))
		})
	}
}

func TestManyWaitersAreListedInOrder(t *testing.T) {
	parties(t, 4, func(a, b party) {
		p := a.acquire(4)
		var waiting []*wait
		for i := range 20 {
			waiting = append(waiting, b.begin(1+i%4))
		}
		l := a.list()
		if len(l.Contenders) != 21 || l.Held != 4 || l.Free() != 0 {
			t.Errorf("%d of %d held, %d contenders", l.Held, l.Limit, len(l.Contenders))
		}
		var last coordinator.Token
		for i, c := range l.Contenders {
			if c.Token <= last || i > 0 && c.Permits != 1+(i-1)%4 || c.Holding != (i == 0) {
				t.Errorf("contender %d: %+v", i, c)
			}
			last = c.Token
		}
		a.release(p)
		for _, w := range waiting {
			b.release(w.granted())
		}
		a.empty()
	})
}
