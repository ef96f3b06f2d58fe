package simulation_test

import (
	"testing"

	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/simulation/onzk"
)

// TestSimulationOnZooKeeper runs worlds on ZooKeeper in virtual time.
func TestSimulationOnZooKeeper(t *testing.T) { simulation.Run(t, onzk.Worlds) }

// TestSimulationOnSharedQueues is the same with queues in the layouts of
// Curator and Kazoo.
func TestSimulationOnSharedQueues(t *testing.T) { simulation.Run(t, onzk.Shared) }
