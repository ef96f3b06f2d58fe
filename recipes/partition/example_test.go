package partition_test

import (
	"context"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/partition"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// memory stands for coordinator.Open("etcd://…") or "zk://…".
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	p, err := partition.New(client, "orders", 1)
	if err != nil {
		log.Fatal(err)
	}
	err = p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
		fmt.Println("shard", s.Number(), "is ours, with a token:", s.Token() > 0)
		stop() // a service would stop at SIGTERM
		<-ctx.Done()
		return nil // after the last write to the shard
	})
	fmt.Println(err)
	// Output:
	// shard 0 is ours, with a token: true
	// context canceled
}

func ExamplePartition_Assignments() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := coordinator.New(memory.NewService().Driver(), coordinator.WithIdentity("host-7"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	p, err := partition.New(client, "orders", 2, partition.WithMaxShards(1))
	if err != nil {
		log.Fatal(err)
	}
	held, done := make(chan int), make(chan error)
	go func() {
		done <- p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
			held <- s.Number()
			<-ctx.Done()
			return nil
		})
	}()
	<-held
	all, err := p.Assignments(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range all {
		fmt.Printf("shard %d: %q\n", a.Shard, a.Identity)
	}
	stop()
	<-done
	// Output:
	// shard 0: "host-7"
	// shard 1: ""
}
