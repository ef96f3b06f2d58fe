package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/child"
)

// TestConformance checks the drivers against the clauses of package driver. It
// has servers of its own: the suite counts all watches and sessions, and
// restarts the service.
//
// The four runs mostly wait, and run in parallel.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		harness func(t *testing.T, nodes int, query string) coordinatortest.Harness
		nodes   int
	}{
		{"etcd", etcdHarness, 1},
		{"zookeeper", zooKeeperHarness, 1},
		{"etcd-3", etcdHarness, 3},
		{"zookeeper-3", zooKeeperHarness, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			coordinatortest.Run(t, c.harness(t, c.nodes, ""))
		})
	}
}

// restart stops all members before it starts any, so that only persisted state
// survives.
func restart(ctx context.Context, members []*child.Server) error {
	for _, m := range members {
		m.Kill()
	}
	for _, m := range members {
		if err := m.Launch(); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := m.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// atRest reads a count until it is stable. Services open and close watches
// asynchronously, and a change in progress would later be attributed to the
// case.
func atRest(ctx context.Context, count func(context.Context) (int, error)) (int, error) {
	const stable = 50 * time.Millisecond
	last, since := -1, time.Now()
	for {
		n, err := count(ctx)
		switch {
		case err != nil:
			return 0, err
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) >= stable:
			return n, nil
		}
		if await.For(ctx, stable/5); ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}
