package integration_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/recipes/barrier"
)

// TestBarrierHoldsBackOtherClients until it is removed, also when the client
// that set it has closed.
func TestBarrierHoldsBackOtherClients(t *testing.T) {
	t.Parallel()
	const waiters = 5
	together(t, func(t *testing.T, s site) {
		name := fresh(t)("gate")
		open := func(c *coordinator.Client) *barrier.Barrier {
			b, err := barrier.New(c, name)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		setter := s.client(t, longTTL)
		remover := open(s.client(t, longTTL))
		var clients []*coordinator.Client
		var all []*barrier.Barrier
		for range waiters {
			c := s.client(t, longTTL)
			b := open(c)
			if err := b.Wait(await.Context(t)); err != nil {
				t.Fatalf("before the first Set: %v", err)
			}
			clients, all = append(clients, c), append(all, b)
		}
		if err := open(setter).Set(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			passed := make(chan error, waiters)
			for _, b := range all { // which must see the Set that has ended
				go func() { passed <- b.Wait(await.Context(t)) }()
			}
			if err := setter.Close(await.Context(t)); err != nil {
				t.Error(err)
			}
			for _, c := range clients {
				s.settle(t, c)
			}
			select {
			case err := <-passed:
				t.Errorf("passed a closed barrier: %v", err)
			default:
			}
			if err := remover.Remove(await.Context(t)); err != nil {
				t.Fatal(err)
			}
			if err := remover.Set(await.Context(t)); err != nil { // they pass nevertheless
				t.Fatal(err)
			}
			for range waiters {
				if err := <-passed; err != nil {
					t.Errorf("wait: %v", err)
				}
			}
		}
	})
}
