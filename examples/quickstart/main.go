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
	"io"
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
	url := flag.String("url", "memory://", "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	turns := flag.Int("turns", 3, "turns for each worker")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "argument %q: there are only flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Stdout, *url, *turns); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is main without the process: it returns when all turns are taken, or ctx
// ends, which is no error.
func run(ctx context.Context, out io.Writer, url string, turns int) (err error) {
	if turns < 1 {
		return fmt.Errorf("-turns %d: must be at least 1", turns)
	}
	client, err := coordinator.Open(url)
	if err != nil {
		return err
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(bound))
	}()
	if err := work(ctx, out, client, turns); ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return nil // told to stop
}

// work has three workers take their turns.
func work(ctx context.Context, out io.Writer, client *coordinator.Client, turns int) error {
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
				if err := take(ctx, out, m, worker, turn); err != nil {
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
func take(ctx context.Context, out io.Writer, m *mutex.Mutex, worker, turn int) error {
	lock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "worker %d has turn %d, token %d\n", worker, turn, lock.Token())
	select {
	case <-time.After(100 * time.Millisecond): // the work
	case <-lock.Context().Done(): // lost: stop at once
	}
	return lock.Unlock(ctx)
}
