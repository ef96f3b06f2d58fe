// Scheduler: a service of several replicas, one of which runs the scheduled
// jobs. Told to stop (SIGTERM, as in a rolling update) it finishes the job that
// it has begun and hands over: no job runs twice, and the next replica goes on
// at once, not after a TTL.
//
//	go run ./examples/scheduler                               # no server: three replicas in this process, stopped in turn
//	go run ./examples/scheduler -url etcd://127.0.0.1:2379 -name one   # start several, stop one with Ctrl-C
//	go run ./examples/scheduler -url zk://127.0.0.1:2181 -http :8080   # with /ready, /leader and /live
//
// The directory kubernetes has manifests to run it as a Deployment; what they
// decide and why is in docs/cookbook.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
)

const inMemory = "memory://"

type config struct {
	url, name, http string
	every, drain    time.Duration
}

func main() {
	var cfg config
	host, _ := os.Hostname()
	flag.StringVar(&cfg.url, "url", cmp.Or(os.Getenv("BATON_URL"), inMemory),
		"the service: memory://, etcd://host:port/namespace, zk://host:port/chroot; by default that of the environment's BATON_URL")
	flag.StringVar(&cfg.name, "name", host+"/"+strconv.Itoa(os.Getpid()), "the name of this replica")
	flag.StringVar(&cfg.http, "http", "", "address to answer /ready, /leader and /live on, such as :8080; not with memory://")
	flag.DurationVar(&cfg.every, "every", 250*time.Millisecond, "time between jobs")
	flag.DurationVar(&cfg.drain, "drain", 10*time.Second, "how long a job may go on when the replica is told to stop")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "argument %q: there are only flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check says which flag breaks which rule.
func (c config) check() error {
	switch {
	case c.every <= 0:
		return fmt.Errorf("-every %v: must be positive", c.every)
	case c.drain <= 0:
		return fmt.Errorf("-drain %v: must be positive", c.drain)
	case c.name == "":
		return errors.New(`-name "": must not be empty`)
	case c.http != "" && c.url == inMemory:
		return fmt.Errorf("-http %s: must not be given with -url %s, which runs three replicas in one process", c.http, c.url)
	}
	return nil
}

// run is main without the process: it returns when ctx ends, which is no error, or the demo does.
func run(ctx context.Context, cfg config, out io.Writer) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.url == inMemory {
		return demo(ctx, cfg, &printer{out: out})
	}
	r := &replica{jobs: new(ledger), config: cfg, out: &printer{out: out}}
	var err error
	if r.client, err = coordinator.Open(cfg.url, coordinator.WithIdentity(cfg.name), coordinator.WithObserver(&r.place)); err != nil {
		return err
	}
	stop, err := r.listen(cfg.http)
	if err != nil {
		return errors.Join(err, r.close(ctx))
	}
	defer stop()
	return r.run(ctx)
}

// demo starts three replicas on a service in memory, and stops them in turn, as
// a rolling update would.
func demo(ctx context.Context, cfg config, out *printer) error {
	svc, jobs := memory.NewService(), new(ledger)
	var wg sync.WaitGroup
	var stops []func()
	errs := make(chan error, 3)
	joined := make(chan struct{}, 100)
	for _, name := range []string{"one", "two", "three"} {
		client, err := coordinator.New(svc.Driver(), coordinator.WithIdentity(name),
			coordinator.WithObserver(event.ObserverFunc(func(e event.Event) {
				if e.Kind == event.Joined {
					joined <- struct{}{}
				}
			})))
		if err != nil {
			return err
		}
		own := cfg
		own.name = name
		r := &replica{client: client, jobs: jobs, config: own, out: out}
		told, stop := context.WithCancel(ctx)
		stops = append(stops, stop)
		wg.Go(func() { errs <- r.run(told) })
		select { // so that they stand in line in this order
		case <-joined:
		case <-ctx.Done():
		}
	}
	for _, stop := range stops {
		pause(ctx, 4*cfg.every+cfg.every/4) // in the middle of a job
		stop()                              // SIGTERM
	}
	wg.Wait()
	for range stops {
		if err := <-errs; err != nil {
			return err
		}
	}
	ran, terms := jobs.summary()
	out.printf("%d jobs ran in %d terms, none twice and none left out\n", ran, terms)
	return nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// printer keeps lines of several replicas apart.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}
