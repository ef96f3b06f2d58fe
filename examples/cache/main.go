// Cache: a cache of several files that one replica rebuilds and all read.
//
//	go run ./examples/cache                                       # no server: four replicas in memory, for three seconds
//	go run ./examples/cache -stale 1s                             # the others serve what is there instead of waiting
//	go run ./examples/cache -url etcd://127.0.0.1:2379 -for 1m    # one replica: start it in several terminals
//	go run ./examples/cache -url zk://127.0.0.1:2181 -for 1m
//
// Each replica reads the cache again and again, under a read lock, so that many
// do so at once. When it is too old, one of them rebuilds it under the write
// lock, file by file, and the others wait for it instead of doing the same
// work. Then it goes on as a reader, without a gap (a downgrade), serves what
// it has just written, and lets the others read it too.
//
// With -stale nobody waits for a cache that is only a little too old: see
// stale.go. Either way it is rebuilt once, however many find it too old in the
// same moment, which is what a stampede is.
//
// Things to notice in the code: a read lock does not become a write lock, so
// whoever finds the cache too old unlocks, locks for writing, and looks again,
// since another may have been faster.
//
// No lock stops a replica that was paused in the middle of its work, has lost
// the lock, and goes on before it notices. So the decision is with the
// resource, by the token of the lock: each version has a directory of its own,
// named by its token, and the greatest complete one is what is read. What comes
// late has a smaller token than what was written since, and is not read; if
// nothing was, it is just the newest. A replica that dies half-way leaves a
// directory that is not complete, which the next one removes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

// config is what the flags say.
type config struct {
	url, name, dir        string
	maxAge, stale, length time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.url, "url", "memory://", "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	flag.StringVar(&c.name, "name", "examples/cache", "the lock's name")
	flag.StringVar(&c.dir, "dir", "", "the cache's directory, the same for all replicas: by default one in the system's for temporary files")
	flag.DurationVar(&c.maxAge, "max-age", 500*time.Millisecond, "how old the cache may be")
	flag.DurationVar(&c.stale, "stale", 0, "how much older a cache may be that is served while one replica rebuilds it; 0: the others wait")
	flag.DurationVar(&c.length, "for", 3*time.Second, "how long to run")
	fleet.Main(func(ctx context.Context, out io.Writer) error {
		return run(ctx, out, c)
	})
}

// check says which flag breaks which rule.
func (c config) check() error {
	if c.length <= 0 {
		return fmt.Errorf("-for %v: must be positive", c.length)
	}
	if c.maxAge <= 0 {
		return fmt.Errorf("-max-age %v: must be positive", c.maxAge)
	}
	if c.stale < 0 {
		return fmt.Errorf("-stale %v: must not be negative", c.stale)
	}
	return nil
}

// run is main without the process: replicas that share a cache, until the time is over or ctx ends.
func run(ctx context.Context, out io.Writer, c config) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	clients, err := open(c.url)
	if err != nil {
		return err
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		for _, client := range clients {
			err = errors.Join(err, client.Close(bound))
		}
	}()
	for _, client := range clients {
		// A first session within five seconds, so that a wrong address shows at once.
		first, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := client.Session(first); ctx.Err() != nil {
			return nil // told to stop
		} else if err != nil {
			return err
		}
	}
	name := c.name
	if c.stale > 0 {
		name += "?stale" // another lock, whose tokens mean nothing to versions of this one
	}
	dir, remove, err := fleet.Dir("cache", c.dir, c.url, name)
	if err != nil {
		return err
	}
	defer remove()

	lines := log.New(out, "", 0) // many replicas write to it
	var replicas []*replica
	for _, client := range clients {
		lock, err := rwlock.New(client, c.name)
		if err != nil {
			return err
		}
		rebuilding, err := mutex.New(client, c.name)
		if err != nil {
			return err
		}
		replicas = append(replicas, &replica{lock: lock, rebuilding: rebuilding, store: store{dir}, maxAge: c.maxAge, stale: c.stale,
			out: lines, name: client.Identity()})
	}
	during, cancel := context.WithTimeout(ctx, c.length)
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range replicas {
		wg.Go(func() { r.err = r.serve(during) })
	}
	wg.Wait()
	return report(lines, replicas)
}

// open returns the clients of the replicas in this process: one at a real
// service, or several, each with a connection of its own, at one in memory.
func open(url string) ([]*coordinator.Client, error) {
	if url != "memory://" {
		client, err := coordinator.Open(url)
		return []*coordinator.Client{client}, err
	}
	service := memory.NewService()
	var clients []*coordinator.Client
	for i := range 4 {
		client, err := coordinator.New(service.Driver(), coordinator.WithIdentity(fmt.Sprint("replica ", i+1)))
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// report says what happened. A reader that saw a damaged version is an error,
// although it was mended: nothing here leaves one.
func report(out *log.Logger, replicas []*replica) error {
	var reads, rebuilds, damaged int
	var longest time.Duration
	var errs []error
	for _, r := range replicas {
		reads, rebuilds, damaged, longest = reads+r.reads, rebuilds+r.rebuilds, damaged+r.damaged, max(longest, r.longest)
		errs = append(errs, r.err)
	}
	if damaged > 0 {
		errs = append(errs, fmt.Errorf("a damaged cache was seen %d times", damaged))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	out.Printf("the longest wait for another's rebuild was %d ms", longest.Milliseconds())
	out.Printf("%d reads and %d rebuilds in this process; a half-written cache was seen 0 times", reads, rebuilds)
	return nil
}
