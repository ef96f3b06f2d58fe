package partition_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

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

func ExamplePartition_Holds() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	p, err := partition.New(client, "orders", 2)
	if err != nil {
		log.Fatal(err)
	}
	began, done := make(chan struct{}), make(chan error)
	go func() {
		done <- p.Run(ctx, func(ctx context.Context, _ *partition.Shard) error {
			began <- struct{}{}
			<-ctx.Done()
			return nil
		})
	}()
	<-began
	<-began
	// For instance in a handler that refuses requests for the shards of others.
	for _, s := range p.Holds() {
		fmt.Println("shard", s.Number(), "is ours:", s.Err() == nil)
	}
	stop()
	<-done
	// Output:
	// shard 0 is ours: true
	// shard 1 is ours: true
}

func ExampleHealth() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	var health partition.Health
	p, err := partition.New(client, "orders", 1, partition.WithHealth(&health))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ready", health.Ready())
	mux.Handle("/live", health.Live())
	ask := func() {
		w := httptest.NewRecorder() // stands for the kubelet
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	ask()
	err = p.Run(ctx, func(ctx context.Context, _ *partition.Shard) error {
		ask()
		stop()
		<-ctx.Done()
		return nil
	})
	ask()
	fmt.Println(err)
	// Output:
	// 503 not a member
	// 200 holds 1 of 1 shards
	// 503 not a member
	// context canceled
}
