package integration_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/recipes/counter"
)

// TestAdditionsWithLostRepliesAreExact: the replies to four clients are lost
// again and again, after their requests were applied. All additions succeed, so
// the value is their number.
func TestAdditionsWithLostRepliesAreExact(t *testing.T) {
	t.Parallel()
	const ttl, clients = 10 * time.Second, 4
	together(t, func(t *testing.T, s site) {
		name := fresh(t)("exact")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		sums := map[int64]int{}
		cuts := 0
		enough := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(sums) >= 30 && cuts >= 20
		}
		var wg sync.WaitGroup
		for i := range clients {
			proxy := servers.Proxy(t, s.endpoints)
			c, err := counter.New(s.client(t, ttl, proxy.Addr()), name)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for r := rand.New(rand.NewPCG(uint64(i), 0)); ctx.Err() == nil; {
					await.For(ctx, time.Duration(r.IntN(150))*time.Millisecond)
					proxy.CutDown()
					await.For(ctx, time.Duration(5+r.IntN(150))*time.Millisecond)
					proxy.DropHeld()
					mu.Lock()
					cuts++
					mu.Unlock()
				}
			})
			wg.Go(func() {
				for ctx.Err() == nil {
					sum, err := c.Add(await.Context(t), 1)
					mu.Lock()
					if sums[sum]++; err != nil || sums[sum] > 1 {
						t.Errorf("sum %d, the %d. time: %v", sum, sums[sum], err)
					}
					mu.Unlock()
				}
			})
		}
		await.For(ctx, chaosTime(t))
		await.Until(t, "thirty additions and twenty cuts", enough)
		stop()
		wg.Wait()
		c, err := counter.New(s.client(t, ttl), name)
		if err != nil {
			t.Fatal(err)
		}
		last, err := c.Get(await.Context(t))
		if err != nil || last != int64(len(sums)) {
			t.Errorf("the value is %d after %d additions: %v", last, len(sums), err)
		}
		t.Logf("%d additions, %d cuts", len(sums), cuts)
	})
}
