package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// newElection replaces coordinator.Open("etcd://…") or "zk://…" and
// election.New in these examples.
func newElection(svc *memory.Service, identity string) (e *election.Election, closeClient func()) {
	client, err := coordinator.New(svc.Driver(), coordinator.WithIdentity(identity))
	if err != nil {
		log.Fatal(err)
	}
	if e, err = election.New(client, "scheduler"); err != nil {
		log.Fatal(err)
	}
	return e, func() { _ = client.Close(context.Background()) }
}

// A service that leads until its context ends, as with signal.NotifyContext.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	e, closeClient := newElection(memory.NewService(), "replica-1")
	defer closeClient()

	err := e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		fmt.Println("leading; token is positive:", t.Token() > 0)
		stop() // SIGTERM
		<-ctx.Done()
		fmt.Println("told to stop; still leading:", t.Err() == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading; token is positive: true
	// told to stop; still leading: true
	// context canceled
}

// A term without Run: with a token for the resource and a context for the work.
func ExampleElection_Campaign() {
	ctx := context.Background()
	e, closeClient := newElection(memory.NewService(), "replica-1")
	defer closeClient()

	term, err := e.Campaign(ctx, []byte("10.0.0.1:8080"))
	if err != nil {
		log.Fatal(err)
	}
	leader, err := e.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s leads at %s, by this term: %v\n",
		leader.Identity, leader.Payload, leader.Token == term.Token())
	fmt.Println(term.Resign(ctx), context.Cause(term.Context()))
	// Output:
	// replica-1 leads at 10.0.0.1:8080, by this term: true
	// <nil> released
}

// A router that follows the leader.
func ExampleElection_Observe() {
	ctx := context.Background()
	svc := memory.NewService()
	e, closeClient := newElection(svc, "replica-1")
	defer closeClient()
	router, closeRouter := newElection(svc, "router")
	defer closeRouter()

	term, err := e.Campaign(ctx, []byte("starting"))
	if err != nil {
		log.Fatal(err)
	}
	for leader, err := range router.Observe(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case leader.Token == 0:
			fmt.Println("no leader")
			return
		case string(leader.Payload) == "starting":
			fmt.Println(leader.Identity, "is starting")
			_ = term.Proclaim(ctx, []byte("10.0.0.1:8080"))
		default:
			fmt.Printf("route to %s\n", leader.Payload)
			_ = term.Resign(ctx)
		}
	}
	// Output:
	// replica-1 is starting
	// route to 10.0.0.1:8080
	// no leader
}

// Another goroutine, such as the handler of a request, asks whether this
// process leads.
func ExampleElection_Current() {
	ctx := context.Background()
	e, closeClient := newElection(memory.NewService(), "replica-1")
	defer closeClient()
	handle := func() {
		if t := e.Current(); t != nil {
			fmt.Println("leads, token is positive:", t.Token() > 0)
		} else {
			fmt.Println("does not lead")
		}
	}

	handle()
	_ = e.Run(ctx, func(context.Context, *election.Term) error {
		handle()
		return nil
	})
	handle()
	// Output:
	// does not lead
	// leads, token is positive: true
	// does not lead
}

// Work that steps down is queued again at the end, and may be elected again.
func ExampleElection_Run_stepDown() {
	e, closeClient := newElection(memory.NewService(), "replica-1")
	defer closeClient()
	terms := 0
	err := e.Run(context.Background(), func(context.Context, *election.Term) error {
		if terms++; terms < 3 {
			return fmt.Errorf("database is slow from here: %w", election.ErrStepDown)
		}
		return nil // done
	}, election.WithPause(time.Millisecond, time.Millisecond))
	fmt.Println(terms, err)
	// Output:
	// 3 <nil>
}

