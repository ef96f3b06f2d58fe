// Package simulation_test runs the random worlds of
// integration/internal/simulation, whose comment describes them.
package simulation_test

import (
	"os"
	"testing"

	"github.com/baton-go/baton/integration/internal/simulation"
)

func TestMain(m *testing.M) { os.Exit(simulation.Main(m)) }
