package integration_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/integration/internal/masked"
)

// TestConformanceOfForeignLayouts runs the suite on foreign layouts.
func TestConformanceOfForeignLayouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		harness func(t *testing.T, nodes int, query string) coordinatortest.Harness
		layout  string
		nodes   int
	}{
		{"etcd", etcdHarness, "concurrency", 1},
		{"zookeeper", zooKeeperHarness, "curator", 1},
		{"zookeeper-3", zooKeeperHarness, "kazoo", 3},
	} {
		t.Run(c.name+" "+c.layout, func(t *testing.T) {
			if c.nodes > 1 {
				expensive(t) // the code of layout=curator with other names
			}
			t.Parallel()
			coordinatortest.Run(t, masked.Harness(c.harness(t, c.nodes, "layout="+c.layout)))
		})
	}
}
