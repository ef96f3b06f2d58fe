package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The time that a run of tests has. go test's own timeout ends it first, with a
// list of what hangs; after the grace its processes are killed.
const (
	leastTime    = 2 * time.Minute  // of a test with a mutation
	timesLonger  = 10               // than on the unchanged code it may take besides
	baselineTime = 10 * time.Minute // of the tests of a package on the unchanged code
	everyTime    = 30 * time.Minute // of a package with -every
	grace        = 30 * time.Second
	compileTime  = 10 * time.Minute
)

// errHung ends a run that goes on after its grace.
var errHung = errors.New("the tests go on after their time")

const module = "github.com/baton-go/baton"

// runner runs tests of the repository.
type runner struct {
	root     string // of the repository
	tmp      string
	within   map[string]bool   // whether the binaries have a mutation, by its name
	binaries map[string]string // test binaries with mutations, by package
	grace    time.Duration

	mu   sync.Mutex
	took map[test]time.Duration // on the unchanged code
}

func newRunner(ctx context.Context) (*runner, error) {
	root, err := repository(ctx)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	return &runner{root: root, tmp: tmp, grace: grace, took: map[test]time.Duration{}}, err
}

// repository returns the directory of the library's go.mod.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if dir := strings.TrimSpace(string(out)); err == nil && dir != "" {
		return dir, nil
	}
	return "", fmt.Errorf("start it within the integration module: go list: %w", err)
}

func (r *runner) close() { _ = os.RemoveAll(r.tmp) }

// mutate returns the changed content of a mutation's file.
func mutate(root string, m mutation) (path string, changed []byte, err error) {
	path = filepath.Join(root, m.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	if n := bytes.Count(src, []byte(m.old)); n != 1 {
		return "", nil, fmt.Errorf("%s contains the text to replace %d times, want once:\n%s", m.file, n, m.old)
	}
	return path, bytes.Replace(src, []byte(m.old), []byte(m.new), 1), nil
}

// overlay writes a mutation's file for go test's -overlay.
func (r *runner) overlay(m mutation) (string, error) {
	path, changed, err := mutate(r.root, m)
	if err != nil {
		return "", err
	}
	to := filepath.Join(r.tmp, m.name+".go")
	if err := os.WriteFile(to, changed, 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: to}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.tmp, m.name+".json")
	return file, os.WriteFile(file, list, 0o600)
}

// result is the outcome of a run of tests.
type result struct {
	verdicts map[string]string // "pass", "fail" or "skip", by test
	took     map[string]time.Duration
	used     time.Duration // of processors, without processes that were left
	hung     bool          // a test has not ended in its time
	output   string
}

// module returns the directory for go test, and the package's path in it.
func (r *runner) module(pkg string) (dir, path string) {
	if rest, ok := strings.CutPrefix(pkg, "integration/"); ok {
		return filepath.Join(r.root, "integration"), "./" + rest
	}
	if pkg == "integration" {
		return filepath.Join(r.root, pkg), "."
	}
	return r.root, "./" + pkg
}

// test runs tests of a package with a mutation, or on the unchanged code if its
// name is "". They may take so long.
func (r *runner) test(
	ctx context.Context, pkg, run, env string, m mutation, bound time.Duration,
) (result, error) {
	binary, dir := r.binaries[pkg], filepath.Join(r.root, pkg)
	if binary != "" && (m.name == "" || r.within[m.name]) {
		ctx, cancel := context.WithTimeoutCause(ctx, bound+r.grace, errHung)
		defer cancel()
		return r.run(ctx, dir, append(cases(env), switchEnv+"="+m.name), binary,
			"-test.v=test2json", "-test.timeout="+bound.String(), "-test.run="+run)
	}
	if m.name == "" {
		return r.gotest(ctx, pkg, run, env, "", bound)
	}
	overlay, err := r.overlay(m)
	if err != nil {
		return result{}, err
	}
	return r.gotest(ctx, pkg, run, env, overlay, bound)
}

func cases(env string) []string {
	if env == "" {
		return nil
	}
	return []string{env}
}

// gotest compiles and runs tests of a package.
func (r *runner) gotest(
	ctx context.Context, pkg, run, env, overlay string, bound time.Duration,
) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compileTime+bound+r.grace, errHung)
	defer cancel()
	dir, path := r.module(pkg)
	args := []string{"test", "-v=test2json", "-count=1", "-vet=off", "-timeout", bound.String(), "-run", run}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return r.run(ctx, dir, cases(env), "go", append(args, path)...)
}

// verdict is a line of a test's outcome. With -test.v=test2json a control
// character is before it, wherever the test's own output has ended.
var verdict = regexp.MustCompile("\x16=== RUN +([^\\s/]+)\n|\x16--- (PASS|FAIL|SKIP): ([^\\s/]+) \\((.*)\\)")

