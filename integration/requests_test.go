package integration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

func TestUncontendedLockAndUnlockAreOneRequestEach(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c := s.meter(t, 10*time.Second)
		m := newMutex(t, c.Client, servers.Name(t))
		unlock(t, lock(t, m)) // opens the session and creates the parent
		const pairs = 5
		spend(t, c, "pairs of Lock and Unlock, re-entered once each", 2*pairs, func() {
			for range pairs {
				l := lock(t, m)
				inner, err := m.Lock(l.Context()) // free
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, inner)
				unlock(t, l)
			}
		})
	})
}

func TestFailedTryLockLeavesNoContenderAndNoWatch(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		holder, waiter := s.meter(t, 10*time.Second), s.meter(t, 10*time.Second)
		c := s.meter(t, 10*time.Second)
		name := servers.Name(t)
		l := lock(t, newMutex(t, holder.Client, name))
		waiting := make(chan *mutex.Lock, 1)
		m := newMutex(t, waiter.Client, name)
		go func() {
			if l, err := m.Lock(context.Background()); err == nil {
				waiting <- l
			}
		}()
		await.Until(t, "a waiter behind the holder", func() bool { return inQueue(t, m) == 2 && waiter.watches() > 0 })
		probe := newMutex(t, c.Client, name)
		if n := inQueue(t, probe); n != 2 { // opens the session, too
			t.Fatalf("%d in the queue", n)
		}
		quiesce(t, holder, waiter, c) // a hold watches its entry after a while
		watches := s.watches(t, c)
		events := waiter.events()
		for range 10 {
			if _, err := probe.TryLock(context.Background()); !errors.Is(err, coordinator.ErrTaken) {
				t.Fatalf("TryLock = %v", err)
			}
		}
		if n := inQueue(t, probe); n != 2 {
			t.Errorf("%d in the queue after failed TryLocks, want 2", n)
		}
		if n := s.watches(t, c); n != watches {
			t.Errorf("%d watches before the failed TryLocks, %d after", watches, n)
		}
		if n := waiter.events() - events; n != 0 {
			t.Errorf("failed TryLocks woke a waiter %d times", n)
		}
		unlock(t, l)
		unlock(t, <-waiting)
	})
}

// watches counts a client's watches: all that were ever set on etcd, by its own
// count; the current ones of all clients on ZooKeeper, by the servers' count.
func (s site) watches(t *testing.T, c meter) (n int) {
	t.Helper()
	if s.service == "etcd" {
		return c.watches()
	}
	for _, addr := range s.endpoints {
		sessions, err := zkserver.Watches(await.Context(t), addr)
		if err != nil {
			t.Fatal(err)
		}
		for _, paths := range sessions {
			n += len(paths)
		}
	}
	return n
}

// Contenders that acquire in the same order each time need two writes, and on
// ZooKeeper the read that sets the watch; on etcd the watch and the read after
// it.
func TestAlternatingContendersNeedFewRequests(t *testing.T) {
	t.Parallel()
	const (
		clients, turns = 4, 25
		most           = 4.2 // requests
	)
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		var all []meter
		for range clients {
			all = append(all, s.meter(t, 10*time.Second))
		}
		requests := func() (n int) {
			for _, c := range all {
				n += c.requests()
			}
			return n
		}
		take := func(turns int) {
			var wg sync.WaitGroup
			for _, c := range all {
				m := newMutex(t, c.Client, name)
				wg.Go(func() {
					for range turns {
						l, err := m.Lock(context.Background())
						if err != nil {
							t.Error(err)
							return
						}
						if err := l.Unlock(context.Background()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}
		take(3) // opens the sessions
		before := requests()
		take(turns)
		n := requests() - before
		t.Logf("%d requests for %d grants", n, clients*turns)
		if float64(n) > most*clients*turns {
			t.Errorf("%d requests for %d grants, want at most %v per grant", n, clients*turns, most)
		}
	})
}

// The test counts the watch events of all clients while a queue of a thousand
// is served. A release may wake only the releaser and its successor. A
// long-waiting contender watches its own entry, too, and on ZooKeeper its
// predecessor's entry beside the successor node. On etcd each watch receives
// the events of both keys, the entry and the handoff marker.
func TestReleaseWakesExactlyOneOfAThousand(t *testing.T) {
	const clients, waitersEach = 4, 250
	together(t, func(t *testing.T, s site) {
		const each = 5 // watch events per release
		name := servers.Name(t)
		first := s.meter(t, 30*time.Second)
		l := lock(t, newMutex(t, first.Client, name))
		var all []meter
		var mu sync.Mutex
		var tokens []coordinator.Token
		var wg sync.WaitGroup
		for range clients {
			c := s.meter(t, 30*time.Second)
			all = append(all, c)
			m := newMutex(t, c.Client, name)
			for range waitersEach {
				wg.Go(func() {
					l, err := m.Lock(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					tokens = append(tokens, l.Token())
					mu.Unlock()
					if err := l.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		sum := func(f func(meter) int) (n int) {
			for _, c := range all {
				n += f(c)
			}
			return n
		}
		watching := func() int { return sum(func(c meter) int { return c.watches() }) }
		await.Until(t, "a thousand waiters with all their watches", func() bool { return watching() >= clients*waitersEach })
		awaitQueue(t, newMutex(t, first.Client, name), 1+clients*waitersEach)
		quiesce(t, all...)
		joined := sum(func(c meter) int { return c.requests() })
		before := sum(func(c meter) int { return c.events() })
		unlock(t, l)
		wg.Wait()
		events := sum(func(c meter) int { return c.events() }) - before
		t.Logf("%d waiters: %.1f requests each to join, %.2f watch events and %.1f requests each to be served", clients*waitersEach,
			float64(joined)/(clients*waitersEach), float64(events)/(clients*waitersEach), float64(sum(func(c meter) int { return c.requests() })-joined)/(clients*waitersEach))
		if events > each*clients*waitersEach {
			t.Errorf("%d watch events for %d releases: a herd", events, clients*waitersEach)
		}
		if len(tokens) != clients*waitersEach {
			t.Fatalf("%d granted", len(tokens))
		}
		for i := 1; i < len(tokens); i++ {
			if tokens[i] <= tokens[i-1] {
				t.Fatalf("token %d was granted after %d", tokens[i], tokens[i-1])
			}
		}
	})
}
