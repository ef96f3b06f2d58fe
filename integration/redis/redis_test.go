// Package redis_test runs the driver for Redis on real servers: the conformance
// suite, all recipes, and faults.
package redis_test

import (
	"testing"

	"github.com/baton-go/baton/integration/internal/netproxy"
	"github.com/baton-go/baton/integration/internal/redisserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func start(t *testing.T, o redisserver.Options) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.Addr(), s.Log())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func startCluster(t *testing.T, masters int) *redisserver.Cluster {
	t.Helper()
	c, err := redisserver.StartCluster(t.Context(), masters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Log())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// cable is the network of one client: a proxy in front of each server.
type cable struct {
	t       *testing.T
	proxies map[string]*netproxy.Proxy // by the server's address
	held    int64                      // bytes held when the latest hold began
}

func newCable(t *testing.T, addrs ...string) *cable {
	t.Helper()
	c := &cable{t: t, proxies: map[string]*netproxy.Proxy{}}
	for _, addr := range addrs {
		c.proxies[addr] = servers.Proxy(t, []string{addr})
	}
	return c
}

// addrs returns the client's addresses.
func (c *cable) addrs() (all []string) {
	for _, p := range c.proxies {
		all = append(all, p.Addr())
	}
	return all
}

func (c *cable) each(lever func(*netproxy.Proxy)) {
	for _, p := range c.proxies {
		lever(p)
	}
}

func (c *cable) heldUp() (sum int64) {
	for _, p := range c.proxies {
		sum += p.Stats().HeldUp
	}
	return sum
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
		c.t.Error("no request is in flight that could be stranded: the case tests nothing")
	}
	c.each((*netproxy.Proxy).Strand)
}

func (c *cable) Deliver() { c.each((*netproxy.Proxy).Deliver) }
func (c *cable) cut()     { c.each((*netproxy.Proxy).Cut) }
