// Nightly is a job that needs two systems locked at once. A shop counts its
// sales in a ledger that is locked on etcd, a warehouse counts its stock in one
// that is locked on ZooKeeper. Each night the sales of the day are booked out
// of the stock, while nobody else writes either ledger.
//
//	go run ./examples/nightly                    # no server: three replicas in memory
//	go run ./examples/nightly -shop etcd://127.0.0.1:2379 -warehouse zk://127.0.0.1:2181
//
// The other processes of a system lock its ledger only. The job locks both, or
// waits for both; its context ends when either lock is lost. All replicas try
// each night, and one does the job: the others find the night closed.
//
// A job that dies between its two writes has written the warehouse's ledger,
// and not the shop's. The next job sets both numbers again, and adds nothing. A
// job that was paused and continues late is refused by the ledgers: each
// compares the token of its own lock.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/multilock"
)

// lockName is the name of a ledger's lock on its system's service.
const lockName = "ledger"

// numbers are what a ledger contains.
type numbers struct {
	total  int // items sold, or delivered to the warehouse
	booked int // those of the sales that were booked out of the stock
	night  int // the last one that is closed; of the shop
}

// ledger represents a table in the database of one system.
type ledger struct {
	mu     sync.Mutex
	now    numbers
	latest coordinator.Token
}

var errLate = errors.New("a later holder of the lock has accessed the ledger")

// access is a transaction. It refuses a holder of the lock that is late.
func (l *ledger) access(token coordinator.Token, f func(now *numbers)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.latest {
		return fmt.Errorf("token %d after %d: %w", token, l.latest, errLate)
	}
	l.latest = token
	f(&l.now)
	return nil
}

// count counts one item after another until ctx ends, as the services of a
// system do, and returns how many. It goes on after an error: after a lost
// session the next Lock opens another.
func (l *ledger) count(ctx context.Context, client *coordinator.Client) (counted int, err error) {
	m, err := mutex.New(client, lockName)
	if err != nil {
		return 0, err
	}
	for ctx.Err() == nil {
		done, err := l.countOne(ctx, m)
		if done {
			counted++
		}
		if err != nil && ctx.Err() == nil {
			log.Printf("%s: %v", client, err)
		}
		_ = demo.Sleep(ctx, 5*time.Millisecond)
	}
	return counted, nil
}

func (l *ledger) countOne(ctx context.Context, m *mutex.Mutex) (done bool, err error) {
	lock, err := m.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	var total int
	err = l.access(lock.Token(), func(now *numbers) { total = now.total })
	if err != nil {
		return false, err
	}
	// A write of another client in between would be lost.
	if err := demo.Sleep(lock.Context(), time.Millisecond); err != nil {
		return false, err
	}
	err = l.access(lock.Token(), func(now *numbers) { now.total = total + 1 })
	return err == nil, err
}

// job books the sales out of the stock.
type job struct {
	shop, warehouse *ledger
	locks           *multilock.Set
	pause           func(context.Context) // between the two writes
	out             *log.Logger
}

func newJob(company *company, shop, warehouse *coordinator.Client) (*job, error) {
	locks, err := multilock.New(multilock.Mutex(shop, lockName), multilock.Mutex(warehouse, lockName))
	return &job{&company.shop, &company.warehouse, locks, company.pause, company.out}, err
}

// run makes sure that a night is closed, by this replica or another.
func (j *job) run(ctx context.Context, night int) error {
	for {
		err := j.try(ctx, night)
		if err == nil || ctx.Err() != nil {
			return err
		}
		j.out.Printf("night %d, again after: %v", night, err)
		if err := demo.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (j *job) try(ctx context.Context, night int) (err error) {
	bound, cancel := context.WithTimeout(ctx, time.Minute) // the wait for both
	defer cancel()
	lock, err := j.locks.Lock(bound)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	tokens := lock.Tokens() // in the order given to multilock.New
	var shop numbers
	if err := j.shop.access(tokens[0], func(now *numbers) { shop = *now }); err != nil {
		return err
	}
	if shop.night >= night {
		return nil // another replica has closed it
	}
	err = j.warehouse.access(tokens[1], func(now *numbers) { now.booked = shop.total })
	if err != nil {
		return err
	}
	j.pause(lock.Context())
	err = j.shop.access(tokens[0], func(now *numbers) { now.booked, now.night = shop.total, night })
	if err == nil {
		j.out.Printf("night %d: %d items booked (tokens %d and %d)", night, shop.total-shop.booked,
			tokens[0], tokens[1])
	}
	return err
}

// company is what the replicas share.
type company struct {
	shop, warehouse ledger
	nights          int
	day             time.Duration
	pause           func(context.Context)
	out             *log.Logger

	mu              sync.Mutex
	sold, delivered int // by the services
}

// replica runs a service of each system, and the job every night.
func (c *company) replica(ctx context.Context, shop, warehouse *coordinator.Client) error {
	j, err := newJob(c, shop, warehouse)
	if err != nil {
		return err
	}
	days, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i, s := range []struct {
		ledger *ledger
		client *coordinator.Client
		sum    *int
	}{{&c.shop, shop, &c.sold}, {&c.warehouse, warehouse, &c.delivered}} {
		wg.Go(func() {
			counted, err := s.ledger.count(days, s.client)
			c.mu.Lock()
			defer c.mu.Unlock()
			*s.sum, errs[i] = *s.sum+counted, err
		})
	}
	for night := 1; night <= c.nights && errs[2] == nil; night++ {
		if errs[2] = demo.Sleep(ctx, c.day); errs[2] == nil {
			errs[2] = j.run(ctx, night)
		}
	}
	end()
	wg.Wait()
	return errors.Join(errs...)
}

// run runs n replicas, each with a client of both services.
func (c *company) run(ctx context.Context, shop, warehouse demo.Open, n int) error {
	err := demo.RunOn(ctx, shop, n, func(ctx context.Context, first *coordinator.Client) error {
		second, err := warehouse(first.Identity())
		if err != nil {
			return err
		}
		return demo.Live(ctx, second, func(ctx context.Context, second *coordinator.Client) error {
			return c.replica(ctx, first, second)
		})
	})
	c.out.Printf("shop: %d items sold, %d in the ledger", c.sold, c.shop.now.total)
	c.out.Printf("warehouse: %d items delivered, %d in the ledger", c.delivered, c.warehouse.now.total)
	c.out.Printf("after %d nights: %d items booked in the shop, %d in the warehouse", c.shop.now.night,
		c.shop.now.booked, c.warehouse.now.booked)
	return err
}

func main() {
	shop := flag.String("shop", demo.InMemory, "the shop's service: memory://, etcd://… or zk://…")
	warehouse := flag.String("warehouse", demo.InMemory, "the warehouse's service")
	nights := flag.Int("nights", 3, "how many nights to run")
	demo.Main(func(ctx context.Context, out *log.Logger) error {
		c := &company{nights: *nights, day: 300 * time.Millisecond, out: out}
		c.pause = func(ctx context.Context) { _ = demo.Sleep(ctx, 10*time.Millisecond) }
		return c.run(ctx, demo.Opener(*shop), demo.Opener(*warehouse), 3)
	})
}
