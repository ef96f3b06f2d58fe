package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/history"
)

// chaosTime is how long each service is shaken: BATON_CHAOS seconds, or a few.
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

// TestRecipesUnderABrokenNetwork breaks the network of clients who contend for
// a lock, a read-write lock, a semaphore and an election in all the ways that a
// proxy knows, and stops and kills a process that contends beside them. All of
// them sometimes give up. Nobody may hold beside another whom it excludes,
// tokens rise, nobody is overtaken, no update is lost, all get on, and in the
// end nothing is left in the queues.
func TestRecipesUnderABrokenNetwork(t *testing.T) {
	const ttl, leastGrants = 4 * time.Second, 5
	together(t, func(t *testing.T, s site) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var members []*member
		for i := range 3 {
			members = append(members, s.member(t, fmt.Sprintf("client-%d", i), ttl))
		}
		c := muster(t, s, seed, members)
		c.fork()
		length := chaosTime(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { // a busy machine gets as far in some time more
			pause(ctx, length)
			for end := time.Now().Add(time.Minute); ctx.Err() == nil && c.fewest() < leastGrants && time.Now().Before(end); {
				pause(ctx, 100*time.Millisecond)
			}
			stop()
		}()
		c.storm(ctx, ttl)
		report := c.end(ttl)
		t.Logf("%v", report)
		for _, kind := range []history.Kind{history.Mutex, history.Read, history.Write, history.Permits, history.Term} {
			if report.Grants[kind] < leastGrants {
				t.Errorf("only %d grants of %s", report.Grants[kind], kind)
			}
		}
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
