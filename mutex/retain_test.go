package mutex_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// load is clients whose goroutines lock one name for a while, in virtual time.
type load struct {
	clients, goroutines int
	work, pause         time.Duration // under the lock, and after it
	lasts               time.Duration
}

// outcome is what a load has measured.
type outcome struct {
	grants   []int // of each client
	total    int
	longest  time.Duration // of the waits
	requests int
}

// run applies the load with a round trip of 0.6 ms. It checks that no two locks
// are held at a time, and that tokens never fall.
func (l load) run(t *testing.T, opts ...mutex.Option) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		var mu sync.Mutex
		var wg sync.WaitGroup
		var last coordinator.Token
		held := false
		o.grants = make([]int, l.clients)
		end := time.Now().Add(l.lasts)
		var all []*coordinator.Client
		for i := range l.clients {
			link := svc.Driver()
			link.Delay(300*time.Microsecond, 300*time.Microsecond)
			c, err := coordinator.New(link)
			check(t, err)
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			all = append(all, c)
			m, err := mutex.New(c, "jobs", opts...)
			check(t, err)
			for range l.goroutines {
				wg.Go(func() {
					for time.Now().Before(end) {
						asked := time.Now()
						lock, err := m.Lock(context.Background())
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						if held || lock.Token() < last {
							t.Errorf("held: %v; token %d after %d", held, lock.Token(), last)
						}
						held, last = true, lock.Token()
						o.grants[i]++
						o.total++
						o.longest = max(o.longest, time.Since(asked))
						mu.Unlock()
						time.Sleep(l.work)
						mu.Lock()
						held = false
						mu.Unlock()
						if err := lock.Unlock(context.Background()); err != nil {
							t.Error(err)
						}
						time.Sleep(l.pause)
					}
				})
			}
		}
		wg.Wait()
		for _, c := range all {
			check(t, c.Close(context.Background()))
		}
		o.requests = svc.Stats().Total()
	})
	return o
}

var retain = mutex.WithRetain(10 * time.Second)

// TestKeptTurnsAreSharedFairly among clients whose goroutines all lock one
// name: the shares of the clients differ by a fifth at most, and nobody waits
// for more than twice as long as without the option.
func TestKeptTurnsAreSharedFairly(t *testing.T) {
	for _, l := range []load{
		{clients: 8, goroutines: 8, work: 20 * time.Microsecond, pause: 20 * time.Microsecond, lasts: time.Second},
		{clients: 8, goroutines: 8, work: time.Millisecond, pause: 20 * time.Microsecond, lasts: 3 * time.Second},
		{clients: 3, goroutines: 16, work: 100 * time.Microsecond, pause: time.Millisecond, lasts: time.Second},
	} {
		without, with := l.run(t), l.run(t, retain)
		least, most := with.total, 0
		for _, n := range with.grants {
			least, most = min(least, n), max(most, n)
		}
		t.Logf("%+v: %d grants instead of %d, longest wait %v instead of %v, %d requests instead of %d, shares %v",
			l, with.total, without.total, with.longest, without.longest, with.requests, without.requests, with.grants)
		if 5*least < 4*most || with.longest > 2*without.longest || with.total < without.total {
			t.Errorf("unfair or slow")
		}
	}
}

// TestClientsThatLockInTurnPayNothing for an option that does not help them.
func TestClientsThatLockInTurnPayNothing(t *testing.T) {
	for _, clients := range []int{2, 8} {
		l := load{clients: clients, goroutines: 1, work: 100 * time.Microsecond, pause: 2 * time.Millisecond, lasts: 5 * time.Second}
		without, with := l.run(t), l.run(t, retain)
		each, before := float64(with.requests)/float64(with.total), float64(without.requests)/float64(without.total)
		t.Logf("%d clients: %d grants instead of %d, %.3f requests each instead of %.3f, longest wait %v instead of %v",
			clients, with.total, without.total, each, before, with.longest, without.longest)
		if float64(with.total) < 0.95*float64(without.total) || each > 1.05*before || with.longest > 2*without.longest {
			t.Error("the option costs too much")
		}
	}
}

// BenchmarkRelock measures Baton alone: a kept turn needs no service.
func BenchmarkRelock(b *testing.B) {
	svc, _ := bench(b)
	c, err := coordinator.New(svc.Driver())
	check(b, err)
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	m, err := mutex.New(c, "jobs", mutex.WithRetain(time.Minute))
	check(b, err)
	ctx, cancel := context.WithCancel(context.Background()) // as most callers have
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(ctx)
		check(b, err)
		check(b, l.Unlock(ctx))
	}
	b.ReportMetric(float64(svc.Stats().Total())/float64(b.N), "requests/op")
}
