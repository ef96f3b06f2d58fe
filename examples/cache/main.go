// Cache prevents a cache stampede: when an entry expires, one replica rebuilds
// it while the others serve the old one.
//
//	go run ./examples/cache                              # no server: four replicas in memory
//	go run ./examples/cache -stale 0                     # the others wait for the new value
//	go run ./examples/cache -url etcd://127.0.0.1:2379
//	go run ./examples/cache -url zk://127.0.0.1:2181
//
// A replica that gets the lock reads the cache again before it rebuilds, since
// another replica may have been faster. A lock cannot stop a replica that is
// paused during a rebuild and stores its value late, so the store keeps the
// value with the greatest token.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/mutex"
)

// cache reads an entry, and rebuilds it when it is older than maxAge. During a
// rebuild it serves the old entry until maxAge + stale.
type cache struct {
	store         *store
	lock          *mutex.Mutex
	maxAge, stale time.Duration
	rebuild       func(context.Context) error
}

// read returns an entry that is younger than maxAge + stale.
func (c *cache) read(ctx context.Context) (entry, error) {
	e := c.store.get()
	age := time.Since(e.made)
	if age < c.maxAge {
		return e, nil
	}
	usable := age < c.maxAge+c.stale
	take := c.lock.Lock
	if usable {
		take = c.lock.TryLock
	}
	lock, err := take(ctx)
	if err != nil && usable {
		return e, nil // another replica rebuilds it, or the service is unavailable
	}
	if err != nil {
		return entry{}, err
	}
	e, err = c.renew(lock)
	return e, errors.Join(err, lock.Unlock(ctx))
}

// renew rebuilds the entry, unless another replica was faster.
func (c *cache) renew(lock *mutex.Lock) (entry, error) {
	if e := c.store.get(); time.Since(e.made) < c.maxAge {
		return e, nil
	}
	e := entry{token: lock.Token(), made: time.Now()} // before the rebuild, which reads older data
	if err := c.rebuild(lock.Context()); err != nil {
		return entry{}, err
	}
	c.store.put(e)
	return e, nil
}

// entry is a cached value. The zero entry is older than any maxAge.
type entry struct {
	token coordinator.Token // of the lock under which it was made
	made  time.Time
}

// store represents the cache that all replicas share, such as a table or Redis.
type store struct {
	mu    sync.Mutex
	entry entry
}

func (s *store) get() entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entry
}

// put ignores a late entry. In SQL: UPDATE … WHERE token < $1.
func (s *store) put(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.token > s.entry.token {
		s.entry = e
	}
}

func main() {
	url := demo.URL()
	maxAge := flag.Duration("max-age", 500*time.Millisecond, "how old the entry may be")
	stale := flag.Duration("stale", time.Second, "how much older it is served during a rebuild")
	length := flag.Duration("for", 3*time.Second, "how long to run")
	demo.Main(func(ctx context.Context, out *log.Logger) error {
		ctx, cancel := context.WithTimeout(ctx, *length)
		defer cancel()
		shared := new(store)
		return demo.Run(ctx, *url, 4, func(ctx context.Context, client *coordinator.Client) error {
			lock, err := mutex.New(client, "examples/cache")
			if err != nil {
				return err
			}
			c := &cache{store: shared, lock: lock, maxAge: *maxAge, stale: *stale}
			c.rebuild = func(ctx context.Context) error {
				out.Printf("%s rebuilds", client.Identity())
				return demo.Sleep(ctx, 100*time.Millisecond) // the work
			}
			for served := (entry{}); ; {
				e, err := c.read(ctx)
				if err != nil {
					return err
				}
				if e != served {
					out.Printf("%s serves the entry of token %d", client.Identity(), e.token)
					served = e
				}
				if err := demo.Sleep(ctx, 50*time.Millisecond); err != nil {
					return err
				}
			}
		})
	})
}
