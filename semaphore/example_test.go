package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/semaphore"
)

// newClient replaces coordinator.Open("etcd://…") or "zk://…" in these
// examples.
func newClient(svc *memory.Service, identity string) *coordinator.Client {
	c, err := coordinator.New(svc.Driver(), coordinator.WithIdentity(identity))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	client := newClient(memory.NewService(), "reporter")
	defer client.Close(ctx)

	reports, err := semaphore.New(client, "reports", 10)
	if err != nil {
		log.Fatal(err)
	}
	err = reports.Do(ctx, 1, func(ctx context.Context, p *semaphore.Permit) error {
		fmt.Println("at most ten of these at a time, everywhere")
		return nil
	})
	fmt.Println(err)
	// Output:
	// at most ten of these at a time, everywhere
	// <nil>
}

// A deploy with another number changes the limit, and all replicas follow it.
func ExampleSet() {
	ctx := context.Background()
	svc := memory.NewService()
	old, deployed := newClient(svc, "old"), newClient(svc, "deployed")
	defer old.Close(ctx)
	defer deployed.Close(ctx)
	work := func(context.Context, *semaphore.Permit) error { return nil }

	before, _ := semaphore.New(old, "downstream", semaphore.Set(10))
	fmt.Println(before.Do(ctx, 1, work))
	after, _ := semaphore.New(deployed, "downstream", semaphore.Set(20))
	fmt.Println(after.Do(ctx, 1, work))
	fmt.Println(before.Do(ctx, 20, work))
	fmt.Println(before.Limit(ctx))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// 20 <nil>
}

func ExampleSemaphore_TryAcquire() {
	ctx := context.Background()
	svc := memory.NewService()
	alice, bob := newClient(svc, "alice"), newClient(svc, "bob")
	defer alice.Close(ctx)
	defer bob.Close(ctx)
	sa, _ := semaphore.New(alice, "reports", 3)
	sb, _ := semaphore.New(bob, "reports", 3)

	permit, err := sa.TryAcquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer permit.Release(ctx)
	_, err = sb.TryAcquire(ctx, 2) // all or nothing: one is free
	var taken *recipes.TakenError
	if errors.As(err, &taken) {
		fmt.Println("first in the queue:", taken.Holder.Identity)
	}
	one, err := sb.TryAcquire(ctx, 1)
	fmt.Println(one.Permits(), err)
	// Output:
	// first in the queue: alice
	// 1 <nil>
}

// A grant of several permits can be released in parts.
func ExamplePermit_ReleasePart() {
	ctx := context.Background()
	client := newClient(memory.NewService(), "loader")
	defer client.Close(ctx)
	s, _ := semaphore.New(client, "connections", 8)

	permit, err := s.Acquire(ctx, 5)
	if err != nil {
		log.Fatal(err)
	}
	defer permit.Release(ctx)
	held, err := permit.ReleasePart(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	list, err := s.List(ctx)
	fmt.Println(held, "held,", list.Free(), "of", list.Limit, "free", err)
	// Output:
	// 2 held, 6 of 8 free <nil>
}

// Workers that each need a unique number, for a port or a partition: worker i
// of n.
func ExamplePermit_Slots() {
	ctx := context.Background()
	client := newClient(memory.NewService(), "worker")
	defer client.Close(ctx)
	s, _ := semaphore.New(client, "workers", 3)

	for range 3 {
		permit, err := s.Acquire(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		defer permit.Release(ctx)
		slots, err := permit.Slots(ctx)
		fmt.Println("worker", slots[0], "of 3", err)
	}
	// Output:
	// worker 0 of 3 <nil>
	// worker 1 of 3 <nil>
	// worker 2 of 3 <nil>
}
