package interop_test

import (
	"fmt"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/mutex"
)

// On etcd each waiter has its own lease. All are renewed, and released when
// they are no longer needed.
func TestWaitersOfOneSessionOutliveTheTTL(t *testing.T) {
	t.Parallel()
	zoo, etcd := newZKSite(t), newEtcdSite(t)
	for _, url := range []string{
		fmt.Sprintf("etcd://%s?layout=concurrency&ttl=%v", etcd.addresses(), brief),
		fmt.Sprintf("zk://%s?layout=curator&ttl=%v", zoo.addresses(), brief),
	} {
		c, ctx := batonClient(t, url), bounded(t)
		m, err := mutex.New(c, "/interop/patient")
		check(t, err)
		first, err := m.Lock(ctx)
		check(t, err)
		const waiters = 20
		order := make(chan int, waiters)
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				l, err := m.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				check(t, l.Unlock(ctx))
			})
			awaitContenders(t, m, i+2)
		}
		await.For(first.Context(), 2*brief)
		check(t, first.Err())
		check(t, first.Unlock(ctx))
		wg.Wait()
		for i := range waiters {
			if got := <-order; got != i {
				t.Errorf("hold %d is that of %d", i, got)
			}
		}
	}
}

// The session has fewer contenders in a queue than before.
func TestUnusedLeasesAreReleased(t *testing.T) {
	s := newEtcdSite(t)
	ec, ctx := s.client(t), bounded(t)
	before, err := ec.Leases(ctx)
	check(t, err)
	known := map[clientv3.LeaseID]bool{}
	for _, l := range before.Leases {
		known[l.ID] = true
	}
	fresh := func() (n int) {
		now, err := ec.Leases(ctx)
		check(t, err)
		for _, l := range now.Leases {
			if !known[l.ID] {
				n++
			}
		}
		return n
	}
	m, err := mutex.New(batonClient(t, fmt.Sprintf("etcd://%s?layout=concurrency&ttl=%v", s.addresses(), brief)), "/interop/unused-leases")
	check(t, err)
	l, err := m.Lock(ctx)
	check(t, err)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			l, err := m.Lock(ctx)
			check(t, err)
			check(t, l.Unlock(ctx))
		})
		awaitContenders(t, m, i+2)
	}
	if n := fresh(); n != 6 {
		t.Errorf("%d leases for six contenders", n)
	}
	check(t, l.Unlock(ctx))
	wg.Wait()
	await.Until(t, "the condition", func() bool { return fresh() == 1 })
}
