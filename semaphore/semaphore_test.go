package semaphore_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

func TestBigRequestAtTheHeadIsNotOvertaken(t *testing.T) {
	parties(t, 3, func(a, b party) {
		one, other := a.acquire(1), a.acquire(1)
		big, small := b.begin(3), a.begin(1)
		small.waits() // although one is free
		if _, err := a.s.TryAcquire(a.Context(), 1); !errors.Is(err, coordinator.ErrTaken) {
			t.Errorf("TryAcquire behind a waiter = %v", err)
		}
		a.release(one)
		big.waits()
		small.waits()
		a.release(other)
		all := big.granted()
		small.waits()
		b.release(all)
		a.release(small.granted())
		a.empty()
	})
}

// TestWhicheverHolderLeavesTheHeadIsAdmitted: a waiter that watches only one
// holder would starve. FIELD 58
func TestWhicheverHolderLeavesTheHeadIsAdmitted(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1},
		{2, 1, 0}} {
		parties(t, 3, func(a, b party) {
			held := []*semaphore.Permit{a.acquire(1), b.acquire(1), a.acquire(1)}
			waiting := []*wait{b.begin(1), a.begin(1), b.begin(1)}
			for i, leaver := range order {
				a.release(held[leaver])
				permit := waiting[i].granted()
				defer a.release(permit)
				for _, w := range waiting[i+1:] {
					w.waits()
				}
			}
		})
	}
}

// TestWaiterThatGivesUpLetsThoseBehindPass at once if they fit beside the
// holders.
func TestWaiterThatGivesUpLetsThoseBehindPass(t *testing.T) {
	parties(t, 3, func(a, b party) {
		two := a.acquire(2)
		big, small, next := b.begin(3), a.begin(1), b.begin(1)
		big.cancel(nil)
		big.failed(context.Canceled)
		one := small.granted()
		next.waits()
		small.cancel(nil) // the context bounds the wait, not the permit
		if one.Err() != nil || len(a.modes()) != 3 {
			t.Errorf("%v, queue %v", one.Err(), a.modes())
		}
		a.release(two, one)
		b.release(next.granted())
		a.empty()
	})
}

// TestPermitsDoNotReenter: a holder of all permits that asks for more waits for
// itself until its context ends.
func TestPermitsDoNotReenter(t *testing.T) {
	parties(t, 2, func(a, _ party) {
		p := a.acquire(1)
		inner, err := a.s.Acquire(p.Context(), 1)
		if err != nil || inner.Token() == p.Token() {
			t.Fatalf("%v, %v: want another grant", inner, err)
		}
		ctx, cancel := context.WithTimeout(inner.Context(), time.Second)
		defer cancel()
		_, err = a.s.Acquire(ctx, 1)
		wantErr(t, err, context.DeadlineExceeded)
		a.release(p, inner)
		a.empty()
	})
}

// TestWaiterThatWasRemovedFailsAndOthersContinue: it fails at its next read.
// FIELD 17
func TestWaiterThatWasRemovedFailsAndOthersContinue(t *testing.T) {
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

// TestListingShowsHoldersAndWaiters in order, with their payloads. FIELD 53, 54
func TestListingShowsHoldersAndWaiters(t *testing.T) {
	parties(t, 5, func(a, b party) {
		if l := a.list(); l.Limit != 0 || l.Held != 0 || l.Free() != 0 || len(l.Contenders) != 0 {
			t.Errorf("before the first request: %+v", l)
		}
		s, err := semaphore.New(a.client, "jobs", 5, semaphore.WithIdentity("alice"),
			semaphore.WithPayload([]byte("batch 7")))
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Acquire(a.Context(), 4)
		check(t, err)
		time.Sleep(time.Minute)
		w := b.begin(3)
		l := b.list()
		if l.Limit != 5 || l.Held != 4 || l.Free() != 1 || len(l.Contenders) != 2 {
			t.Fatalf("listing %+v", l)
		}
		if c := l.Contenders[0]; c.Permits != 4 || !c.Holding || c.Identity != "alice" ||
			!bytes.Equal(c.Payload, []byte("batch 7")) ||
			c.Token != p.Token() || c.Session != a.session() || time.Since(c.Since) != time.Minute {
			t.Errorf("holder %+v", c)
		}
		if c := l.Contenders[1]; c.Permits != 3 || c.Holding || c.Identity != b.client.Identity() ||
			time.Since(c.Since) != 0 {
			t.Errorf("waiter %+v", c)
		}
		a.release(p)
		b.release(w.granted())
		a.empty()
	})
}

// TestForeignEntryShutsTheLineBehindIt: what it has is not known.
func TestForeignEntryBlocksTheQueueBehindIt(t *testing.T) {
	parties(t, 5, func(a, b party) {
		p := a.acquire(1)
		stray := a.svc.AddForeign(queue)
		w := b.begin(1)
		w.waits()
		if l := a.list(); l.Held != 1 || l.Free() != 0 || len(l.Contenders) != 3 ||
			l.Contenders[1].Permits != 0 || l.Contenders[1].Holding {
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
