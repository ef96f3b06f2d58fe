package integration_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/ways"
)

func newElection(t testing.TB, c *coordinator.Client, name string) *election.Election {
	t.Helper()
	e, err := election.New(c, name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Six clients hold in all ways of a recipe, for random times. What they hold
// together is never more than there is, and shared holds are shared.
func TestEachRecipeExcludes(t *testing.T) {
	t.Parallel()
	parts := map[ways.Way]int{ways.Read: 1, ways.Permit: 1, ways.Two: 2} // of ways.Permits; others take all
	recipes := [][]ways.Way{{ways.Lock}, {ways.Term}, {ways.Write, ways.Read, ways.Read}, {ways.Permit, ways.Two, ways.All}}
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		taken, most := make([]int, len(recipes)), make([]int, len(recipes))
		var mu sync.Mutex
		count := func(recipe, n int) {
			mu.Lock()
			defer mu.Unlock()
			taken[recipe] += n
			if most[recipe] = max(most[recipe], taken[recipe]); taken[recipe] > ways.Permits {
				t.Errorf("%v: %d of %d are held", recipes[recipe], taken[recipe], ways.Permits)
			}
		}
		var all sync.WaitGroup
		for i := range ways.Permits {
			c, r := s.client(t, longTTL), rand.New(rand.NewPCG(uint64(i), 1))
			all.Go(func() {
				for round := range 100 {
					recipe := round % len(recipes)
					w := recipes[recipe][r.IntN(len(recipes[recipe]))]
					n, partial := parts[w]
					if !partial {
						n = ways.Permits
					}
					h, err := w.Ask(await.Context(t), c, name(fmt.Sprint(recipe)))
					if err != nil {
						t.Error(err)
						return
					}
					count(recipe, n)
					await.For(h.Context, time.Duration(r.IntN(3000))*time.Microsecond)
					count(recipe, -n)
					hold{h}.mustRelease(t)
				}
			})
		}
		all.Wait()
		t.Logf("held at most: %v", most)
		for recipe := range recipes {
			way(recipes[recipe][0]).queued(t, s.client(t, longTTL), name(fmt.Sprint(recipe)), 0)
		}
	})
}
