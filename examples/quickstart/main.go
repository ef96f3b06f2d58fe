// Quickstart: three workers take turns at one lock.
//
//	go run ./examples/quickstart                              # no server: in memory
//	go run ./examples/quickstart -url etcd://127.0.0.1:2379   # start it in several terminals
//	go run ./examples/quickstart -url zk://127.0.0.1:2181
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/mutex"
)

func main() {
	url := flag.String("url", "memory://", "memory://, etcd://host:port or zk://host:port")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, log.New(os.Stdout, "", 0), *url); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run returns when each worker has had three turns, or ctx ends.
func run(ctx context.Context, out *log.Logger, url string) error {
	client, err := coordinator.Open(url)
	if err != nil {
		return err
	}
	// Close releases at once what is still held. After a crash it stays held
	// until the TTL has passed.
	defer client.Close(context.WithoutCancel(ctx))

	m, err := mutex.New(client, "quickstart")
	if err != nil {
		return err
	}
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for turn := 1; turn <= 3 && errs[worker] == nil; turn++ {
				errs[worker] = take(ctx, out, m, worker+1, turn)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// take is one turn. Only one worker of all processes is between Lock and
// Unlock.
func take(ctx context.Context, out *log.Logger, m *mutex.Mutex, worker, turn int) error {
	lock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	out.Printf("worker %d has turn %d, token %d", worker, turn, lock.Token())
	select {
	case <-time.After(100 * time.Millisecond): // the work
	case <-lock.Context().Done(): // the lock is lost: stop at once
	}
	return lock.Unlock(ctx)
}