// An error of work ends only the term. Stop ends Run, too.
func ExampleStop() {
	e, closeClient := newElection(memory.NewService(), "replica-1")
	defer closeClient()
	terms := 0
	err := e.Run(context.Background(), func(context.Context, *election.Term) error {
		if terms++; terms < 3 {
			return errors.New("database is away")
		}
		return election.Stop(errors.New("schema is too new for this version"))
	}, election.WithOnError(func(err error) { fmt.Println("goes on:", err) }),
		election.WithPause(time.Millisecond, time.Millisecond))
	fmt.Println("Run:", err)
	// Output:
	// goes on: baton: run "scheduler": work: database is away
	// goes on: baton: run "scheduler": work: database is away
	// Run: schema is too new for this version
}

// Work that hangs while its session lives: another replica leads.
func ExampleWithProgress() {
	e, closeClient := newElection(memory.NewService(), "replica-1")
	defer closeClient()
	terms := 0
	err := e.Run(context.Background(), func(ctx context.Context, t *election.Term) error {
		if terms++; terms > 1 {
			return nil
		}
		for range 3 {
			t.Progress() // after each job
		}
		<-ctx.Done() // a job that hangs, until its context ends
		return ctx.Err()
	}, election.WithProgress(50*time.Millisecond),
		election.WithOnError(func(err error) { fmt.Println("goes on:", err) }))
	fmt.Println(terms, err)
	// Output:
	// goes on: baton: run "scheduler": work has made no progress for 50ms
	// 2 <nil>
}

// A planned hand-over to a chosen replica, although another one has waited for
// longer.
func ExampleTerm_TransferTo() {
	ctx := context.Background()
	svc := memory.NewService()
	old1, close1 := newElection(svc, "old-1")
	defer close1()
	term, err := old1.Campaign(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	leads := make(chan *election.Term)
	for i, identity := range []string{"old-2", "new-1"} {
		e, closeClient := newElection(svc, identity)
		defer closeClient()
		go func() {
			next, err := e.Campaign(ctx, nil)
			if err == nil {
				fmt.Println(identity, "leads")
				leads <- next
			}
		}()
		for all, _ := old1.Candidates(ctx); len(all) < i+2; all, _ = old1.Candidates(ctx) {
			time.Sleep(time.Millisecond) // until it is queued
		}
	}

	if err := term.TransferTo(ctx, "new-1"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("old-1 leads:", term.Err() == nil)
	_ = (<-leads).Resign(ctx)
	_ = (<-leads).Resign(ctx)
	// Unordered output:
	// old-1 leads: false
	// new-1 leads
	// old-2 leads
}

// A rolling deploy: the replicas of the newest build lead, and each deploy
// moves the leadership once.
func ExampleWithPriority() {
	ctx, stop := context.WithCancel(context.Background())
	svc := memory.NewService()
	leads := make(chan string, 9)
	var running sync.WaitGroup
	start := func(identity string, build int) (closeClient func()) {
		e, closeClient := newElection(svc, identity)
		running.Go(func() {
			_ = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
				leads <- identity
				<-ctx.Done() // finish the current job
				return nil
			}, election.WithPriority(build), election.WithSettle(50*time.Millisecond),
				election.WithPause(time.Minute, time.Minute))
		})
		return closeClient
	}

	defer start("old-1", 41)()
	fmt.Println(<-leads)
	defer start("old-2", 41)()
	defer start("new-1", 42)()
	fmt.Println(<-leads)
	stop()
	running.Wait()
	// Output:
	// old-1
	// new-1
}

// A readiness probe that sends traffic only to the leader, and a liveness
// probe.
func ExampleHealth() {
	e, closeClient := newElection(memory.NewService(), "replica-1")
	defer closeClient()
	health := new(election.Health)
	mux := http.NewServeMux()
	mux.Handle("/ready", health.Ready())
	mux.Handle("/live", health.Live())
	ask := func(path string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Print(path, " ", w.Code, " ", w.Body)
	}

	ask("/ready")
	_ = e.Run(context.Background(), func(context.Context, *election.Term) error {
		ask("/ready")
		ask("/live")
		return nil
	}, election.WithHealth(health))
	ask("/ready")
	// Output:
	// /ready 503 not leading
	// /ready 200 leading, token 1
	// /live 200 ok
	// /ready 503 not leading: not a candidate
}
