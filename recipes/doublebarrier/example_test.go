package doublebarrier_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/doublebarrier"
)

func Example() {
	ctx := context.Background()
	// memory stands for coordinator.Open("etcd://…") or "zk://…".
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	phase, err := doublebarrier.New(client, "phase", 3)
	if err != nil {
		log.Fatal(err)
	}
	var processes sync.WaitGroup
	for range 3 {
		processes.Go(func() {
			m, err := phase.Enter(ctx)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("round", m.Round())
			err = m.Leave(ctx)
			var lost *doublebarrier.MemberLostError
			if errors.As(err, &lost) {
				log.Print("repeat the phase without ", lost.Members)
			}
		})
	}
	processes.Wait()
	// Output:
	// round 1
	// round 1
	// round 1
}
