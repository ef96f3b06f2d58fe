package simulation

import (
	"fmt"
	"os"
	"runtime/debug"
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
func note(t *testing.T, kind Kind, set settings) {
	t.Helper()
	if err := present.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := present.WriteAt([]byte(kind.replay(set)+"\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// replay is the command that runs a world again.
func (k Kind) replay(set settings) string {
	return fmt.Sprintf("(cd integration && %s go test -count=1 -v -run '%s$' ./simulation)",
		set.env(), k.Test)
}

// play runs a world and returns it.
func play(t *testing.T, kind Kind, set settings) (w *world) {
	t.Helper()
	note(t, kind, set)
	hung := time.AfterFunc(3*time.Minute, func() {
		panic(fmt.Sprintf("a world hangs; replay it with: %s", kind.replay(set)))
	})
	defer hung.Stop()
	failed := t.Failed()
	defer func() { // also after a failure inside the bubble, which ends this goroutine
		r := recover()
		if r != nil || t.Failed() && !failed {
			t.Errorf("seed %d failed; replay it with: %s", set.seed, kind.replay(set))
		}
		if r != nil {
			panic(r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, kind, set)
		w.run(t)
	})
	return w
}

// simulate runs a world and returns it. It fails t if the world has violations,
// and looks for a smaller world that has them too if it is the first.
func simulate(t *testing.T, kind Kind, set settings) *world {
	t.Helper()
	first := !t.Failed()
	w := play(t, kind, set)
	if len(w.bad) == 0 {
		return w
	}
	t.Errorf("seed %d, %s: %d violations; replay it with: %s\n%s", set.seed, w, len(w.bad),
		kind.replay(set), w.first())
	if !first {
		return w
	}
	if small, set := shrink(t, kind, w, set); small != w {
		t.Errorf("seed %d: the smallest world that fails like that has %s; replay it with: %s\n%s",
			set.seed, strings.Join(small.swarm.left(), ", "), kind.replay(set), small.first())
	}
	return w
}

// first are the first violations.
func (w *world) first() string { return strings.Join(w.bad[:min(len(w.bad), 5)], "\n") }

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
	total := &totals{figures: newFigures()}
	total.runs(t, kind, p)
	if total.seeds >= enoughSeeds && p.recipe == "" && p.without == nil && p.until == 0 && kind.Recipes == nil && !t.Failed() {
		if missing := total.missing(kind); len(missing) > 0 {
			t.Errorf("%d seeds did not reach:\n%s", total.seeds, strings.Join(missing, "\n"))
		}
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
		set := p.settings
		set.seed = p.base + i
		w := simulate(t, kind, set)
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

// OnTheCore runs so many worlds of each recipe on the core of the contract:
// recipes need no capabilities.
func OnTheCore(t *testing.T, kind Kind, seeds int) {
	t.Helper()
	for _, recipe := range coreKinds {
		grants := 0
		for seed := range uint64(seeds) {
			grants += simulate(t, kind, settings{seed: seed, recipe: recipe}).states[granted]
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
		a, b := play(t, kind, settings{seed: seed}), play(t, kind, settings{seed: seed})
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
