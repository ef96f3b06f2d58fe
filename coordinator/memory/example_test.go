package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// Two clients of one service: the second waits until the first has left.
func Example() {
	ctx := context.Background()
	svc := memory.NewService()
	const line = driver.Line("m/jobs")

	a, _ := svc.Driver().Open(ctx, 10*time.Second)
	b, _ := svc.Driver().Open(ctx, 10*time.Second)
	first, _ := a.Join(ctx, line, driver.Contender{ID: "aaaaaaaaaaaaaaaa", Mode: "x"})
	second, _ := b.Join(ctx, line, driver.Contender{ID: "bbbbbbbbbbbbbbbb", Mode: "x"})
	fmt.Println("a is first:", first.First)

	view, _ := b.Ahead(ctx, line, second.Place)
	fmt.Println("b waits for:", view.Ahead[0].ID)
	go func() { _ = a.Leave(ctx, line, first.Place) }()
	_ = b.Watch(ctx, line, view.Ahead...)

	view, _ = b.Ahead(ctx, line, second.Place)
	fmt.Println("ahead of b now:", len(view.Ahead))
	fmt.Println("b's token is higher:", second.Token > first.Token)
	// Output:
	// a is first: true
	// b waits for: aaaaaaaaaaaaaaaa
	// ahead of b now: 0
	// b's token is higher: true
}

// An operator ends a session: its entries go, and its client is told.
func ExampleService_Expire() {
	ctx := context.Background()
	svc := memory.NewService()
	s, _ := svc.Driver().Open(ctx, 10*time.Second)
	_, _ = s.Join(ctx, "m/jobs", driver.Contender{ID: "aaaaaaaaaaaaaaaa", Mode: "x"})

	svc.Expire(s.ID())
	<-s.Done()
	fmt.Println("entries:", len(svc.Snapshot("m/jobs")))
	fmt.Println("renew:", s.Renew(ctx))
	// Output:
	// entries: 0
	// renew: session lost: memory: session is over
}

// The reply of a Join is lost: the caller sees an error, and the entry is there.
func ExampleService_OnRequest() {
	ctx := context.Background()
	svc := memory.NewService()
	s, _ := svc.Driver().Open(ctx, 10*time.Second)
	svc.OnRequest(func(r memory.Request) memory.Fate {
		return memory.Fate{DropReply: r.Op == memory.OpJoin}
	})
	c := driver.Contender{ID: "aaaaaaaaaaaaaaaa", Mode: "x"}
	_, err := s.Join(ctx, "m/jobs", c)
	fmt.Println(err)

	svc.OnRequest(nil)
	c.Again = true
	j, _ := s.Join(ctx, "m/jobs", c)
	fmt.Println("found again:", j.Place.ID, "of", svc.Stats().Entries)
	// Output:
	// service unavailable: memory: connection reset
	// found again: aaaaaaaaaaaaaaaa of 1
}

// A client that is cut off knows nothing, and what it sends arrives late.
func ExampleDriver_Cut() {
	ctx := context.Background()
	svc := memory.NewService()
	d := svc.Driver()
	s, _ := d.Open(ctx, 10*time.Second)

	d.Cut()
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := s.Join(short, "m/jobs", driver.Contender{ID: "aaaaaaaaaaaaaaaa", Mode: "x"})
	fmt.Println(err, "- entries:", len(svc.Snapshot("m/jobs")))

	d.Heal()
	fmt.Println("healed - entries:", len(svc.Snapshot("m/jobs")))
	// Output:
	// context deadline exceeded - entries: 0
	// healed - entries: 1
}

// Tests count what their code costs the service.
func ExampleService_Stats() {
	ctx := context.Background()
	svc := memory.NewService()
	s, _ := svc.Driver().Open(ctx, 10*time.Second)
	_, _ = s.Join(ctx, "m/jobs", driver.Contender{ID: "aaaaaaaaaaaaaaaa", Mode: "x"})

	stats := svc.Stats()
	fmt.Println("joins:", stats.Requests[memory.OpJoin], "of", stats.Total(), "requests")
	fmt.Println("sessions:", stats.Sessions, "entries:", stats.Entries, "watches:", stats.Watches)
	// Output:
	// joins: 1 of 2 requests
	// sessions: 1 entries: 1 watches: 0
}
