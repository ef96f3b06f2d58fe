package virtualzk_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
	"github.com/baton-go/baton/mutex"
)

// waiters are many waiters of one client in the queue of a name that another
// client holds.
type waiters struct {
	t     testing.TB
	e     *virtualzk.Ensemble
	first *mutex.Mutex
	held  *mutex.Lock
	of    *mutex.Mutex // the waiters'
	in    sync.WaitGroup

	mu       sync.Mutex
	requests map[string]int // by kind
}

func newWaiters(t testing.TB) *waiters {
	c := &waiters{t: t, requests: map[string]int{}, e: virtualzk.New(virtualzk.Config{
		Containers: time.Hour, Random: rand.New(rand.NewPCG(1, 2)),
	})}
	t.Cleanup(func() {
		c.e.Close()
		time.Sleep(5 * time.Second) // the client library's Close waits for a reply
	})
	open := func() *mutex.Mutex {
		d, err := zookeeper.OpenWith(c.e.URL("/x"), zookeeper.Dialer(c.e.Link("").Dial))
		c.must(err)
		client, err := coordinator.New(d, coordinator.WithTTL(20*time.Second),
			coordinator.WithLogger(slog.New(slog.DiscardHandler)))
		c.must(err)
		t.Cleanup(func() { c.must(client.Close(context.Background())) })
		m, err := mutex.New(client, "n")
		c.must(err)
		return m
	}
	c.first, c.of = open(), open()
	c.e.OnRequest(func(r virtualzk.Request) virtualzk.Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests[r.Op]++
		return virtualzk.Fate{}
	})
	c.turn(c.first) // each opens its session
	c.turn(c.of)
	return c
}

func (c *waiters) must(err error) {
	if err != nil {
		c.t.Error(err)
	}
}

func (c *waiters) turn(m *mutex.Mutex) {
	l, err := m.Lock(c.t.Context())
	c.must(err)
	if err == nil {
		c.must(l.Unlock(c.t.Context()))
	}
}

// gather has n waiters, and returns when they have waited for a while.
func (c *waiters) gather(n int) {
	var err error
	c.held, err = c.first.Lock(c.t.Context())
	c.must(err)
	c.count()
	for range n {
		c.in.Go(func() { c.turn(c.of) })
	}
	time.Sleep(10 * time.Second)
}

// count returns the requests since its last call.
func (c *waiters) count() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.requests
	c.requests = map[string]int{}
	return before
}

// TestWaitersOfAClientCostOneGoroutineEach, the caller's, one watch, and two
// requests; and a turn its release alone.
func TestWaitersOfAClientCostOneGoroutineEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		// The first few do not know yet that there will be many, and several
		// read the queue at the same time. Strays are sought once.
		const few = 20
		c := newWaiters(t)
		goroutines, watches := runtime.NumGoroutine(), c.e.Stats().Watches
		c.gather(n)
		goroutines, watches = runtime.NumGoroutine()-goroutines, c.e.Stats().Watches-watches
		r := c.count()
		reads := r["getData"] + r["getChildren2"] + r["exists"]
		if goroutines > n+few || watches > n+few || r["multi"] > n+few || reads > n+few {
			t.Errorf("%d waiters cost %d goroutines, %d watches, and the requests %v", n, goroutines, watches, r)
		}
		c.must(c.held.Unlock(t.Context()))
		c.in.Wait()
		r = c.count()
		reads = r["getData"] + r["getChildren2"] + r["exists"]
		if writes := r["multi"] + r["delete"]; writes > n+few || reads > few {
			t.Errorf("%d turns cost the requests %v", n, r)
		}
	})
}

// BenchmarkWaiter measures what a waiter and a bare watch cost in this process,
// with their shares of the server, whose nodes and watches are here.
func BenchmarkWaiter(b *testing.B) {
	const n = 5000
	report := func(b *testing.B, between func()) {
		var from, to runtime.MemStats
		remember := func(m *runtime.MemStats) int {
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(m)
			return runtime.NumGoroutine()
		}
		before := remember(&from)
		between()
		after := remember(&to)
		b.ReportMetric((float64(to.HeapAlloc)-float64(from.HeapAlloc))/n, "heap-B")
		b.ReportMetric((float64(to.StackInuse)-float64(from.StackInuse))/n, "stack-B")
		b.ReportMetric(float64(after-before)/n, "goroutines")
	}
	b.Run("Lock", func(b *testing.B) {
		c := newWaiters(b)
		for b.Loop() {
			report(b, func() { c.gather(n) })
			c.must(c.held.Unlock(b.Context()))
			c.in.Wait()
		}
	})
	b.Run("bare watch", func(b *testing.B) {
		e := virtualzk.New(virtualzk.Config{Random: rand.New(rand.NewPCG(1, 2))})
		link := e.Link("")
		conn, _, err := zk.Connect([]string{e.URL("").Host}, 20*time.Second, zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)),
			zk.WithDialer(func(_, address string, _ time.Duration) (net.Conn, error) {
				return link.Dial(context.Background(), address)
			}))
		if err != nil {
			b.Fatal(err)
		}
		var all sync.WaitGroup
		done := make(chan struct{})
		for b.Loop() {
			report(b, func() {
				for i := range n {
					all.Go(func() {
						_, _, events, err := conn.ExistsW(fmt.Sprintf("/waiters/%d", i))
						if err != nil {
							b.Error(err)
						}
						select {
						case <-events:
						case <-done:
						}
					})
				}
				time.Sleep(5 * time.Second)
			})
		}
		close(done)
		all.Wait()
		conn.Close()
		e.Close()
	})
}
