package multilock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/multilock"
)

func Example() {
	ctx := context.Background()
	// memory stands for coordinator.Open("etcd://…") or "zk://…".
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	set, err := multilock.New(
		multilock.Mutex(client, "account-42"),
		multilock.Mutex(client, "account-17"),
		multilock.Read(client, "exchange-rates"),
	)
	if err != nil {
		log.Fatal(err)
	}
	err = set.Do(ctx, func(ctx context.Context, _ *multilock.Lock) error {
		fmt.Println("both accounts are ours, and the rates do not change")
		return nil
	})
	fmt.Println(err)
	// Output:
	// both accounts are ours, and the rates do not change
	// <nil>
}

// Members on etcd and on ZooKeeper are locked together, and each has a token
// for the resource behind it.
func ExampleSet_Lock() {
	ctx := context.Background()
	orders, err := coordinator.New(memory.NewService().Driver()) // "etcd://…"
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close(ctx)
	stock, err := coordinator.New(memory.NewService().Driver()) // "zk://…"
	if err != nil {
		log.Fatal(err)
	}
	defer stock.Close(ctx)

	set, err := multilock.New(multilock.Mutex(orders, "nightly"), multilock.Mutex(stock, "nightly"))
	if err != nil {
		log.Fatal(err)
	}
	lock, err := set.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	tokens := lock.Tokens()
	fmt.Println(tokens[0] > 0, tokens[1] > 0)
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// true true
	// <nil>
}
