package virtualetcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
	"github.com/baton-go/baton/mutex"
	deadlock "github.com/baton-go/baton/recipes"
)

// pair opens two clients of one party: each of another service.
type pair func(w *world) [2]driver.Driver

// pairs are two namespaces of one etcd, two etcds, and an etcd and a ZooKeeper.
func pairs(t *testing.T) map[string]func() pair {
	on := func(w *world, namespace string) driver.Driver {
		c, _ := w.client("")
		return must(etcd.FromClient(c, etcd.Namespace(namespace)))
	}
	return map[string]func() pair{
		"two of etcd": func() pair {
			return func(w *world) [2]driver.Driver { return [2]driver.Driver{on(w, "x"), on(w, "y")} }
		},
		"two etcds": func() pair {
			other := newWorld(t)
			return func(w *world) [2]driver.Driver { return [2]driver.Driver{on(w, "x"), on(other, "x")} }
		},
		"etcd and ZooKeeper": func() pair {
			e := virtualzk.New(virtualzk.Config{
				Members: 3, Tick: 200 * time.Millisecond, MinTimeout: 500 * time.Millisecond,
				MaxTimeout: time.Minute, Containers: 5 * time.Millisecond, Peers: time.Millisecond,
				Random: rand.New(rand.NewPCG(1, 2)),
			})
			t.Cleanup(func() {
				e.Close()
				time.Sleep(5 * time.Second) // the client library's Close waits for a reply
			})
			return func(w *world) [2]driver.Driver {
				d := must(zookeeper.OpenWith(e.URL("/x"), zookeeper.Dialer(e.Link("").Dial)))
				return [2]driver.Driver{on(w, "x"), d}
			}
		},
	}
}

// TestDeadlockOverTwoServicesIsReportedByAllAndResolved within 12 seconds: of
// two and of four parties, each of which holds at one service and waits at the
// other. The youngest gives up, and the others are granted their locks.
func TestDeadlockOverTwoServicesIsReportedByAllAndResolved(t *testing.T) {
	for what := range pairs(t) {
		for _, n := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s/%d parties", what, n), func(t *testing.T) {
				inWorld(t, func(w *world) { overTwoServices(w, pairs(w.t)[what](), n) })
			})
		}
	}
}

func overTwoServices(w *world, open pair, n int) {
	ctx := w.t.Context()
	var mu sync.Mutex
	reports := make([]int, n)
	names := make([][2]*mutex.Mutex, n) // what each holds, and waits for
	held := make([]*mutex.Lock, n)
	for i := range n {
		observe := event.DirectFunc(func(e event.Event) {
			if e.Kind == event.Deadlocked {
				mu.Lock()
				defer mu.Unlock()
				reports[i]++
			}
		})
		for at, d := range open(w) {
			c := must(coordinator.New(d, coordinator.WithTTL(ttl), coordinator.WithObserver(observe),
				coordinator.WithLogger(slog.New(slog.DiscardHandler))))
			defer func() { _ = c.Close(context.Background()) }()
			name := fmt.Sprint("n", (i+(at+i)%2)%n)
			names[i][(at+i)%2] = must(mutex.New(c, name, mutex.WithDeadlockError()))
		}
		held[i] = must(names[i][0].Lock(ctx))
	}
	results := make([]chan error, n)
	for i := range n {
		results[i] = make(chan error, 1)
		go func() {
			bound, cancel := context.WithTimeout(held[i].Context(), time.Minute)
			defer cancel()
			l, err := names[i][1].Lock(bound)
			if err == nil {
				err = l.Unlock(ctx)
			}
			results[i] <- errors.Join(err, held[i].Unlock(ctx))
		}()
		time.Sleep(200 * time.Millisecond)
	}
	closed := time.Now()
	for i := range n {
		err := <-results[i]
		if youngest := i == n-1; youngest != errors.Is(err, deadlock.ErrDeadlock) || !youngest && err != nil {
			w.t.Errorf("party %d: %v", i, err)
		}
	}
	if took := time.Since(closed); took > 12*time.Second {
		w.t.Errorf("resolved after %v", took)
	}
	for i, n := range reports {
		if n != 1 {
			w.t.Errorf("party %d reported %d deadlocks", i, n)
		}
	}
}
