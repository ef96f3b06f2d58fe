// Package demo runs several replicas in one process, each with its own client.
// Only the examples need it.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd" // a scheme of -url
	"github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper" // a scheme of -url
)

// Replica runs one replica until ctx ends.
type Replica func(ctx context.Context, client *coordinator.Client) error

// InMemory is the URL of a service in this process.
const InMemory = "memory://"

// URL declares the flag that chooses the service.
func URL() *string {
	return flag.String("url", InMemory, "memory://, etcd://host:port or zk://host:port")
}

// Main parses the flags and calls run with a context that ends at the first
// SIGINT or SIGTERM; a second signal ends the process at once. An error of run
// ends the process with exit code 1.
func Main(run func(ctx context.Context, out *log.Logger) error) {
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, log.New(os.Stdout, "", 0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Run opens n clients of a service, calls replica with each of them
// concurrently, and closes each client when its replica has returned. If a
// replica fails, the context of the others ends. The end of ctx is no error.
func Run(ctx context.Context, url string, n int, replica Replica) error {
	return RunOn(ctx, Opener(url), n, replica)
}

// Open opens a client with an identity.
type Open func(identity string) (*coordinator.Client, error)

// RunOn is Run for clients that open opens.
func RunOn(ctx context.Context, open Open, n int, replica Replica) error {
	if n < 1 {
		return fmt.Errorf("%d replicas; want at least 1", n)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			client, err := open(fmt.Sprintf("%d/%d", os.Getpid(), i+1))
			if err == nil {
				err = Live(ctx, client, replica)
			}
			if err != nil && !(ctx.Err() != nil && errors.Is(err, context.Cause(ctx))) {
				errs[i] = err
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Opener returns a function that opens a replica's client. In memory all
// replicas share one service, with a short TTL and without a log.
func Opener(url string) Open {
	svc := memory.NewService()
	return func(identity string) (*coordinator.Client, error) {
		if url != InMemory {
			return coordinator.Open(url, coordinator.WithIdentity(identity))
		}
		return coordinator.New(svc.Driver(), coordinator.WithIdentity(identity),
			coordinator.WithTTL(coordinator.MinTTL),
			coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	}
}

// Live runs a replica and closes its client, which releases the replica's holds
// at once. A wrong address is an error within five seconds.
func Live(ctx context.Context, client *coordinator.Client, replica Replica) error {
	first, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := client.Session(first)
	if err == nil {
		err = replica(ctx, client)
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(bound))
}

// Sleep waits for d, or until ctx ends, and then returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
