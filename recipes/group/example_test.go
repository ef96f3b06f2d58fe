package group_test

import (
	"context"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/group"
)

func Example() {
	ctx := context.Background()
	// memory stands for coordinator.Open("etcd://…") or "zk://…".
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	workers, err := group.New(client, "workers")
	if err != nil {
		log.Fatal(err)
	}
	m, err := workers.Join(ctx, []byte("10.0.0.7:8080"))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Leave(ctx)
	members, err := workers.Members(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range members {
		fmt.Printf("%s\n", m.Value)
	}
	// Output: 10.0.0.7:8080
}

// An observer gets the members, and again after each change.
func ExampleGroup_Observe() {
	ctx := context.Background()
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	workers, err := group.New(client, "workers")
	if err != nil {
		log.Fatal(err)
	}

	var m *group.Member
	for members, err := range workers.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(members), "members")
		if m != nil {
			break
		}
		if m, err = workers.Join(ctx, nil); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(m.Leave(ctx))
	// Output:
	// 0 members
	// 1 members
	// <nil>
}

// Run stays a member, also after lost sessions, until its context ends.
func ExampleGroup_Run() {
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	workers, err := group.New(client, "workers", group.WithIdentity("web-1"))
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	err = workers.Run(ctx, []byte("starting"), func(ctx context.Context, m *group.Member) error {
		if err := m.Update(ctx, []byte("10.0.0.7:8080")); err != nil {
			return err
		}
		members, err := workers.Members(ctx)
		for _, m := range members {
			fmt.Printf("%s at %s\n", m.Identity, m.Value)
		}
		stop() // the process is told to end
		<-ctx.Done()
		return err
	})
	fmt.Println(err)
	// Output:
	// web-1 at 10.0.0.7:8080
	// context canceled
}
