package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// An operator sees who holds, and takes the lock away from a holder that hangs.
func ExampleClient_Break() {
	ctx := context.Background()
	svc := memory.NewService()
	holder, err := coordinator.New(svc.Driver(), coordinator.WithIdentity("web-1"), quiet)
	if err != nil {
		log.Fatal(err)
	}
	defer holder.Close(ctx)
	m, err := mutex.New(holder, "orders/nightly")
	if err != nil {
		log.Fatal(err)
	}
	lock, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	operator, err := coordinator.New(svc.Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close(ctx)
	lines, err := operator.Lines(ctx, "orders/")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lines)

	err = operator.Break(ctx, "mutex", "orders/nightly", lock.Token()+1)
	fmt.Println(errors.Is(err, coordinator.ErrNotHeld))

	fmt.Println(operator.Break(ctx, "mutex", "orders/nightly", lock.Token()))
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// [{mutex orders/nightly}]
	// true
	// <nil>
	// baton: unlock "orders/nightly": not held
}
