package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/integration/internal/stall"
)

const (
	// A line is printed at the latest after this time: the promise is ten
	// seconds.
	progressEvery = 6 * time.Second
	// How many running tests a line names.
	progressNames = 3
	// The lines of a failed test that are printed; the log has all.
	failureLines = 60
)

const module = "github.com/baton-go/baton/"

// report prints what happens and counts it. Its methods may be called
// concurrently.
type report struct {
	out   io.Writer
	log   io.Writer
	total int
	begun time.Time

	stop, stopped chan struct{}

	mu       sync.Mutex
	printed  time.Time // when the last line was printed
	steps    []string  // that run
	running  []running
	passed   int
	skipped  []string
	failures []failure
	seconds  []second
}

type running struct {
	pkg, test string
	from      time.Time
}

// newReport returns a report that prints progress until end.
func newReport(out, log io.Writer, total int) *report {
	r := &report{out: out, log: log, total: total, begun: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	r.printed = r.begun
	go r.tick()
	return r
}

func (r *report) tick() {
	defer close(r.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.mu.Lock()
			if time.Since(r.printed) >= progressEvery {
				r.print(r.progress())
			}
			r.mu.Unlock()
		case <-r.stop:
			return
		}
	}
}

func (r *report) end() {
	close(r.stop)
	<-r.stopped
}

// print writes lines to the output and to the log.
func (r *report) print(lines string) {
	r.printed = time.Now()
	fmt.Fprintln(r.out, lines)
	fmt.Fprintln(r.log, lines)
}

// progress is a line such as
//
//	1:05  132 of 611 tests, 1 failed  library, worlds: mutex TestLockIsFair 12s, and 4 more
func (r *report) progress() string {
	elapsed := time.Since(r.begun).Round(time.Second)
	line := fmt.Sprintf("%d:%02d  %d of %d tests", elapsed/time.Minute, elapsed%time.Minute/time.Second, r.done(), r.total)
	if failed := len(r.failures); failed > 0 {
		line += fmt.Sprintf(", %d failed", failed)
	}
	line += "  " + strings.Join(r.steps, ", ") + ": "
	if len(r.running) == 0 {
		return line + "compiling"
	}
	var names []string
	for _, t := range r.running[:min(progressNames, len(r.running))] {
		names = append(names, fmt.Sprintf("%s %s %v", shortPackage(t.pkg), t.test, time.Since(t.from).Round(time.Second)))
	}
	line += strings.Join(names, ", ")
	if more := len(r.running) - len(names); more > 0 {
		line += fmt.Sprintf(", and %d more", more)
	}
	return line
}

func (r *report) done() int { return r.passed + len(r.skipped) + len(r.failures) }

func shortPackage(path string) string { return strings.TrimPrefix(path, module) }

func (r *report) begin(s step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, s.name)
	r.print("== " + s.name + ": " + s.why)
}

func (r *report) endStep(s step, took, used time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = slices.DeleteFunc(r.steps, func(name string) bool { return name == s.name })
	r.print(fmt.Sprintf("== end of %s: %.0f s, %.0f s of processors", s.name, took.Seconds(), used.Seconds()))
}

func (r *report) write(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(strings.TrimSuffix(line, "\n"))
}

func (r *report) logged(output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprint(r.log, output)
}

func (r *report) started(pkg, test string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = append(r.running, running{pkg, test, time.Now()})
}

// ended takes the result of a test: pass, skip or fail. A failure is counted
// when it is known to be final.
func (r *report) ended(pkg, test, action string, output []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = slices.DeleteFunc(r.running, func(t running) bool { return t.pkg == pkg && t.test == test })
	switch action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped = append(r.skipped, shortPackage(pkg)+" "+test+": "+reason(output))
	}
}

// reason is the message of a skipped test.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if message.MatchString(line) {
			return strings.TrimSpace(message.ReplaceAllString(line, ""))
		}
	}
	return "no reason given"
}

func (r *report) packageEnded(pkg, action string) {
	if action == "skip" {
		return // it has no tests
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed := time.Since(r.begun).Round(time.Second)
	r.print(fmt.Sprintf("%d:%02d  %-4s  %s", elapsed/time.Minute, elapsed%time.Minute/time.Second, action, shortPackage(pkg)))
}

// fail takes a final failure and prints it at once.
func (r *report) fail(f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, f)
	r.print(f.String())
}

// String has the end of the output, where a failed test says why.
func (f failure) String() string {
	lines := strings.Split(strings.TrimRight(strings.Join(f.output, ""), "\n"), "\n")
	cut := ""
	if n := len(lines) - failureLines; n > 0 {
		lines, cut = lines[n:], fmt.Sprintf("    (%d lines before: see build/tests.log)\n", n)
	}
	return strings.TrimSuffix("FAILED "+shortPackage(f.pkg)+" "+f.test, " ") + "\n" + cut + strings.Join(lines, "\n")
}

func (r *report) again(late second) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(late.failure.String())
	r.print("RUN AGAIN " + late.String())
	r.seconds = append(r.seconds, late)
}

func (s second) String() string {
	return fmt.Sprintf("%s %s: late while the machine stood still for %v", shortPackage(s.pkg), s.test, s.stalled.Round(time.Millisecond))
}

// summary prints the end and reports whether everything passed.
func (r *report) summary(stalls *stall.Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	list("skipped, with the reason", r.skipped)
	var seconds []string
	for _, s := range r.seconds {
		seconds = append(seconds, s.String())
	}
	list("run again once", seconds)
	if n, longest := stalls.Total(0); n > 0 {
		fmt.Fprintf(&b, "\nthe machine stood still for more than %v %d times, for %v at most\n", stallLeast, n, longest.Round(time.Millisecond))
	}
	for _, f := range r.failures {
		fmt.Fprintf(&b, "\n%v\n", f)
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed, %d skipped", r.passed, len(r.failures), len(r.skipped))
	r.print(b.String())
	return len(r.failures) == 0
}
