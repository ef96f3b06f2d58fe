package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
)

// newClient replaces coordinator.Open("etcd://…") or "zk://…" in these
// examples.
func newClient(svc *memory.Service, identity string) *coordinator.Client {
	c, err := coordinator.New(svc.Driver(), coordinator.WithIdentity(identity))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	client := newClient(memory.NewService(), "reporter")
	defer client.Close(ctx)

	m, err := mutex.New(client, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	err = m.Do(ctx, func(ctx context.Context, lock *mutex.Lock) error {
		fmt.Println("no other process writes the report now:", lock.Token() > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// no other process writes the report now: true
	// <nil>
}

// A lock has a token for the resource and a context for the work. Unlock works
// even if ctx has ended.
func ExampleMutex_Lock() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // how long to wait for it
	defer cancel()
	client := newClient(memory.NewService(), "reporter")
	defer client.Close(ctx)
	m, err := mutex.New(client, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}

	lock, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println("token is positive:", lock.Token() > 0)
	select {
	case <-lock.Context().Done():
		fmt.Println("lost:", context.Cause(lock.Context()))
	default:
		fmt.Println("held")
	}
	// Output:
	// token is positive: true
	// held
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	svc := memory.NewService()
	alice, bob := newClient(svc, "alice"), newClient(svc, "bob")
	defer alice.Close(ctx)
	defer bob.Close(ctx)
	ma, _ := mutex.New(alice, "nightly-report")
	mb, _ := mutex.New(bob, "nightly-report")

	if _, err := ma.TryLock(ctx); err != nil {
		log.Fatal(err)
	}
	_, err := mb.TryLock(ctx)
	var taken *recipes.TakenError
	if errors.As(err, &taken) {
		fmt.Println("taken by", taken.Holder.Identity)
	}
	// Output:
	// taken by alice
}

// Lock with a hold's context re-enters, so functions that lock can call each
// other.
func ExampleLock_Context() {
	ctx := context.Background()
	client := newClient(memory.NewService(), "reporter")
	defer client.Close(ctx)
	m, _ := mutex.New(client, "nightly-report")

	outer, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	inner, err := m.Lock(outer.Context())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("same grant:", inner.Token() == outer.Token())
	fmt.Println(inner.Unlock(ctx), outer.Unlock(ctx))
	fmt.Println(outer.Unlock(ctx))
	// Output:
	// same grant: true
	// <nil> <nil>
	// baton: unlock "nightly-report": not held
}

func ExampleMutex_Contenders() {
	ctx := context.Background()
	svc := memory.NewService()
	alice := newClient(svc, "alice")
	defer alice.Close(ctx)
	m, _ := mutex.New(alice, "nightly-report", mutex.WithPayload([]byte("batch 7")))

	lock, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	list, err := m.Contenders(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range list {
		fmt.Printf("%s: %s, holding %v\n", c.Identity, c.Payload, c.Holding)
	}
	// Output:
	// alice: batch 7, holding true
}

// A job goes on until another contender is queued, and then gives way.
func ExampleLock_Wanted() {
	ctx := context.Background()
	svc := memory.NewService()
	alice, bob := newClient(svc, "alice"), newClient(svc, "bob")
	defer alice.Close(ctx)
	defer bob.Close(ctx)
	ma, _ := mutex.New(alice, "index")
	mb, _ := mutex.New(bob, "index")

	urgent := make(chan error)
	err := ma.Do(ctx, func(ctx context.Context, lock *mutex.Lock) error {
		go func() {
			// Not with alice's context, which ends with her lock.
			urgent <- mb.Do(context.Background(), func(context.Context, *mutex.Lock) error {
				fmt.Println("bob works")
				return nil
			})
		}()
		if err := lock.Wanted(ctx); err != nil {
			return err
		}
		fmt.Println("alice stops")
		return nil
	})
	fmt.Println(err, <-urgent)
	// Output:
	// alice stops
	// bob works
	// <nil> <nil>
}

// Two callers take two locks in two orders, each the inner one with the context
// of the outer one. The younger gives up, and releases its outer lock.
func ExampleWithDeadlockError() {
	ctx := context.Background()
	client, err := coordinator.New(memory.NewService().Driver(),
		coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	stock, _ := mutex.New(client, "stock", mutex.WithDeadlockError())
	orders, _ := mutex.New(client, "orders", mutex.WithDeadlockError())

	both := func(outer, inner *mutex.Mutex, ready func()) error {
		return outer.Do(ctx, func(ctx context.Context, _ *mutex.Lock) error {
			ready()
			return inner.Do(ctx, func(context.Context, *mutex.Lock) error { return nil })
		})
	}
	var first sync.WaitGroup
	first.Add(2)
	ready := func() { first.Done(); first.Wait() } // each has one of the two
	other := make(chan error, 1)
	go func() { other <- both(orders, stock, ready) }()
	one := both(stock, orders, ready)
	two := <-other
	fmt.Println(errors.Is(one, recipes.ErrDeadlock) != errors.Is(two, recipes.ErrDeadlock))
}
