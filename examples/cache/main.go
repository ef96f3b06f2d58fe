// Cache: a cache of several files that one replica rebuilds and all read.
//
//	go run ./examples/cache                                       # no server: four replicas in memory, for three seconds
//	go run ./examples/cache -url etcd://127.0.0.1:2379 -for 1m    # one replica: start it in several terminals
//	go run ./examples/cache -url zk://127.0.0.1:2181 -for 1m
//
// Each replica reads the cache again and again, under a read lock, so that many do so at once. When it is too old, one of
// them rebuilds it under the write lock, file by file, and the others wait for it instead of doing the same work. Then it goes
// on as a reader, without a gap (a downgrade), serves what it has just written, and lets the others read it too.
//
// Things to notice in the code: a read lock does not become a write lock, so whoever finds the cache too old unlocks, locks for
// writing, and looks again, since another may have been faster.
//
// No lock stops a replica that was paused in the middle of its work, has lost the lock, and goes on before it notices. So the
// decision is with the resource, by the token of the lock: each version has a directory of its own, named by its token,
// and the greatest complete one is what is read. What comes late has a smaller token than what was written since,
// and is not read; if nothing was, it is just the newest. A replica that dies half-way leaves a directory that is not complete,
// which the next one removes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/rwlock"
)

// config is what the flags say.
type config struct {
	url, name, dir string
	maxAge, length time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.url, "url", "memory://", "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	flag.StringVar(&c.name, "name", "examples/cache", "the lock's name")
	flag.StringVar(&c.dir, "dir", "", "the cache's directory, the same for all replicas: by default one in the system's for temporary files")
	flag.DurationVar(&c.maxAge, "max-age", 500*time.Millisecond, "how old the cache may be")
	flag.DurationVar(&c.length, "for", 3*time.Second, "how long to run")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "argument %q: there are only flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Stdout, c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check says which flag breaks which rule.
func (c config) check() error {
	if c.length <= 0 {
		return fmt.Errorf("-for %v: must be positive", c.length)
	}
	if c.maxAge <= 0 {
		return fmt.Errorf("-max-age %v: must be positive", c.maxAge)
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
	store, remove, err := openStore(c)
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
		replicas = append(replicas, &replica{lock: lock, store: store, maxAge: c.maxAge, out: lines, name: client.Identity()})
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

// open returns the clients of the replicas in this process: one at a real service, or several, each with a
// connection of its own, at one in memory.
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

// openStore returns the directory of the cache, and what is to be called when it is not needed any more.
func openStore(c config) (s store, remove func(), err error) {
	dir := c.dir
	switch {
	case dir != "":
	case c.url == "memory://": // nobody else can share it
		dir, err = os.MkdirTemp("", "baton-cache-")
		return store{dir}, func() { _ = os.RemoveAll(dir) }, err
	default: // tokens of one service mean nothing to another
		h := fnv.New32()
		_, _ = io.WriteString(h, c.url+" "+c.name)
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("baton-cache-%08x", h.Sum32()))
	}
	return store{dir}, func() {}, os.MkdirAll(dir, 0o700)
}

// report says what happened. A reader that saw a damaged version is an error, although it was mended: nothing here leaves one.
func report(out *log.Logger, replicas []*replica) error {
	var reads, rebuilds, damaged int
	var errs []error
	for _, r := range replicas {
		reads, rebuilds, damaged = reads+r.reads, rebuilds+r.rebuilds, damaged+r.damaged
		errs = append(errs, r.err)
	}
	if damaged > 0 {
		errs = append(errs, fmt.Errorf("a damaged cache was seen %d times", damaged))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	out.Printf("%d reads and %d rebuilds in this process; a half-written cache was seen 0 times", reads, rebuilds)
	return nil
}
