//go:debug randseednop=0

package simulation

import (
	"fmt"
	"maps"
	oldrand "math/rand" //nolint:depguard // backoff draws from its global source
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
)

// simulate runs one world, and returns it. It fails t if the world is bad.
func simulate(t *testing.T, seed uint64, recipe string) (w *world) {
	t.Helper()
	oldrand.Seed(int64(seed)) //nolint:staticcheck // see the import
	hung := time.AfterFunc(3*time.Minute, func() {
		panic(fmt.Sprintf("seed %d hangs; replay it with: %s", seed, replay(seed, recipe)))
	})
	defer hung.Stop()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("seed %d panicked; replay it with: %s", seed, replay(seed, recipe))
			panic(r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed, recipe)
		w.run(t)
	})
	if len(w.bad) > 0 {
		t.Errorf("seed %d, %s: %d violations; replay it with: %s\n%s", seed, w, len(w.bad), replay(seed, recipe),
			strings.Join(w.bad[:min(len(w.bad), 5)], "\n"))
	}
	return w
}

// replay is the command that runs a seed again.
func replay(seed uint64, recipe string) string {
	if recipe != "" {
		recipe = " BATON_SIM_RECIPE=" + recipe
	}
	return fmt.Sprintf("BATON_SEED=%d%s go test -count=1 -v -run 'TestSimulation$' ./recipes/internal/simulation", seed, recipe)
}

func (w *world) String() string {
	var names []string
	for _, n := range w.names {
		names = append(names, n.recipe)
	}
	return fmt.Sprintf("%s with %d clients, ttl %v, storm %v", strings.Join(names, " and "), len(w.slots), w.ttl, w.storm)
}

// TestSimulation runs worlds and judges them: see the comment of the package.
func TestSimulation(t *testing.T) {
	p, err := planned(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // worlds are small and many
	if p.lasts > 0 {
		fmt.Printf("simulation: seeds from %d, for %v\n", p.base, p.lasts)
	}
	total, began, n := newTotals(), time.Now(), uint64(0)
	for ; p.lasts > 0 && time.Since(began) < p.lasts || p.lasts == 0 && n < p.seeds; n++ {
		w := simulate(t, p.base+n, p.recipe)
		total.add(w)
		if p.replay {
			w.sum() // which sorts
			for _, e := range w.trace {
				t.Logf("%14v %s", e.at, e.text)
			}
		}
		if total.failed > 4 {
			t.Fatalf("%d of %d seeds failed: enough", total.failed, n+1)
		}
	}
	fmt.Printf("simulation: %d seeds from %d, %v, %d grants, %d re-entries, %d holds lost, faults: %s; violations %d, slowest admission after healing %v\n",
		n, p.base, time.Since(began).Round(time.Millisecond), total.grants, total.reentries, total.losses, total.kinds(), total.violations, total.slowest.Round(time.Millisecond))
	if n >= 2000 && p.recipe == "" {
		total.everySite(t)
	}
}

// totals are the figures of all worlds of a run.
type totals struct {
	figures
	violations, failed int
}

func newTotals() *totals {
	return &totals{figures: figures{faults: map[string]int{}, sites: map[memory.Op]map[string]int{}}}
}

func (sum *totals) add(w *world) {
	sum.grants += w.grants
	sum.reentries += w.reentries
	sum.losses += w.losses
	sum.slowest = max(sum.slowest, w.slowest)
	sum.violations += len(w.bad)
	if len(w.bad) > 0 {
		sum.failed++
	}
	for kind, n := range w.faults {
		sum.faults[kind] += n
	}
	for op, kinds := range w.sites {
		if sum.sites[op] == nil {
			sum.sites[op] = map[string]int{}
		}
		for kind, n := range kinds {
			sum.sites[op][kind] += n
		}
	}
}

func (sum *totals) kinds() string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(sum.faults)) {
		all = append(all, fmt.Sprintf("%s %d", kind, sum.faults[kind]))
	}
	return strings.Join(all, ", ")
}

// everySite fails if some request of a driver was spared one of the faults: then the simulation shows less than it says.
func (sum *totals) everySite(t *testing.T) {
	for _, op := range []memory.Op{memory.OpOpen, memory.OpRenew, memory.OpJoin, memory.OpAhead, memory.OpWatch, memory.OpConvert, memory.OpWrite,
		memory.OpLeave, memory.OpForget, memory.OpList, memory.OpHead, memory.OpRecord, memory.OpSetRecord, memory.OpClose} {
		for _, kind := range requestFaults {
			if sum.sites[op][kind] == 0 {
				t.Errorf("no %s met the fault %q", op, kind)
			}
		}
	}
}

// TestSameSeedIsSameWorld: a seed that failed is of use only if it fails again. When a session ends, those who were in a pause
// between two attempts are woken in one instant, and who of them is the first to open the next session is up to the scheduler. That
// was seen in one of 200 worlds, so a few may differ here.
func TestSameSeedIsSameWorld(t *testing.T) {
	const worlds, few = 40, 4
	differ := 0
	for seed := range uint64(worlds) {
		a, b := simulate(t, seed, ""), simulate(t, seed, "")
		if a.sum() == b.sum() {
			continue
		}
		differ++
		t.Logf("seed %d: traces differ (%d and %d events)", seed, len(a.trace), len(b.trace))
		for i := range min(len(a.trace), len(b.trace)) {
			if x, y := a.trace[i], b.trace[i]; x.at != y.at || x.text != y.text {
				t.Logf("event %d is %v %s and %v %s", i, x.at, x.text, y.at, y.text)
				break
			}
		}
	}
	if differ > few {
		t.Errorf("%d of %d worlds were not the same when they were run again", differ, worlds)
	}
}
