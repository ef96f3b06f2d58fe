package fence_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// newClient stands for coordinator.Open("etcd://…") or "zk://…" in these
// examples.
func newClient(svc *memory.Service) *coordinator.Client {
	c, err := coordinator.New(svc.Driver(), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// hold locks, and returns the sequencer and the session of the lock.
func hold(ctx context.Context, c *coordinator.Client) (fence.Sequencer, string) {
	m, err := mutex.New(c, "orders")
	if err != nil {
		log.Fatal(err)
	}
	lock, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	seq, err := lock.Sequencer(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return seq, lock.Session()
}

// A resource in this process refuses tokens smaller than the greatest shown.
func ExampleGate_Do() {
	ctx, svc := context.Background(), memory.NewService()
	gate := fence.NewGate(fence.Scope{Kind: "mutex", Name: "orders"})
	write := func(s fence.Sequencer, text string) {
		err := gate.Do(ctx, s, func(context.Context) error {
			fmt.Println("written:", text)
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}

	first, session := hold(ctx, newClient(svc))
	write(first, "by the first")
	svc.Expire(session) // the first holder was stopped for too long
	second, _ := hold(ctx, newClient(svc))
	write(second, "by the second")
	write(first, "late")
	// Output:
	// written: by the first
	// written: by the second
	// fence: stale token: token 1 of mutex "orders", after token 4
}

// A sequencer is sent as text. Any client of the namespace can ask whether its
// grant holds.
func ExampleParse() {
	ctx, svc := context.Background(), memory.NewService()
	seq, session := hold(ctx, newClient(svc))
	text := seq.String()

	elsewhere := newClient(svc)
	shown, err := fence.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(elsewhere.Check(ctx, shown))
	svc.Expire(session)
	fmt.Println(elsewhere.Check(ctx, shown))
	// Output:
	// <nil>
	// fence: stale token: token 1 of mutex "orders": the grant is over
}
