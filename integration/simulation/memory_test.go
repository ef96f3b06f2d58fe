package simulation_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/baton-go/baton/integration/internal/simulation"
)

// TestSimulationOnMemory runs worlds on the service in memory.
func TestSimulationOnMemory(t *testing.T) { simulation.Run(t, simulation.Memory) }

// TestSimulationOnTheCore of the contract: recipes need no capabilities.
// BATON_SIM_CORE is the number of worlds for each recipe.
func TestSimulationOnTheCore(t *testing.T) {
	seeds := 40
	if s := os.Getenv("BATON_SIM_CORE"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("BATON_SIM_CORE=%q: want a number of worlds", s)
		}
		seeds = n
	}
	simulation.OnTheCore(t, simulation.Memory, seeds)
}

// TestSameSeedIsSameWorld: a failing seed is only useful if it fails again. The
// scheduler, which the race detector makes random, orders events of the same
// instant: which goroutine opens the next session, and in large queues whether
// a read of the queue or a watch comes first. On a machine with other load 1 of
// 160 worlds differed.
func TestSameSeedIsSameWorld(t *testing.T) {
	const worlds, few = 60, 6
	if differ := simulation.Replays(t, simulation.Memory, worlds); differ > few {
		t.Errorf("%d of %d worlds were not the same when they were run again", differ, worlds)
	}
}
