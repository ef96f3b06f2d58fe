// Orders: a state machine of orders that many workers drive. Each order is
// moved by one worker at a time, and a worker that comes late, because it was
// stopped in the middle, moves nothing.
//
//	go run ./examples/orders                                  # no server: three workers in memory; one is stopped in the middle
//	go run ./examples/orders -url etcd://127.0.0.1:2379       # one worker: start several, kill -STOP one and kill -CONT it
//	go run ./examples/orders -url zk://127.0.0.1:2181
//
// An order has a lock of its own, which is tried: who does not get it goes to
// the next order. A move is to read the order, to do the work, and to write the
// next state. The lock saves the work from being done twice; the record
// decides. It takes a move if no later lock has touched the order, which the
// token tells, and if the state is the one that the move begins at.
//
// The state alone would not do, since states come again: an order that is
// packed may go back to paid, and "it is paid" is then true for a worker that
// saw it paid long ago.
//
// What the work does elsewhere, here a payment, is outside of the record, and a
// worker that was stopped has done it. So it carries an idempotency key, the
// order and the number of the move, by which the one who is paid knows it
// again. The state would not do here either.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
)

// config is what the flags say.
type config struct {
	url, dir              string
	orders, workers, stop int
	work                  time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.url, "url", fleet.InMemory, "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	flag.StringVar(&c.dir, "dir", "", "the directory of the orders, the same for all workers: by default one in the system's for temporary files")
	flag.IntVar(&c.orders, "orders", 6, "how many orders there are")
	flag.IntVar(&c.workers, "workers", 0, "workers in this process; 0: three on memory://, else one")
	flag.IntVar(&c.stop, "stop", 3, "at which move of its own the first worker is stopped for longer than its TTL, on memory://; 0: never")
	flag.DurationVar(&c.work, "work", 100*time.Millisecond, "how long a move takes")
	fleet.Main(func(ctx context.Context, out io.Writer) error {
		return run(ctx, out, c)
	})
}

// check says which flag breaks which rule.
func (c config) check() error {
	switch {
	case c.orders < 1:
		return fmt.Errorf("-orders %d: must be at least 1", c.orders)
	case c.workers < 0:
		return fmt.Errorf("-workers %d: must be at least 0", c.workers)
	case c.stop < 0:
		return fmt.Errorf("-stop %d: must be at least 0", c.stop)
	case c.work <= 0:
		return fmt.Errorf("-work %v: must be positive", c.work)
	}
	return nil
}

// run is main without the process: workers, until all orders are shipped or ctx ends.
func run(ctx context.Context, out io.Writer, c config) error {
	if err := c.check(); err != nil {
		return err
	}
	dir, remove, err := fleet.Dir("orders", c.dir, c.url, "orders")
	if err != nil {
		return err
	}
	defer remove()
	if c.workers == 0 {
		c.workers = fleet.Size(c.url)
	}
	book := records.Store(dir)
	err = fleet.Run(ctx, out, c.url, c.workers, func(ctx context.Context, r *fleet.Replica) error {
		w := &worker{Replica: r, config: c, book: book}
		if !r.First {
			w.stop = 0
		}
		return w.serve(ctx)
	})
	if err != nil {
		return err
	}
	return report(out, book, c.orders)
}

// report says what became of the orders.
func report(out io.Writer, book records.Store, orders int) error {
	shipped, moves := 0, 0
	for n := 1; n <= orders; n++ {
		o, err := records.Read[order](book, key(n))
		if err != nil {
			return err
		}
		moves += len(o.Moves)
		if o.state() == shippedState {
			shipped++
		}
	}
	paid, err := records.Read[payments](book, paymentsKey)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d orders are shipped, in %d moves; %d payments were asked for and %d made\n",
		shipped, orders, moves, paid.Asked, len(paid.Made))
	return nil
}
