//go:debug randseednop=0

package simulation

import (
	"fmt"
	"maps"
	oldrand "math/rand" //nolint:depguard // backoff draws from its global source
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
)

// baseSeed is the first seed of a run that is the same each time.
const baseSeed = 1

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

// plan is which seeds are run.
type plan struct {
	base   uint64
	seeds  uint64        // so many, or
	lasts  time.Duration // as long as this
	recipe string        // all names are of it; empty: of any
	replay bool
}

// planned reads the plan from the environment.
func planned(t *testing.T) plan {
	p := plan{base: baseSeed, seeds: 300, recipe: os.Getenv("BATON_SIM_RECIPE")}
	if testing.Short() {
		p.seeds = 50
	}
	if p.recipe != "" && !slices.Contains(recipeKinds, p.recipe) {
		t.Fatalf("BATON_SIM_RECIPE=%q: want one of %v", p.recipe, recipeKinds)
	}
	number := func(name string) (uint64, bool) {
		s := os.Getenv(name)
		if s == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q: want a whole number, 0 or more", name, s)
		}
		return n, true
	}
	seed, replays := number("BATON_SEED")
	seeds, counts := number("BATON_SEEDS")
	base, based := number("BATON_SIM_BASE")
	switch lasts := os.Getenv("BATON_SIM_TIME"); {
	case lasts != "":
		d, err := time.ParseDuration(lasts)
		if err != nil || d <= 0 {
			t.Fatalf("BATON_SIM_TIME=%q: want a positive duration, such as 10m", lasts)
		}
		if replays || counts {
			t.Fatal("BATON_SIM_TIME goes with neither BATON_SEED nor BATON_SEEDS")
		}
		p.lasts, p.base = d, rand.Uint64()>>16
	case replays && counts:
		t.Fatal("BATON_SEED is one seed, BATON_SEEDS is how many: want one of them")
	case replays:
		p.base, p.seeds, p.replay = seed, 1, true
	case counts && seeds == 0:
		t.Fatal("BATON_SEEDS=0: want at least one")
	case counts:
		p.seeds = seeds
	}
	if based {
		p.base = base
	}
	return p
}

// TestSimulation runs worlds and judges them: see the comment of the package.
func TestSimulation(t *testing.T) {
	p := planned(t)
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

// TestSameSeedIsSameWorld: a seed that failed is of use only if it fails again.
func TestSameSeedIsSameWorld(t *testing.T) {
	for seed := range uint64(400) {
		a, b := simulate(t, seed, ""), simulate(t, seed, "")
		if a.sum() != b.sum() {
			for i := range min(len(a.trace), len(b.trace)) {
				if a.trace[i] != b.trace[i] {
					t.Errorf("seed %d: event %d is %v and %v", seed, i, a.trace[i], b.trace[i])
					break
				}
			}
			t.Errorf("seed %d: traces differ (%d and %d events)", seed, len(a.trace), len(b.trace))
		}
	}
}
