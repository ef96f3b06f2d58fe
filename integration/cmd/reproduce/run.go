package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// testTimeout is go test's own time limit. No test here needs a tenth of it.
const testTimeout = 2 * time.Minute

// runner runs tests on old and on present code.
type runner struct {
	root string // of the repository
	old  string // the old code; its place stays, so that the go command can use its cache
	at   string // the commit that old is before
}

func newRunner(ctx context.Context, root string) (*runner, error) {
	out, err := git(ctx, root, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("this needs the git repository: %w", err)
	}
	old, err := os.MkdirTemp("", "reproduce")
	return &runner{root: strings.TrimSpace(string(out)), old: old}, err
}

func (r *runner) close() { _ = os.RemoveAll(r.old) }

// hasHistory returns an error that says what to do if the commits of the rows,
// or their parents, are missing, as in a shallow clone.
func (r *runner) hasHistory(ctx context.Context, chosen []fault) error {
	for _, f := range chosen {
		if _, err := git(ctx, r.root, "cat-file", "-e", f.mend+"^^{commit}"); err != nil {
			return fmt.Errorf("the history is missing: no commit before %s. In a shallow clone run: git fetch --unshallow", f.mend)
		}
	}
	return nil
}

// reproduce returns nil if the fault's test fails before the mending commit,
// and passes now.
func (r *runner) reproduce(ctx context.Context, f fault) error {
	if err := r.checkOut(ctx, f); err != nil {
		return err
	}
	before, err := test(ctx, r.old, f.pkg, f.test)
	switch {
	case err != nil:
		return err
	case before.verdict != "fail":
		return fmt.Errorf("before %s: %s\n%s", f.mend, before.what(), before.output)
	}
	now, err := test(ctx, r.root, f.pkg, f.today())
	if err == nil && now.verdict != "pass" {
		err = fmt.Errorf("now: %s\n%s", now.what(), now.output)
	}
	return err
}

// checkOut makes old the code before the mending commit with that commit's
// tests of the package.
func (r *runner) checkOut(ctx context.Context, f fault) error {
	if r.at != f.mend {
		if err := os.RemoveAll(r.old); err != nil {
			return err
		}
		if err := r.extract(ctx, f.mend+"^"); err != nil {
			return err
		}
		r.at = f.mend
	}
	changed, err := git(ctx, r.root, "diff", "--name-only", "--diff-filter=AMR", "-z", f.mend+"^", f.mend, "--", f.pkg)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(changed), "\x00"), "\x00") {
		if isTest := strings.HasSuffix(name, "_test.go") && path.Dir(name) == f.pkg; !isTest && !strings.HasPrefix(name, f.pkg+"/testdata/") {
			continue
		}
		text, err := git(ctx, r.root, "show", f.mend+":"+name)
		if err != nil {
			return err
		}
		to := filepath.Join(r.old, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// extract writes the tree of a commit to old.
func (r *runner) extract(ctx context.Context, commit string) error {
	archive, err := git(ctx, r.root, "archive", "--format=tar", commit)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.old, 0o755); err != nil {
		return err
	}
	tar := exec.CommandContext(ctx, "tar", "-x", "-C", r.old)
	tar.Stdin = bytes.NewReader(archive)
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}

// outcome is that of one test.
type outcome struct {
	verdict  string // "pass", "fail", "skip", or "" if it did not run to its end
	compiles bool
	output   string
}

func (o outcome) what() string {
	switch {
	case !o.compiles:
		return "the test does not compile"
	case o.verdict == "":
		return "the test does not exist, or has no end"
	default:
		return "the test's verdict is " + o.verdict
	}
}

// event is an event of go test -json.
type event struct{ Action, Test, Output string }

// test runs one test of a package of a tree.
func test(ctx context.Context, root, pkg, name string) (o outcome, err error) {
	dir := module(root, pkg)
	rel, err := filepath.Rel(dir, filepath.Join(root, filepath.FromSlash(pkg)))
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off", "-timeout", testTimeout.String(),
		"-run", "^"+name+"$", "./"+filepath.ToSlash(rel))
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		return o, errors.Join(err, context.Cause(ctx))
	}
	return read(out, name, stderr.String()), nil
}

// read finds a test's outcome in the output of go test -json.
func read(out []byte, name, stderr string) outcome {
	o := outcome{compiles: true, output: stderr}
	hung := false
	for line := range bytes.Lines(out) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e.Action {
		case "build-fail":
			o.compiles = false
		case "pass", "fail", "skip":
			if e.Test == name {
				o.verdict = e.Action
			}
		case "output", "build-output":
			hung = hung || strings.HasPrefix(e.Output, "panic: test timed out")
			o.output += e.Output
		}
	}
	if hung || !o.compiles {
		o.verdict = ""
	}
	return o
}

// module returns the directory of the module that a package belongs to.
func module(root, pkg string) string {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		at := filepath.Join(root, filepath.FromSlash(dir))
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
	}
	return root
}

func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
