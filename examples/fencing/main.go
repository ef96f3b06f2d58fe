// Fencing: the famous story of a lock that was lost unawares. A holder is
// stopped for longer than its TTL, another one takes over and writes, the first
// one goes on where it was, and its late write is refused: by a ledger in this
// process, by an HTTP server, by a gRPC server, and by one that asks the
// coordinator.
//
//	go run ./examples/fencing
//
// It needs no server: the coordinator is in memory. The same story on real etcd
// and ZooKeeper, with PostgreSQL, MariaDB, SQLite and with writes into the
// coordinator itself, is TestLateWriteIsRefusedEverywhere in integration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/examples/fencing/story"
	"github.com/baton-go/baton/mutex"
)

func main() {
	ttl := flag.Duration("ttl", 2*time.Second, "how long a holder that is stopped keeps the lock")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "argument %q: there are only flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Stdout, *ttl); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is main without the process.
func run(ctx context.Context, out io.Writer, ttl time.Duration) (err error) {
	svc := memory.NewService()
	links := []*memory.Driver{svc.Driver(), svc.Driver()}
	var locks []*mutex.Mutex
	var clients []*coordinator.Client
	for _, link := range links {
		c, err := coordinator.New(link, coordinator.WithTTL(ttl), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // that of the first finds its session over
		m, err := mutex.New(c, "accounts")
		if err != nil {
			return err
		}
		locks, clients = append(locks, m), append(clients, c)
	}
	defer links[0].Heal() // so that nobody waits for it
	overHTTP, err := serveHTTP()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, overHTTP.close()) }()
	overGRPC, err := serveGRPC()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, overGRPC.close()) }()
	return story.Story{
		First: locks[0], Second: locks[1],
		Stop:      links[0].Cut,
		Resources: []story.Resource{newLedger(), overHTTP, overGRPC, &asking{client: clients[1]}},
		Out:       out,
	}.Tell(ctx)
}
