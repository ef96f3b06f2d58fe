package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

var quiet = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// One client serves a whole process. Importing a driver registers its schemes:
// etcd, zk or, as here, memory.
func ExampleOpen() {
	ctx := context.Background()
	client, err := coordinator.Open("memory://?ttl=20s", coordinator.WithIdentity("reporter"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx) // releases all holds

	fmt.Println(client.Identity())
	_, err = coordinator.Open("memory://?tll=20s")
	fmt.Println(errors.Is(err, coordinator.ErrInvalid))
	// Output:
	// reporter
	// true
}

// Different failures call for different reactions.
func Example_errors() {
	svc := memory.NewService()
	lock := func(d *memory.Driver) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		client, err := coordinator.New(d, quiet)
		if err != nil {
			log.Fatal(err)
		}
		m, err := mutex.New(client, "job")
		if err != nil {
			log.Fatal(err)
		}
		_, err = m.TryLock(ctx)
		switch {
		case err == nil:
			fmt.Println("held")
		case errors.Is(err, coordinator.ErrTaken):
			fmt.Println("taken: someone else does the job")
		case errors.Is(err, coordinator.ErrUnavailable):
			fmt.Println("unavailable: try again later")
		}
	}
	lock(svc.Driver())
	lock(svc.Driver())
	cut := svc.Driver()
	cut.Cut()
	lock(cut)
	// Output:
	// held
	// taken: someone else does the job
	// unavailable: try again later
}

// An observer is called from many goroutines and must return quickly.
func ExampleWithObserver() {
	ctx := context.Background()
	granted := event.ObserverFunc(func(e event.Event) {
		if e.Kind == event.Granted {
			fmt.Println("granted:", e.Queue)
		}
	})
	client, err := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(granted))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	m, err := mutex.New(client, "job")
	if err != nil {
		log.Fatal(err)
	}
	_ = m.Do(ctx, func(context.Context, *mutex.Lock) error { return nil })
	// Output: granted: mutex/job
}

// An operator removes a holder that hangs.
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
	queues, err := operator.Queues(ctx, "orders/")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(queues)

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
