// Command tests runs the tests of a ring, which is a list of steps in plan.go:
//
//	go run ./cmd/tests -ring test
//	go run ./cmd/tests -ring test -only '^worlds' # steps with matching names
//
// Three lanes of steps run beside each other: see plan.go. It prints a line of
// progress at least every ten seconds, what failed as soon as it fails, and
// everything again at the end. The whole output of the tests is in
// build/tests.log. The end of a step says how long the step took, and how much
// of the processors it had: the lanes should take the same time.
//
// A test that failed because it was late, while the machine stood still, is run
// once more, when all others have ended, and the end says so: see again.go. Any
// other failure is final.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/baton-go/baton/integration/internal/stall"
)

// The interval at which the detector of stalls wakes up, and the lateness of a
// wake-up that means that the machine stood still.
const (
	stallTick  = 10 * time.Millisecond
	stallLeast = 500 * time.Millisecond
)

func main() {
	ring := flag.String("ring", "test", "the ring to run: check, test or all")
	root := flag.String("C", "..", "the root of the project")
	only := flag.String("only", "", "run only steps whose name matches this regular `expression`")
	flag.Parse()
	steps, err := plan(*root, *ring, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, *root, steps, os.Stdout)
	if err == nil && *only == "" {
		err = printRest(*root, *ring, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// matching returns the steps whose name matches.
func matching(steps []step, expr string) ([]step, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	steps = slices.DeleteFunc(steps, func(s step) bool { return !re.MatchString(s.name) })
	if len(steps) == 0 {
		return nil, fmt.Errorf("no step matches %q", expr)
	}
	return steps, nil
}

// run runs the steps, each lane beside the others, and reports to out. A failed
// step does not keep the others from running.
func run(ctx context.Context, root string, steps []step, out io.Writer) (passed bool, err error) {
	log, err := createLog(root)
	if err != nil {
		return false, err
	}
	defer log.Close()
	total, err := count(root, steps)
	if err != nil {
		return false, err
	}
	stalls := stall.Watch(stallTick, stallLeast)
	defer stalls.End()
	report := newReport(out, log, total)
	defer report.end()
	runLanes(ctx, root, steps, report, stalls)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return report.summary(stalls), nil
}

// runLanes runs the lanes, then the steps that run alone, then what has to run
// once more.
func runLanes(ctx context.Context, root string, steps []step, report *report, stalls *stall.Record) {
	var mu sync.Mutex
	var again []second
	in := func(l lane) {
		for _, s := range steps {
			if s.lane == l && ctx.Err() == nil {
				late := runStep(ctx, root, s, report, stalls)
				mu.Lock()
				again = append(again, late...)
				mu.Unlock()
			}
		}
	}
	var beside sync.WaitGroup
	for _, l := range []lane{served, raced, plain} {
		beside.Go(func() { in(l) })
	}
	beside.Wait()
	in(alone)
	for _, late := range again {
		if ctx.Err() == nil {
			runAgain(ctx, root, late, report)
		}
	}
}

// printRest says what a ring leaves to the next one.
func printRest(root, ring string, out io.Writer) error {
	if ring != "test" {
		return nil
	}
	steps, err := plan(root, "all", "^(matrix|support)$")
	if err != nil {
		return err
	}
	left, err := count(root, steps)
	if err == nil {
		fmt.Fprintf(out, "\nleft to make test-all: %d tests: of faults, versions, other libraries, releases and of the tests' own servers\n", left)
	}
	return err
}

func createLog(root string) (*os.File, error) {
	dir := filepath.Join(root, "build")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, "tests.log"))
}
