// Limiter bounds concurrency: a fleet of replicas together never makes more
// than n calls of a downstream at the same time.
//
//	go run ./examples/limiter                              # no server: five replicas in memory
//	go run ./examples/limiter -limit 2 -replicas 8
//	go run ./examples/limiter -url etcd://127.0.0.1:2379   # several terminals share the limit
//	go run ./examples/limiter -url zk://127.0.0.1:2181
//	go run ./examples/limiter -url zk://127.0.0.1:2181 -limit 5 -change   # for all of them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/semaphore"
)

// limiter is a replica, whose workers make calls, each with a permit.
type limiter struct {
	limit          int
	change         bool // replace a different stored limit
	workers, calls int
	call           func(ctx context.Context, connection int) error
}

// replica makes all calls of one replica.
func (l limiter) replica(ctx context.Context, client *coordinator.Client) error {
	sem, err := semaphore.New(client, "downstream", l.limit)
	if err != nil {
		return err
	}
	if l.change {
		if err := sem.SetLimit(ctx, l.limit); err != nil {
			return err
		}
	}
	errs := make([]error, l.workers)
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for call := 0; call < l.calls && errs[worker] == nil; call++ {
				errs[worker] = sem.Do(ctx, 1, l.permitted)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// permitted makes one call on the connection with the permit's number, from 0
// to limit - 1, which no other replica uses now. The context ends when the
// permit is lost.
func (l limiter) permitted(ctx context.Context, p *semaphore.Permit) error {
	slots, err := p.Slots(ctx)
	if err != nil {
		return err
	}
	return l.call(ctx, slots[0])
}

// gauge counts the calls in this process.
type gauge struct {
	mu                   sync.Mutex
	running, most, total int
}

func (g *gauge) add(n int) (running int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running += n
	g.most = max(g.most, g.running)
	g.total += max(n, 0)
	return g.running
}

func main() {
	url := demo.URL()
	limit := flag.Int("limit", 3, "concurrent calls of all replicas together")
	change := flag.Bool("change", false, "replace a different stored limit")
	replicas := flag.Int("replicas", 5, "replicas in this process")
	demo.Main(func(ctx context.Context, out *log.Logger) error {
		var g gauge
		l := limiter{limit: *limit, change: *change, workers: 2, calls: 4}
		l.call = func(ctx context.Context, connection int) error {
			out.Printf("connection %d, %d running", connection, g.add(1))
			defer g.add(-1)
			return demo.Sleep(ctx, 80*time.Millisecond)
		}
		err := demo.Run(ctx, *url, *replicas, l.replica)
		if other := (*semaphore.LimitError)(nil); errors.As(err, &other) {
			return fmt.Errorf("%w; -change replaces the stored limit", err)
		}
		out.Printf("%d calls, at most %d at a time of %d allowed", g.total, g.most, *limit)
		return err
	})
}
