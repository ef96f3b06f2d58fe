package integration_test

import (
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes/barrier"
)

// TestBarrierHoldsBackOtherClients until it is removed, also when the client
// that set it has closed.
func TestBarrierHoldsBackOtherClients(t *testing.T) {
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
		var all []*barrier.Barrier
		for range waiters {
			b := open(s.client(t, longTTL))
			if err := b.Wait(within(t, patience)); err != nil {
				t.Fatalf("before the first Set: %v", err)
			}
			all = append(all, b)
		}
		if err := open(setter).Set(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			passed := make(chan error, waiters)
			for _, b := range all { // which must see the Set that has ended
				go func() { passed <- b.Wait(within(t, patience)) }()
			}
			if err := setter.Close(within(t, patience)); err != nil {
				t.Error(err)
			}
			select {
			case err := <-passed:
				t.Errorf("passed a closed barrier: %v", err)
			case <-time.After(2 * time.Second): // all have read it by then
			}
			if err := remover.Remove(within(t, patience)); err != nil {
				t.Fatal(err)
			}
			if err := remover.Set(within(t, patience)); err != nil { // they pass nevertheless
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
