package coredriver_test

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/coordinatortest/coredriver"
	"github.com/baton-go/baton/mutex"
)

// The package registers the scheme core. Clients with the same host share a
// service.
func Example() {
	ctx := context.Background()
	client, err := coordinator.Open("core://example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	m, err := mutex.New(client, "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Do(ctx, func(context.Context, *mutex.Lock) error {
		fmt.Println("alone")
		return nil
	}))
	// Output:
	// alone
	// <nil>
}
