package barrier_test

import (
	"context"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/barrier"
)

func Example() {
	ctx := context.Background()
	// memory stands for coordinator.Open("etcd://…") or "zk://…".
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	migrated, err := barrier.New(client, "migration")
	if err != nil {
		log.Fatal(err)
	}
	if err := migrated.Set(ctx); err != nil {
		log.Fatal(err)
	}
	passed := make(chan error)
	go func() { passed <- migrated.Wait(ctx) }() // in other processes
	fmt.Println("the migration is done")
	if err := migrated.Remove(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-passed)
	// Output:
	// the migration is done
	// <nil>
}