// run runs a program that runs tests, until ctx ends. If the cause is errHung,
// that is the result.
func (r *runner) run(
	ctx context.Context, dir string, env []string, program string, args ...string,
) (result, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := inGroup(cmd, r.grace)
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(cause, errHung) {
		return result{}, fmt.Errorf("%s: %w", program, cause)
	}
	var exit *exec.ExitError
	if cause == nil && err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0) { // by a signal
		return result{}, fmt.Errorf("%s: %w", program, err)
	}
	res := result{verdicts: map[string]string{}, took: map[string]time.Duration{}, output: string(out), used: used(cmd)}
	res.hung = cause != nil || strings.Contains(res.output, "panic: test timed out")
	for _, found := range verdict.FindAllStringSubmatch(res.output, -1) {
		switch {
		case found[1] != "": // if it panics there is no other line
			res.verdicts[found[1]] = "fail"
		default:
			res.verdicts[found[3]] = strings.ToLower(found[2])
			res.took[found[3]], _ = time.ParseDuration(found[4])
		}
	}
	return res, nil
}

// inGroup runs a program in a process group of its own, and kills what is left
// of the group at its end. When the context of the command ends, the group is
// interrupted, so that the go command removes its files, and after the grace it
// is killed.
func inGroup(cmd *exec.Cmd, grace time.Duration) ([]byte, error) {
	kill := func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 2 * grace // for processes that have left the group
	timer := time.AfterFunc(math.MaxInt64, kill)
	cmd.Cancel = func() error {
		timer.Reset(grace)
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	}
	out, err := cmd.CombinedOutput()
	timer.Stop()
	kill()
	return out, err
}

// used is how much time of processors a command has used.
func used(cmd *exec.Cmd) time.Duration {
	if cmd.ProcessState == nil { // it did not start
		return 0
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// last returns the last lines of the output.
func (res result) last() string {
	lines := strings.Split(strings.TrimSpace(res.output), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// baseline returns an error unless all named tests pass on the unchanged code.
func (r *runner) baseline(ctx context.Context, chosen []mutation) error {
	names := map[test][]string{} // by package and environment
	for _, m := range chosen {
		for _, t := range m.caught {
			key := test{pkg: t.pkg, env: t.env}
			if !slices.Contains(names[key], t.name) {
				names[key] = append(names[key], t.name)
			}
		}
	}
	return each(slices.Collect(maps.Keys(names)), func(key test) error {
		res, err := r.test(ctx, key.pkg, "^("+strings.Join(names[key], "|")+")$", key.env, mutation{}, baselineTime)
		for _, name := range names[key] {
			r.mu.Lock()
			r.took[test{pkg: key.pkg, name: name, env: key.env}] = res.took[name]
			r.mu.Unlock()
			if v := res.verdicts[name]; err == nil && v != "pass" {
				err = fmt.Errorf("on the unchanged code, %s %s should pass, but the verdict is %q:\n%s", key.pkg, name, v, res.last())
			}
		}
		return err
	})
}

// outcome is what became of a mutation, in the order of severity.
type outcome int

const (
	caught outcome = iota // all named tests failed
	hung                  // those that did not fail have not ended: see the package
	missed
)

func (o outcome) String() string { return [...]string{"caught", "HUNG  ", "MISSED"}[o] }

// bound is how long a test with a mutation may take.
func (r *runner) bound(t test) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return leastTime + timesLonger*r.took[t]
}

// judge runs the named tests of a mutation.
func (r *runner) judge(ctx context.Context, m mutation) (verdict string, all outcome, used time.Duration) {
	var by []string
	if len(m.caught) == 0 {
		all = missed
	}
	for _, t := range m.caught {
		bound := r.bound(t)
		res, err := r.test(ctx, t.pkg, "^"+t.name+"$", t.env, m, bound)
		used += res.used
		one, problem := missed, ""
		switch v := res.verdicts[t.name]; {
		case err != nil:
			problem = ": " + err.Error()
		case res.hung:
			one, problem = hung, fmt.Sprintf(": has not ended in %v", bound)
		case v == "":
			problem = ": gave no verdict:\n" + res.last()
		case v != "fail":
			problem = ": " + v
		default:
			one = caught
		}
		by, all = append(by, t.String()+problem), max(all, one)
	}
	return strings.Join(by, "; "), all, used
}

// every runs all of the library's tests on a mutation, and reports which fail.
func (r *runner) every(ctx context.Context, m mutation) (verdict string, all outcome, used time.Duration) {
	overlay, err := r.overlay(m)
	if err != nil {
		return err.Error(), missed, 0
	}
	res, err := r.gotest(ctx, "...", ".", "", overlay, everyTime)
	if err != nil {
		return err.Error(), missed, 0
	}
	var by []string
	for name, v := range res.verdicts {
		if v == "fail" {
			by = append(by, name)
		}
	}
	slices.Sort(by)
	switch {
	case len(by) == 0:
		return "by no test\n" + res.last(), missed, res.used
	case res.hung:
		return fmt.Sprintf("of %d tests some have failed, and some have not ended\n    %s", len(by), strings.Join(by, "\n    ")), hung, res.used
	}
	return fmt.Sprintf("by %d tests\n    %s", len(by), strings.Join(by, "\n    ")), caught, res.used
}
