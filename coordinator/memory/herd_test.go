package memory_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// joinAndWait is a plain mutex on one queue: each waiter watches the one ahead.
func joinAndWait(ctx context.Context, s session, own driver.Joined) error {
	for {
		view, err := s.Ahead(ctx, queue, own.Place)
		if err != nil || len(view.Ahead) == 0 {
			return err
		}
		if err := s.Watch(ctx, queue, view.Ahead[len(view.Ahead)-1]); err != nil {
			return err
		}
	}
}

func TestTenThousandWaitersAreServedInOrderWithoutAHerd(t *testing.T) {
	n := 10_000
	if raceEnabled {
		n = 2_000 // the detector makes each step ten times as dear
	}
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		s := open(t, svc.Driver())
		holder := join(t, s)
		var order []driver.Token
		var all sync.WaitGroup
		for range n {
			own := join(t, s)
			all.Go(func() {
				if err := joinAndWait(t.Context(), s, own); err != nil {
					t.Errorf("waiting: %v", err)
				}
				order = append(order, own.Token) // one at a time is the claim
				if err := s.Leave(t.Context(), queue, own.Place); err != nil {
					t.Errorf("Leave: %v", err)
				}
			})
		}
		synctest.Wait()
		if watches := svc.Stats().Watches; watches != n {
			t.Fatalf("%d watches, want %d", watches, n)
		}
		must(t, s.Leave(t.Context(), queue, holder.Place))
		all.Wait()
		if len(order) != n || !slices.IsSorted(order) {
			t.Errorf("%d served, in order: %t", len(order), slices.IsSorted(order))
		}
		if stats := svc.Stats(); stats.Wakeups != n || stats.Entries != 0 || stats.Watches != 0 {
			t.Errorf("stats %+v, want %d wake-ups, no entry and no watch", stats, n)
		}
	})
}

func TestManyWatchersOfOnePlaceAreAllTold(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		const n = 5_000
		own := join(t, w.s)
		ctx, cancel := context.WithCancel(t.Context())
		var told, gaveUp atomic.Int32
		var all sync.WaitGroup
		for i := range n {
			ctx := ctx
			if i%2 == 0 {
				ctx = t.Context()
			}
			all.Go(func() {
				if w.s.Watch(ctx, queue, own.Place) == nil {
					told.Add(1)
				} else {
					gaveUp.Add(1)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if watches := w.svc.Stats().Watches; watches != n/2 {
			t.Errorf("%d watches after half were given up, want %d", watches, n/2)
		}
		must(t, w.s.Leave(t.Context(), queue, own.Place))
		all.Wait()
		if told.Load() != n/2 || gaveUp.Load() != n/2 {
			t.Errorf("%d told, %d gave up, want %d each", told.Load(), gaveUp.Load(), n/2)
		}
	})
}

func BenchmarkJoinLeave(b *testing.B) {
	s, err := memory.NewService().Driver().Open(b.Context(), ttl)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		j, err := s.Join(b.Context(), queue, contender())
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Leave(b.Context(), queue, j.Place); err != nil {
			b.Fatal(err)
		}
	}
}
