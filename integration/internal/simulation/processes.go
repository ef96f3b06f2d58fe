package simulation

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Spread is Run, in as many processes as BATON_SIM_PROCESSES says. They share
// the seeds. It is for services of which a process has one at a time, and whose
// worlds are mostly one goroutine after the other.
func Spread(t *testing.T, kind Kind) {
	t.Helper()
	n, set, err := number(os.Getenv, "BATON_SIM_PROCESSES")
	if err != nil {
		t.Fatal(err)
	}
	if !set || n < 2 || os.Getenv("BATON_SIM_PART") != "" || os.Getenv("BATON_SEED") != "" {
		Run(t, kind)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range n {
		part := exec.CommandContext(t.Context(), program, "-test.run=^"+kind.Test+"$", "-test.timeout=0")
		part.Env = append(os.Environ(), fmt.Sprintf("BATON_SIM_PART=%d/%d", i+1, n))
		all.Go(func() {
			said, err := part.CombinedOutput()
			if t.Logf("part %d of %d:\n%s", i+1, n, said); err != nil {
				t.Errorf("part %d of %d: %v", i+1, n, err)
			}
		})
	}
	all.Wait()
}
