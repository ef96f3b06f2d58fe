package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The bounds of one run of go test: go test's own timeout is first.
const (
	testTimeout = 8 * time.Minute
	runTimeout  = 15 * time.Minute // including compilation
)

const module = "github.com/baton-go/baton"

// runner runs tests of the repository.
type runner struct {
	root     string // of the repository
	tmp      string
	within   map[string]bool   // whether the binaries have a mutation, by its name
	binaries map[string]string // test binaries with mutations, by package
}

func newRunner(ctx context.Context) (*runner, error) {
	root, err := repository(ctx)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	return &runner{root: root, tmp: tmp}, err
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
	timedOut bool
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
// name is "".
func (r *runner) test(ctx context.Context, pkg, run, env string, m mutation) (result, error) {
	binary, dir := r.binaries[pkg], filepath.Join(r.root, pkg)
	if binary != "" && (m.name == "" || r.within[m.name]) {
		return r.run(ctx, dir, append(cases(env), switchEnv+"="+m.name), binary,
			"-test.v=test2json", "-test.timeout="+testTimeout.String(), "-test.run="+run)
	}
	if m.name == "" {
		return r.gotest(ctx, pkg, run, env, "")
	}
	overlay, err := r.overlay(m)
	if err != nil {
		return result{}, err
	}
	return r.gotest(ctx, pkg, run, env, overlay)
}

func cases(env string) []string {
	if env == "" {
		return nil
	}
	return []string{env}
}

// gotest compiles and runs tests of a package.
func (r *runner) gotest(ctx context.Context, pkg, run, env, overlay string) (result, error) {
	dir, path := r.module(pkg)
	args := []string{"test", "-v=test2json", "-count=1", "-vet=off", "-timeout", testTimeout.String(), "-run", run}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return r.run(ctx, dir, cases(env), "go", append(args, path)...)
}

// verdict is a line of a test's outcome. With -test.v=test2json a control
// character is before it, wherever the test's own output has ended.
var verdict = regexp.MustCompile("\x16=== RUN +([^\\s/]+)\n|\x16--- (PASS|FAIL|SKIP): ([^\\s/]+) \\(")

// run runs a program that runs tests.
func (r *runner) run(
	ctx context.Context, dir string, env []string, program string, args ...string,
) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // lets it end its children
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return result{}, fmt.Errorf("%s: %w", program, context.Cause(ctx))
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0) { // by a signal
		return result{}, fmt.Errorf("%s: %w", program, err)
	}
	res := result{verdicts: map[string]string{}, output: string(out)}
	res.timedOut = strings.Contains(res.output, "panic: test timed out")
	for _, found := range verdict.FindAllStringSubmatch(res.output, -1) {
		switch {
		case found[1] != "": // if it panics there is no other line
			res.verdicts[found[1]] = "fail"
		default:
			res.verdicts[found[3]] = strings.ToLower(found[2])
		}
	}
	return res, nil
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
		res, err := r.test(ctx, key.pkg, "^("+strings.Join(names[key], "|")+")$", key.env, mutation{})
		for _, name := range names[key] {
			if v := res.verdicts[name]; err == nil && v != "pass" {
				err = fmt.Errorf("on the unchanged code, %s %s should pass, but the verdict is %q:\n%s", key.pkg, name, v, res.last())
			}
		}
		return err
	})
}

// judge runs the named tests of a mutation. ok: all of them failed.
func (r *runner) judge(ctx context.Context, m mutation) (verdict string, ok bool) {
	var by []string
	ok = len(m.caught) > 0
	for _, t := range m.caught {
		res, err := r.test(ctx, t.pkg, "^"+t.name+"$", t.env, m)
		problem := ""
		switch v := res.verdicts[t.name]; {
		case err != nil:
			problem = err.Error()
		case res.timedOut:
			problem = "ran out of time"
		case v == "":
			problem = "gave no verdict:\n" + res.last()
		case v != "fail":
			problem = v
		}
		if problem != "" {
			ok, problem = false, ": "+problem
		}
		by = append(by, t.String()+problem)
	}
	return strings.Join(by, "; "), ok
}

// every runs all of the library's tests on a mutation, and reports which fail.
// ok: some do.
func (r *runner) every(ctx context.Context, m mutation) (verdict string, ok bool) {
	overlay, err := r.overlay(m)
	if err != nil {
		return err.Error(), false
	}
	res, err := r.gotest(ctx, "...", ".", "", overlay)
	if err != nil {
		return err.Error(), false
	}
	var by []string
	for name, v := range res.verdicts {
		if v == "fail" {
			by = append(by, name)
		}
	}
	slices.Sort(by)
	if len(by) == 0 {
		return "by no test\n" + res.last(), false
	}
	return fmt.Sprintf("by %d tests\n    %s", len(by), strings.Join(by, "\n    ")), true
}
