// Consumer: messages that are delivered twice, as every broker does now and
// then, and are processed once.
//
//	go run ./examples/consumer                              # no server: three consumers in memory
//	go run ./examples/consumer -key=false                   # with the lock alone: money is booked twice
//	go run ./examples/consumer -lock=false                  # with the key alone: it is right, and work is done twice
//	go run ./examples/consumer -url etcd://127.0.0.1:2379 -consumers 3
//	go run ./examples/consumer -url zk://127.0.0.1:2181 -consumers 3
//
// What carries the guarantee is the idempotency key: the message's ID is
// written together with what the message does, in one change of one record (one
// transaction, in a database), and a change that finds it there does nothing.
// That holds against all: two deliveries at once, one that comes a week later,
// a consumer that was stopped in the middle.
//
// The lock on the message's ID is an optimisation. Two deliveries at once would
// both do the costly part, of which one is thrown away; with the lock, the
// second one lets the message be. It cannot do more than that: it is free again
// when the first delivery is done, and the second one may come after that.
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
	url                 string
	messages, consumers int
	key, lock           bool
	work                time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.url, "url", fleet.InMemory, "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	flag.IntVar(&c.messages, "messages", 6, "how many messages there are; each is delivered twice at once and once more later")
	flag.IntVar(&c.consumers, "consumers", 3, "consumers, all in this process: so is the broker")
	flag.BoolVar(&c.key, "key", true, "write the message's ID with what it does")
	flag.BoolVar(&c.lock, "lock", true, "lock the message's ID")
	flag.DurationVar(&c.work, "work", 100*time.Millisecond, "how long the costly part takes")
	fleet.Main(func(ctx context.Context, out io.Writer) error {
		_, err := run(ctx, out, c)
		return err
	})
}

// check says which flag breaks which rule.
func (c config) check() error {
	switch {
	case c.messages < 1:
		return fmt.Errorf("-messages %d: must be at least 1", c.messages)
	case c.consumers < 2:
		return fmt.Errorf("-consumers %d: must be at least 2, for a message to be processed twice at once", c.consumers)
	case c.work <= 0:
		return fmt.Errorf("-work %v: must be positive", c.work)
	}
	return nil
}

// run is main without the process: consumers, until all that was delivered is
// dealt with or ctx ends.
func run(ctx context.Context, out io.Writer, c config) (account, error) {
	if err := c.check(); err != nil {
		return account{}, err
	}
	dir, remove, err := fleet.Dir("consumer", "", fleet.InMemory, "") // the messages are this run's own, so the account is, too
	if err != nil {
		return account{}, err
	}
	defer remove()
	book := records.Store(dir)
	b := newBroker(c.messages)
	err = fleet.Run(ctx, out, c.url, c.consumers, func(ctx context.Context, r *fleet.Replica) error {
		return (&consumer{Replica: r, config: c, broker: b, book: book}).serve(ctx)
	})
	if err != nil {
		return account{}, err
	}
	a, err := records.Read[account](book, accountKey)
	if err != nil {
		return account{}, err
	}
	fmt.Fprintf(out, "%d messages of 10 each: the balance is %d; the costly part was done %d times\n", c.messages, a.Balance, b.worked())
	return a, nil
}
