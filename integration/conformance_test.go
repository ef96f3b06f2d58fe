package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/netproxy"
	"github.com/baton-go/baton/integration/internal/servers"
)

// TestConformance checks the drivers against the clauses of package driver, on
// servers of its own: the suite counts all watches and sessions there are, and
// stops and starts the service.
//
// The four runs mostly wait. They run side by side, as many as -parallel
// allows.
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

// cable is the network of one client: a proxy in front of each member. So the
// driver chooses members itself: etcd's client sends each request to another
// one, and after a break a ZooKeeper session goes on with any. Views meet
// members that lag behind what the client has seen elsewhere.
type cable struct {
	t       *testing.T
	proxies []*netproxy.Proxy
	held    int64 // how much had been held when the latest hold began
}

func newCable(t *testing.T, members []string, options ...netproxy.Option) *cable {
	t.Helper()
	c := &cable{t: t}
	for _, addr := range members {
		c.proxies = append(c.proxies, servers.Proxy(t, []string{addr}, options...))
	}
	return c
}

// addrs are what the client should dial, one for each member.
func (c *cable) addrs() (all []string) {
	for _, p := range c.proxies {
		all = append(all, p.Addr())
	}
	return all
}

// heldUp is how much of what the client sent is held, or was and is lost.
func (c *cable) heldUp() (sum int64) {
	for _, p := range c.proxies {
		sum += p.Stats().HeldUp
	}
	return sum
}

func (c *cable) each(lever func(*netproxy.Proxy)) {
	for _, p := range c.proxies {
		lever(p)
	}
}

func (c *cable) HoldRequests() {
	c.held = c.heldUp()
	c.each((*netproxy.Proxy).CutUp)
}

func (c *cable) HoldReplies() { c.each((*netproxy.Proxy).CutDown) }
func (c *cable) Heal()        { c.each((*netproxy.Proxy).Heal) }
func (c *cable) Reset()       { c.each((*netproxy.Proxy).Reset) }

func (c *cable) Strand() {
	if c.heldUp() == c.held {
		c.t.Error("no request is under way that could be stranded: the case shows nothing")
	}
	c.each((*netproxy.Proxy).Strand)
}

func (c *cable) Deliver() { c.each((*netproxy.Proxy).Deliver) }

// restart stops all members before it starts any, so that nothing lives on but
// what was written down.
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

// atRest reads a count until it stands still. Services open and close watches
// behind the backs of those who asked for them, and what is under way when a
// case looks would later seem to be of its making.
func atRest(ctx context.Context, count func(context.Context) (int, error)) (int, error) {
	const calm = 50 * time.Millisecond
	last, since := -1, time.Now()
	for {
		n, err := count(ctx)
		switch {
		case err != nil:
			return 0, err
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) >= calm:
			return n, nil
		}
		select {
		case <-time.After(calm / 5):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
