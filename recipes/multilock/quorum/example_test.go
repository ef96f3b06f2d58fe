package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

// register is a resource that compares the tokens of all services.
type register struct {
	need  int
	seen  []coordinator.Token
	value string
}

func (r *register) write(tokens []coordinator.Token, value string) error {
	shown := 0
	for i, token := range tokens {
		switch {
		case token == 0: // not held at the grant
			continue
		case token < r.seen[i]:
			return errors.New("refused: a stale token")
		}
		shown++
	}
	if shown < r.need {
		return errors.New("refused: too few tokens")
	}
	for i, token := range tokens {
		r.seen[i] = max(r.seen[i], token)
	}
	r.value = value
	return nil
}

// A write of an earlier holder, which was stopped, is refused.
func Example() {
	ctx := context.Background()
	var clients []*coordinator.Client
	for range 3 { // three clusters that share nothing
		// memory stands for coordinator.Open("etcd://…") or "zk://…".
		client, err := coordinator.New(memory.NewService().Driver())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close(ctx)
		clients = append(clients, client)
	}
	q, err := quorum.New("nightly", quorum.Majority, clients)
	if err != nil {
		log.Fatal(err)
	}
	r := &register{need: 2, seen: make([]coordinator.Token, 3)}

	var stale []coordinator.Token
	for _, night := range []string{"first", "second"} {
		lock, err := q.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(night, r.write(lock.Tokens(), night))
		if stale == nil {
			stale = lock.Tokens()
		}
		if err := lock.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("late:", r.write(stale, "first"))
	fmt.Println(r.value)
	// Output:
	// first <nil>
	// second <nil>
	// late: refused: a stale token
	// second
}
