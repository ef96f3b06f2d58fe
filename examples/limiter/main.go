// Limiter: a fleet of replicas that together never make more than so many calls
// of a downstream at a time, however many replicas there are.
//
//	go run ./examples/limiter                                   # no server: five replicas in this process
//	go run ./examples/limiter -limit 2 -replicas 8
//	go run ./examples/limiter -url etcd://127.0.0.1:2379        # one replica; start it in several terminals
//	go run ./examples/limiter -url zk://127.0.0.1:2181 -limit 5 -change   # and change the limit for all of them
//
// Every line is one call: when it began, who makes it, on which of the limit's
// numbered connections, how long it waited for its turn, and how many calls the
// process sees at that moment. The last line has what was measured.
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
	"github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/semaphore"
)

// settings are the flags.
type settings struct {
	url      string
	name     string
	limit    int
	change   bool
	replicas int
	workers  int
	calls    int
	call     time.Duration
	out      io.Writer
}

func main() {
	s := settings{out: os.Stdout}
	flag.StringVar(&s.url, "url", "memory://", "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	flag.StringVar(&s.name, "name", "downstream", "the name of the limit")
	flag.IntVar(&s.limit, "limit", 3, "calls at a time, of all replicas together; 0: what is stored")
	flag.BoolVar(&s.change, "change", false, "make this the limit, if another one is stored")
	flag.IntVar(&s.replicas, "replicas", 0, "replicas in this process; 0: five on memory://, else one")
	flag.IntVar(&s.workers, "workers", 2, "workers of each replica")
	flag.IntVar(&s.calls, "calls", 4, "calls of each worker")
	flag.DurationVar(&s.call, "call", 80*time.Millisecond, "how long a call takes")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "argument %q: there are only flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if other := (*semaphore.LimitError)(nil); errors.As(err, &other) {
			fmt.Fprintln(os.Stderr, "-limit 0 takes the stored one; -change stores the one that is given")
		}
		os.Exit(1)
	}
}

// check says which flag breaks which rule.
func (s settings) check() error {
	for _, f := range []struct {
		name         string
		value, least int
	}{{"limit", s.limit, 0}, {"replicas", s.replicas, 0}, {"workers", s.workers, 1}, {"calls", s.calls, 1}} {
		if f.value < f.least {
			return fmt.Errorf("-%s %d: must be at least %d", f.name, f.value, f.least)
		}
	}
	if s.call <= 0 {
		return fmt.Errorf("-call %v: must be positive", s.call)
	}
	if s.change && s.limit == 0 {
		return errors.New("-limit 0: must be at least 1 with -change")
	}
	return nil
}

// run runs all replicas of this process, until they are done or ctx ends, and
// prints what was measured.
func (s settings) run(outer context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	open, replicas := s.opener()
	if s.replicas > 0 {
		replicas = s.replicas
	}
	g := &gauge{out: s.out, began: time.Now()}
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var failure error
	fail := func(err error) { // one that fails ends all
		once.Do(func() { failure = err })
		cancel()
	}
	for i := range replicas {
		client, err := open(fmt.Sprintf("replica %d", i+1))
		if err != nil {
			fail(err)
			break
		}
		wg.Go(func() {
			if err := s.replica(ctx, client, g); err != nil {
				fail(err)
			}
		})
	}
	wg.Wait()
	if failure == nil {
		g.summary(s.limit)
	}
	return failure
}

// opener returns how a replica gets its client, and how many replicas there are
// by default. The service in memory is this process's own, so the whole fleet
// has to live here.
func (s settings) opener() (open func(identity string) (*coordinator.Client, error), replicas int) {
	if s.url == "memory://" {
		svc := memory.NewService()
		return func(identity string) (*coordinator.Client, error) {
			return coordinator.New(svc.Driver(), coordinator.WithIdentity(identity))
		}, 5
	}
	return func(identity string) (*coordinator.Client, error) {
		return coordinator.Open(s.url, coordinator.WithIdentity(fmt.Sprintf("%s of %d", identity, os.Getpid())))
	}, 1
}

// told reports that err says no more than that ctx has ended, which is no failure.
func told(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}

// replica is one process of the fleet, as far as the downstream can tell.
func (s settings) replica(ctx context.Context, client *coordinator.Client, g *gauge) (err error) {
	defer func() { // gives back whatever is held, at once and not after the session's TTL
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if told(ctx, err) {
			err = nil
		}
		err = errors.Join(err, client.Close(bound))
	}()
	// A first session within five seconds, so that a wrong address shows at once.
	first, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := client.Session(first); err != nil {
		return err
	}
	limit := s.limit
	if limit == 0 {
		limit = semaphore.Stored
	}
	sem, err := semaphore.New(client, s.name, limit)
	if err != nil {
		return err
	}
	if s.change {
		if err := sem.SetLimit(ctx, s.limit); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	errs := make(chan error, s.workers)
	for range s.workers {
		wg.Go(func() {
			for call := 0; call < s.calls && ctx.Err() == nil; call++ {
				if err := s.once(ctx, sem, client.Identity(), g); err != nil && !told(ctx, err) {
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

// once waits for its turn and makes one call.
func (s settings) once(ctx context.Context, sem *semaphore.Semaphore, who string, g *gauge) error {
	asked := time.Now()
	permit, err := sem.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	waited := time.Since(asked)
	slots, err := permit.Slots(ctx) // a number from 0 to limit - 1, nobody else's now
	if err == nil {
		g.begin(who, slots[0], waited)
		err = downstream(permit.Context(), s.call)
		g.end()
	}
	return errors.Join(err, permit.Release(ctx))
}

// downstream stands for the call that is limited. It ends when the permit is
// lost: somebody else may have its turn.
func downstream(ctx context.Context, takes time.Duration) error {
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
