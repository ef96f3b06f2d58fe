package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// replica makes a client of a service, its link, and a mutex.
func replica(svc *memory.Service, opts ...coordinator.Option) (*memory.Driver, *coordinator.Client, *mutex.Mutex) {
	link := svc.Driver()
	opts = append(opts, coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	client, err := coordinator.New(link, opts...)
	if err != nil {
		panic(err)
	}
	m, err := mutex.New(client, "jobs")
	if err != nil {
		panic(err)
	}
	return link, client, m
}

// The session of the first replica ends, and the second gets the lock.
func Example() {
	ctx := context.Background()
	svc := memory.NewService()
	link, client, first := replica(svc)
	defer client.Close(ctx)
	_, client, second := replica(svc)
	defer client.Close(ctx)

	lost, _ := first.Lock(ctx)
	link.Expire() // as an operator, or the service after the TTL
	<-lost.Context().Done()
	fmt.Println("the first:", errors.Is(lost.Err(), coordinator.ErrSessionLost))

	next, err := second.Lock(ctx)
	fmt.Println("the second:", err, next.Token() > lost.Token())
	// Output:
	// the first: true
	// the second: <nil> true
}

// The request to join is applied and its reply is lost. The client repeats it
// and finds its own entry.
func ExampleOnce() {
	ctx := context.Background()
	svc := memory.NewService()
	_, client, m := replica(svc)
	defer client.Close(ctx)

	svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DropReply: true}))
	_, err := m.Lock(ctx)
	fmt.Println(err, "joins:", svc.Stats().Requests[memory.OpJoin], "entries:", svc.Stats().Entries)
	// Output:
	// <nil> joins: 2 entries: 1
}

// The requests of a client that is cut off arrive late.
func ExampleDriver_Cut() {
	ctx := context.Background()
	svc := memory.NewService()
	link, client, m := replica(svc)
	defer client.Close(ctx)
	_, _ = client.Session(ctx)

	link.Cut()
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := m.Lock(short)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), "entries:", svc.Stats().Entries)

	link.Heal() // the late request arrives, and the client removes its entry
	lock, err := m.Lock(ctx)
	fmt.Println(err, lock.Err())
	// Output:
	// true entries: 0
	// <nil> <nil>
}

// The requests of an uncontended lock.
func ExampleStats_Since() {
	ctx := context.Background()
	svc := memory.NewService()
	_, client, m := replica(svc)
	defer client.Close(ctx)
	_, _ = client.Session(ctx)

	before := svc.Stats()
	lock, _ := m.Lock(ctx)
	_ = lock.Unlock(ctx)
	cost := svc.Stats().Since(before)
	fmt.Println(cost.Total(), "requests", cost.Requests, cost.Wakeups, "wake-ups")
	// Output:
	// 2 requests map[join:1 leave:1] 0 wake-ups
}

// An operator deletes the holder's entry.
func Example_break() {
	ctx := context.Background()
	svc := memory.NewService()
	_, client, m := replica(svc)
	defer client.Close(ctx)

	lock, _ := m.Lock(ctx)
	fmt.Println("removed:", client.Break(ctx, "mutex", "jobs", lock.Token()))
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// removed: <nil>
	// baton: unlock "jobs": not held
}

// A Tally keeps the events of a client.
func ExampleTally() {
	ctx := context.Background()
	var events memory.Tally
	link, client, m := replica(memory.NewService(), coordinator.WithObserver(&events))
	defer client.Close(ctx)

	lock, _ := m.Lock(ctx)
	link.Expire()
	<-lock.Context().Done()
	_, _ = m.Lock(ctx) // the client has opened another session
	fmt.Println("granted:", events.Count(event.Granted), "sessions:", events.Count(event.SessionOpened))
	// Output:
	// granted: 2 sessions: 2
}
