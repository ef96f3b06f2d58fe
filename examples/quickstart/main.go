// Quickstart: three workers take turns at one lock.
//
//	go run ./examples/quickstart                              # no server: in memory
//	go run ./examples/quickstart -url etcd://127.0.0.1:2379   # start it in several terminals
//	go run ./examples/quickstart -url zk://127.0.0.1:2181
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/mutex"
)

func main() {
	url := flag.String("url", "memory://", "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	turns := flag.Int("turns", 3, "turns for each worker")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, *turns); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, turns int) (err error) {
	client, err := coordinator.Open(url)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := client.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	// A first session within five seconds, so that a wrong address shows at once.
	first, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := client.Session(first); err != nil {
		return err
	}
	m, err := mutex.New(client, "quickstart")
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for worker := 1; worker <= 3; worker++ {
		wg.Go(func() {
			for turn := 1; turn <= turns && ctx.Err() == nil; turn++ {
				if err := take(ctx, m, worker, turn); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// take is one turn: what stands between Lock and Unlock is done by one worker at a time, in this
// process and in all others.
func take(ctx context.Context, m *mutex.Mutex, worker, turn int) error {
	lock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("worker %d has turn %d, token %d\n", worker, turn, lock.Token())
	select {
	case <-time.After(100 * time.Millisecond): // the work
	case <-lock.Context().Done(): // lost: stop at once
	}
	return lock.Unlock(ctx)
}
