package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

// A write of an earlier holder, which was stopped, is refused.
func Example() {
	ctx := context.Background()
	var clients []*coordinator.Client
	for range 3 { // three clusters that share nothing
		// memory stands for coordinator.Open("etcd://…") or "zk://…".
		client, err := coordinator.New(memory.NewService().Driver())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close(ctx)
		clients = append(clients, client)
	}
	q, err := quorum.New(clients, "nightly", quorum.Majority)
	if err != nil {
		log.Fatal(err)
	}

	// The resource has a value and a gate for three services.
	var value string
	gate, err := fence.NewQuorumGate(fence.Scope{Kind: "mutex", Name: "nightly"}, 3)
	if err != nil {
		log.Fatal(err)
	}
	write := func(shown []fence.Sequencer, v string) error {
		return gate.Do(ctx, shown, func(context.Context) error {
			value = v
			return nil
		})
	}

	var stale []fence.Sequencer
	for _, night := range []string{"first", "second"} {
		lock, err := q.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(night, write(lock.Sequencers(), night))
		if stale == nil {
			stale = lock.Sequencers()
		}
		if err := lock.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("late:", errors.Is(write(stale, "first"), fence.ErrStale))
	fmt.Println(value)
	// Output:
	// first <nil>
	// second <nil>
	// late: true
	// second
}
