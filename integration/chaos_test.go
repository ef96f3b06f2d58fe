package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/history"
)

// chaosTime is how long faults are injected into each service: BATON_CHAOS
// seconds, or a few.
func chaosTime(t *testing.T) time.Duration {
	s := os.Getenv("BATON_CHAOS")
	if s == "" {
		return 6 * time.Second
	}
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		t.Fatalf("BATON_CHAOS=%q is not a positive number of seconds", s)
	}
	return time.Duration(n) * time.Second
}

// Clients contend for all recipes while their networks fail in all the ways
// that a proxy can inject; another process contends with them and is stopped
// and killed. Some attempts time out. The history must show exclusion, rising
// tokens, no overtaking, no lost update and progress of all, and in the end the
// queues are empty.
func TestRecipesUnderABrokenNetwork(t *testing.T) {
	const ttl, leastGrants = 4 * time.Second, 5
	together(t, func(t *testing.T, s site) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var members []*member
		for i := range 3 {
			members = append(members, s.member(t, fmt.Sprintf("client-%d", i), ttl))
		}
		c := startCrew(t, s, seed, members)
		c.fork()
		length := chaosTime(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { // a busy machine gets more time
			await.For(ctx, length)
			for end := time.Now().Add(time.Minute); ctx.Err() == nil && c.fewest() < leastGrants && time.Now().Before(end); {
				await.For(ctx, 100*time.Millisecond)
			}
			stop()
		}()
		c.injectFaults(ctx, ttl)
		report := c.end(ttl)
		t.Logf("%v", report)
		for _, kind := range []history.Kind{history.Mutex, history.Read, history.Write, history.Permits, history.Term} {
			if report.Grants[kind] < leastGrants {
				t.Errorf("only %d grants of %s", report.Grants[kind], kind)
			}
		}
	})
}
