// Package redis_test runs the driver for Redis on real servers: the conformance
// suite, all recipes, and faults.
package redis_test

import (
	"testing"

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
