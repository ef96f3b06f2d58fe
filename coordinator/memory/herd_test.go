package memory_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// joinAndWait is a plain mutex: each waiter watches its predecessor.
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

func TestTwoThousandWaitersAreServedInOrderWithoutAHerd(t *testing.T) {
	const n = 2_000
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
				order = append(order, own.Token) // no lock: the mutex guards it
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
