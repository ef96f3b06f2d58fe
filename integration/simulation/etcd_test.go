package simulation_test

import (
	"testing"

	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/simulation/onetcd"
)

// TestSimulationOnEtcd runs worlds on a real etcd.
func TestSimulationOnEtcd(t *testing.T) { simulation.Spread(t, onetcd.Etcd) }
