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

// replica makes a client of a service, with the levers of its link, and a lock.
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

// Two replicas of one service: the session of the first ends, and the second
// has its lock.
func Example() {
	ctx := context.Background()
	svc := memory.NewService()
	link, client, first := replica(svc)
	defer client.Close(ctx)
	_, client, second := replica(svc)
	defer client.Close(ctx)

	lost, _ := first.Lock(ctx)
	link.Expire() // as an operator would, or the service when nothing is heard of a client
	<-lost.Context().Done()
	fmt.Println("the first:", errors.Is(lost.Err(), coordinator.ErrSessionLost))

	next, err := second.Lock(ctx)
	fmt.Println("the second:", err, next.Token() > lost.Token())
	// Output:
	// the first: true
	// the second: <nil> true
}

// The request to be queued is applied and its reply is lost. The client asks
// again, and finds its own entry.
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

// A client that is cut off knows nothing, and what it has sent arrives late.
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

	link.Heal() // the late request arrives, and is taken back: nobody waits for it any more
	lock, err := m.Lock(ctx)
	fmt.Println(err, lock.Err())
	// Output:
	// true entries: 0
	// <nil> <nil>
}

// What a lock costs the service if nobody else is there.
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

// An operator deletes the entry that holds.
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

// A tally is told what happens to a client, so that a test need not guess.
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
