package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
)

// The cancelled waiter cannot reach the service.
func TestWaiterCancelledDuringAnOutageIsRemovedWithinASecondAfterIt(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		c, other := s.link(t, 20*time.Second), s.client(t, 10*time.Second)
		name := servers.Name(t)
		probe := newMutex(t, other, name)
		l := lock(t, probe)
		soon(t, "the cancelled waiter is removed after the return", time.Second, func() time.Duration {
			ctx, cancel := context.WithCancel(context.Background())
			got := wait(ctx, newMutex(t, c.Client, name))
			awaitQueue(t, probe, 2)
			refused := func() int64 { return c.proxy.Stats().TurnedAway }
			before := refused()
			c.proxy.Reject()
			c.proxy.Reset()
			await.Until(t, "the client to notice", func() bool { return refused() > before })
			cancel()
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v", err)
			}
			before = refused()
			await.Until(t, "the client to try again", func() bool { return refused() > before })
			if n := inQueue(t, probe); n != 2 {
				t.Fatalf("%d in the queue while the service is away: the test shows nothing", n)
			}
			back := time.Now()
			if err := c.proxy.Admit(); err != nil {
				t.Fatal(err)
			}
			awaitQueue(t, probe, 1)
			return time.Since(back)
		})
		unlock(t, l)
	})
}

// soon repeats what should take no longer than a bound, until it does. A slow
// machine may delay a few runs.
func soon(t *testing.T, what string, bound time.Duration, run func() time.Duration) {
	t.Helper()
	const runs = 5
	for range runs {
		took := run()
		t.Logf("%s: after %v", what, took.Round(time.Millisecond))
		if took <= bound {
			return
		}
	}
	t.Errorf("%s: not within %v in any of %d runs", what, bound, runs)
}
