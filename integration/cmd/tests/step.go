package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/baton-go/baton/integration/internal/stall"
)

// event is a line of go test -json: see go doc test2json.
type event struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string // instead of Package, while it is compiled
	Test       string
	Output     string
}

// failure is a failed test, or a package that failed by itself: it does not
// compile, it panicked, or ran into its time limit. test is then empty.
type failure struct {
	pkg, test string
	from, to  time.Time
	output    []string
}

// second is a failed test that is run once more, since it was late while the
// machine stood still.
type second struct {
	failure
	step    step
	stalled time.Duration
}

// runStep runs a step and returns the tests to run again.
func runStep(ctx context.Context, root string, s step, report *report, stalls *stall.Record) (again []second) {
	began := time.Now()
	report.begin(s)
	used := goTest(ctx, root, s, append(s.args(), s.packages...), report, func(f failure) {
		if stalled, ok := mayRunAgain(f, stalls); ok {
			again = append(again, second{f, s, stalled})
			return
		}
		report.fail(f)
	})
	report.endStep(s, time.Since(began), used)
	return again
}

// runAgain runs a test once more, alone.
func runAgain(ctx context.Context, root string, late second, report *report) {
	report.again(late)
	s := late.step
	s.run, s.skip = "^"+late.test+"$", ""
	goTest(ctx, root, s, append(s.args(), late.pkg), report, report.fail)
}

// goTest runs go test, and calls failed for each failure. It returns how much
// time of processors the command used, with all processes that ended before it.
func goTest(ctx context.Context, root string, s step, args []string, report *report, failed func(failure)) (used time.Duration) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	if s.lane == raced || s.lane == plain {
		// To give way. nice replaces itself by the go command.
		cmd = exec.CommandContext(ctx, "nice", append([]string{"-n", "10"}, cmd.Args...)...)
	}
	cmd.Dir = filepath.Join(root, s.dir)
	cmd.Env = append(os.Environ(), s.env...)
	// The go command passes an interrupt on to the tests, which end their
	// servers; a kill would leave them.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	cmd.Stderr = report.log
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		failed(failure{pkg: s.name, output: []string{err.Error()}})
		return 0
	}
	known := follow(stdout, report, failed)
	// Each failure of a test is in the stream; an error besides is the go
	// command's own.
	if err := cmd.Wait(); err != nil && (known == 0 || !isExit(err)) {
		failed(failure{pkg: s.name, output: []string{"go test: " + err.Error() + ": see the log"}})
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

func isExit(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit)
}

// follow reads the stream of one go test until its end, and returns the number
// of failures.
func follow(stream io.Reader, report *report, failed func(failure)) int {
	run := &testRun{report: report, packages: map[string]*pkg{}, failed: failed}
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				run.take(e)
			} else {
				report.write(string(line))
			}
		}
		if err != nil {
			return run.end()
		}
	}
}
