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
)

// present is a file with the command that replays the current seed, in case the
// run ends in the middle of it.
var present *os.File

// Main runs the tests of a package, and returns their exit code.
func Main(m *testing.M) int {
	f, err := os.CreateTemp("", "baton-simulation-*.txt")
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulation:", err)
		return 1
	}
	present = f
	fmt.Printf("simulation: if this run ends without a word, "+
		"%s has the command that replays its last seed\n", f.Name())
	code := m.Run()
	_ = f.Close()
	if code == 0 {
		_ = os.Remove(f.Name())
	}
	return code
}

// note writes the next seed to the file.
func note(t *testing.T, kind Kind, seed uint64, recipe string) {
	t.Helper()
	if err := present.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := present.WriteAt([]byte(replay(kind, seed, recipe)+"\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// simulate runs a world and returns it. It fails t if the world has violations.
func simulate(t *testing.T, kind Kind, seed uint64, recipe string) (w *world) {
	t.Helper()
	oldrand.Seed(int64(seed)) //nolint:staticcheck // see the import
	note(t, kind, seed, recipe)
	hung := time.AfterFunc(3*time.Minute, func() {
		panic(fmt.Sprintf("seed %d hangs; replay it with: %s", seed, replay(kind, seed, recipe)))
	})
	defer hung.Stop()
	failed := t.Failed()
	defer func() { // also after a panic, or a failure inside the bubble, which ends this goroutine
		switch {
		case w != nil && len(w.bad) > 0:
			t.Errorf("seed %d, %s: %d violations; replay it with: %s\n%s", seed, w, len(w.bad),
				replay(kind, seed, recipe),
				strings.Join(w.bad[:min(len(w.bad), 5)], "\n"))
		case t.Failed() && !failed:
			t.Errorf("seed %d failed; replay it with: %s", seed, replay(kind, seed, recipe))
		}
		if r := recover(); r != nil {
			t.Errorf("seed %d panicked; replay it with: %s", seed, replay(kind, seed, recipe))
			panic(r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, kind, seed, recipe)
		w.run(t)
	})
	return w
}

// replay is the command that runs a seed again.
func replay(kind Kind, seed uint64, recipe string) string {
	if recipe != "" {
		recipe = " BATON_SIM_RECIPE=" + recipe
	}
	return fmt.Sprintf(
		"(cd integration && BATON_SEED=%d%s go test -count=1 -v -run '%s$' ./simulation)",
		seed, recipe, kind.Test)
}

func (w *world) String() string {
	var names []string
	for _, n := range w.names {
		names = append(names, n.recipe)
	}
	return fmt.Sprintf("%s with %d clients, ttl %v, storm %v", strings.Join(names, " and "),
		len(w.slots), w.ttl, w.storm)
}

// Run runs worlds of a kind and judges them: see the comment of the package.
func Run(t *testing.T, kind Kind) {
	t.Helper()
	p, err := planned(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // worlds are small and many
	if p.lasts > 0 {
		fmt.Printf("simulation: seeds from %d, for %v\n", p.base, p.lasts)
	}
	total := newTotals()
	total.runs(t, kind, p)
	if total.seeds >= 2000 && p.recipe == "" && !t.Failed() {
		total.everySite(t, kind)
		total.enough(t)
	}
}

// runs runs the seeds of a plan, and prints the totals also if it has to stop
// early.
func (sum *totals) runs(t *testing.T, kind Kind, p plan) {
	began := time.Now()
	defer func() {
		fmt.Printf("simulation: %d seeds from %d, %v, %s\n", sum.seeds, p.base,
			time.Since(began).Round(time.Millisecond), sum)
	}()
	for i := p.part; p.lasts > 0 && time.Since(began) < p.lasts ||
		p.lasts == 0 && i < p.seeds; i += p.parts {
		w := simulate(t, kind, p.base+i, p.recipe)
		sum.add(w)
		if p.replay {
			w.sum() // which sorts
			for _, e := range w.trace {
				t.Logf("%14v %s", e.at, e.text)
			}
		}
		if sum.failed > 4 {
			t.Errorf("%d of %d seeds failed: enough", sum.failed, sum.seeds)
			return
		}
	}
}

func (sum *totals) String() string {
	return fmt.Sprintf(
		"%d grants (%d contended, %d during the faults, %d condemned), %d re-entries, "+
			"%d holds lost (%d by the service's clock with others in the queue), "+
			"%d handoffs (%d followers notified, %d not, %d too late to wait, %d gone themselves), "+
			"faults: %s; violations %d, slowest admission after the faults %v",
		sum.grants, sum.contended, sum.early, sum.doomed, sum.reentries, sum.losses, sum.natural,
		sum.passes, sum.handed, sum.unsaid, sum.belated, sum.orphans, sum.kinds(), sum.violations,
		sum.slowest.Round(time.Millisecond))
}

// enough fails if the events that the judge checks have hardly happened.
func (sum *totals) enough(t *testing.T) {
	for what, n := range map[string][2]int{
		"contended grants":         {sum.contended, 9000},
		"grants during the faults": {sum.early, 4000},
		"holds that the service's clock ended with others in the queue": {sum.natural, 350},
		"grants of an entry that was gone":                              {sum.doomed, 3},
		"handoffs that a follower received":                             {sum.handed, 6000},
		"departures that a follower saw without a handoff":              {sum.unsaid, 6000},
		"follows of a place that had left":                              {sum.belated, 200},
		"followers that were gone themselves":                           {sum.orphans, 600},
		"removals and conversions of holds that were sent":              {sum.sent, 20000},
	} {
		if n[0] < n[1]*int(sum.seeds)/1000 {
			t.Errorf("%d %s in %d seeds; want at least %d in 1000", n[0], what, sum.seeds, n[1])
		}
	}
}

// totals are the figures of all worlds of a run.
type totals struct {
	figures
	seeds              uint64
	violations, failed int
}

func newTotals() *totals {
	return &totals{figures: figures{faults: map[string]int{}, states: map[string]int{},
		sites: map[string]map[string]int{}}}
}

func (sum *totals) add(w *world) {
	sum.seeds++
	sum.grants += w.grants
	sum.reentries += w.reentries
	sum.losses += w.losses
	sum.contended += w.contended
	sum.early += w.early
	sum.doomed += w.doomed
	sum.natural += w.natural
	sum.passes += w.passes
	sum.sent += w.sent
	sum.handed += w.handed
	sum.unsaid += w.unsaid
	sum.belated += w.belated
	sum.orphans += w.orphans
	sum.slowest = max(sum.slowest, w.slowest)
	sum.violations += len(w.bad)
	if len(w.bad) > 0 {
		sum.failed++
	}
	for kind, n := range w.faults {
		sum.faults[kind] += n
	}
	for state, n := range w.states {
		sum.states[state] += n
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

// everySite fails if some request of a driver never had one of the faults: then
// the simulation covers less than it claims.
func (sum *totals) everySite(t *testing.T, kind Kind) {
	for _, op := range kind.Ops {
		for _, fault := range requestFaults {
			if sum.sites[op][fault] == 0 {
				t.Errorf("no %s met the fault %q", op, fault)
			}
		}
	}
}

// OnTheCore runs so many worlds of each recipe on the core of the contract:
// recipes need no capabilities.
func OnTheCore(t *testing.T, kind Kind, seeds int) {
	t.Helper()
	for _, recipe := range coreKinds {
		grants := 0
		for seed := range uint64(seeds) {
			grants += simulate(t, kind, seed, recipe).grants
		}
		if grants < 10*seeds {
			t.Errorf("%s: %d grants", recipe, grants)
		}
	}
}

// Replays runs worlds twice, and returns how many were not the same again.
func Replays(t *testing.T, kind Kind, worlds int) (differ int) {
	t.Helper()
	for seed := range uint64(worlds) {
		a, b := simulate(t, kind, seed, ""), simulate(t, kind, seed, "")
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
	return differ
}
