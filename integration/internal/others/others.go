// Package others runs the recipes that are made of records and several entries
// on the service of any client.
package others

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/doublebarrier"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/partition"
)

// bound fails a hang only.
const bound = 2 * time.Minute

// Run runs each recipe with two clients of one service.
func Run(t *testing.T, a, b *coordinator.Client) {
	t.Helper()
	both := []*coordinator.Client{a, b}
	for name, test := range map[string]func(*testing.T, context.Context, []*coordinator.Client){
		"counter": additions, "barrier": waits, "double barrier": rounds, "group": members, "partition": shards,
		"wanted": givesWay,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			test(t, ctx, both)
		})
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// made makes a recipe for each client.
func made[T any](t *testing.T, clients []*coordinator.Client, create func(*coordinator.Client) (T, error)) (all []T) {
	t.Helper()
	for _, c := range clients {
		x, err := create(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// givesWay: a holder learns that another contender is queued.
func givesWay(t *testing.T, ctx context.Context, clients []*coordinator.Client) {
	locks := made(t, clients, func(c *coordinator.Client) (*mutex.Mutex, error) { return mutex.New(c, "w") })
	ok(t, locks[0].Do(ctx, func(ctx context.Context, l *mutex.Lock) error {
		next := make(chan error, 1)
		go func() {
			next <- locks[1].Do(context.WithoutCancel(ctx), func(context.Context, *mutex.Lock) error { return nil })
		}()
		ok(t, l.Wanted(ctx))
		ok(t, l.Unlock(context.WithoutCancel(ctx)))
		return <-next
	}))
}

func additions(t *testing.T, ctx context.Context, clients []*coordinator.Client) {
	counters := made(t, clients, func(c *coordinator.Client) (*counter.Counter, error) { return counter.New(c, "n") })
	const times = 20
	var wg sync.WaitGroup
	for _, c := range counters {
		wg.Go(func() {
			for range times {
				_, err := c.Add(ctx, 1)
				ok(t, err)
			}
		})
	}
	wg.Wait()
	if n, err := counters[0].Get(ctx); n != 2*times || err != nil {
		t.Errorf("%d, %v after %d additions", n, err, 2*times)
	}
}

func waits(t *testing.T, ctx context.Context, clients []*coordinator.Client) {
	barriers := made(t, clients, func(c *coordinator.Client) (*barrier.Barrier, error) { return barrier.New(c, "b") })
	ok(t, barriers[0].Set(ctx))
	passed := make(chan error, 1)
	go func() { passed <- barriers[1].Wait(ctx) }()
	select {
	case err := <-passed:
		t.Errorf("a barrier that is set was passed: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	ok(t, barriers[0].Remove(ctx))
	ok(t, <-passed)
}

func rounds(t *testing.T, ctx context.Context, clients []*coordinator.Client) {
	barriers := made(t, clients, func(c *coordinator.Client) (*doublebarrier.Barrier, error) { return doublebarrier.New(c, "d", 2) })
	var wg sync.WaitGroup
	for _, b := range barriers {
		wg.Go(func() {
			for range 3 {
				m, err := b.Enter(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				ok(t, m.Leave(ctx))
			}
		})
	}
	wg.Wait()
}

func members(t *testing.T, ctx context.Context, clients []*coordinator.Client) {
	groups := made(t, clients, func(c *coordinator.Client) (*group.Group, error) { return group.New(c, "g") })
	var joined []*group.Member
	for _, g := range groups {
		m, err := g.Join(ctx, []byte("value"))
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, m)
	}
	ok(t, joined[0].Leave(ctx))
	ok(t, groups[1].AwaitLeave(ctx, joined[0].Token()))
	all, err := groups[1].Members(ctx)
	if err != nil || len(all) != 1 || all[0].Token != joined[1].Token() || string(all[0].Value) != "value" {
		t.Errorf("%+v, %v; want the second member alone", all, err)
	}
	ok(t, joined[1].Leave(ctx))
}

// shards: each is worked on, by one member at a time.
func shards(t *testing.T, ctx context.Context, clients []*coordinator.Client) {
	const n = 4
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	busy, seen, workers := map[int]bool{}, map[int]bool{}, map[int]bool{}
	var wg sync.WaitGroup
	for i, p := range made(t, clients, func(c *coordinator.Client) (*partition.Partition, error) { return partition.New(c, "p", n) }) {
		wg.Go(func() {
			err := p.Run(ctx, func(work context.Context, s *partition.Shard) error {
				shard := s.Number()
				mu.Lock()
				if busy[shard] {
					t.Errorf("two members work on shard %d", shard)
				}
				busy[shard], seen[shard], workers[i] = true, true, true
				if len(seen) == n && len(workers) == len(clients) {
					cancel()
				}
				mu.Unlock()
				<-work.Done()
				mu.Lock()
				busy[shard] = false
				mu.Unlock()
				return nil
			})
			if ctx.Err() == nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
	wg.Wait()
	if len(seen) != n || len(workers) != len(clients) {
		t.Errorf("%d members worked on %d shards; want %d and %d", len(workers), len(seen), len(clients), n)
	}
}
