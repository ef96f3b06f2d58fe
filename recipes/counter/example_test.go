package counter_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/counter"
)

func Example() {
	ctx := context.Background()
	// memory stands for coordinator.Open("etcd://…") or "zk://…".
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	orders, err := counter.New(client, "orders")
	if err != nil {
		log.Fatal(err)
	}
	n, err := orders.Add(ctx, 1)
	if coordinator.MayHaveApplied(err) {
		log.Print("the order may have been counted")
	}
	fmt.Println(n, err)
	// Output: 1 <nil>
}

// CompareAndSet changes the value only if no other process has changed it.
func ExampleCounter_CompareAndSet() {
	ctx := context.Background()
	client, err := coordinator.New(memory.NewService().Driver()) // "etcd://…"
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	epoch, err := counter.New(client, "epoch")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(epoch.CompareAndSet(ctx, 0, 1))
	var other *counter.OtherValueError
	if err := epoch.CompareAndSet(ctx, 0, 1); errors.As(err, &other) {
		fmt.Println("the epoch is", other.Value)
	}
	// Output:
	// <nil>
	// the epoch is 1
}

// Observe follows a value that another process changes.
func ExampleCounter_Observe() {
	ctx := context.Background()
	client, err := coordinator.New(memory.NewService().Driver()) // "zk://…"
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	jobs, err := counter.New(client, "jobs-left")
	if err != nil {
		log.Fatal(err)
	}
	if err := jobs.Set(ctx, 2); err != nil {
		log.Fatal(err)
	}
	for n, err := range jobs.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("left:", n)
		if n == 0 {
			break
		}
		if _, err := jobs.Add(ctx, -1); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// left: 2
	// left: 1
	// left: 0
}

// Two processes take unique numbers, a hundred at a time.
func ExampleIDs() {
	ctx := context.Background()
	client, err := coordinator.New(memory.NewService().Driver()) // "etcd://…"
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	for process := range 2 {
		ids, err := counter.NewIDs(client, "invoices", 100)
		if err != nil {
			log.Fatal(err)
		}
		for range 2 {
			id, err := ids.Next(ctx)
			fmt.Println(process, id, err)
		}
	}
	// Output:
	// 0 1 <nil>
	// 0 2 <nil>
	// 1 101 <nil>
	// 1 102 <nil>
}
