package documents_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow has the parts of a workflow file that are checked here; make lint-ci
// checks its form with actionlint.
type workflow struct {
	Jobs map[string]struct {
		Uses  string
		Steps []struct {
			Name, Uses, Run string
		}
	}
}

// block is the shell of one step.
type block struct{ place, script string }

// blocks returns the run blocks of all workflows.
func blocks(t *testing.T) (all []block) {
	t.Helper()
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("workflows: %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
			job := w.Jobs[name]
			if local, ok := strings.CutPrefix(job.Uses, "./"); ok {
				if _, err := os.Stat(filepath.Join(root, local)); err != nil {
					t.Errorf("%s, job %s: %v", file, name, err)
				}
			}
			for i, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s, job %s: %s is no commit, and can be replaced by another", file, name, step.Uses)
				}
				if step.Run != "" {
					all = append(all, block{fmt.Sprintf("%s, job %s, step %d", filepath.Base(file), name, i+1), step.Run})
				}
			}
		}
	}
	return all
}

var (
	pinned     = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	expression = regexp.MustCompile(`\$\{\{.*?\}\}`)
	makeCall   = regexp.MustCompile(`\bmake((?: +(?:[A-Z_]+=(?:"[^"]*"|\S+)|[a-z][a-z0-9-]*))+)`)
	script     = regexp.MustCompile(`(?:^|\s)(\.ci/[a-z-]+)`)
)

// wrong returns what is wrong with a block: it is no shell, make has no such
// target, or a script is missing.
func wrong(b block) error {
	// Expressions become text before the shell sees the block. Those of others,
	// such as a title, would be shell then: they belong into env.
	if e := expression.FindString(b.script); e != "" {
		return fmt.Errorf("%s in the shell: pass it by env", e)
	}
	parse := exec.Command("bash", "-n")
	parse.Stdin = strings.NewReader(b.script)
	if out, err := parse.CombinedOutput(); err != nil {
		return fmt.Errorf("bash -n: %w: %s", err, out)
	}
	for _, call := range makeCall.FindAllStringSubmatch(b.script, -1) {
		for word := range strings.FieldsSeq(call[1]) {
			if strings.Contains(word, "=") {
				continue
			}
			dry := exec.Command("make", "-n", "-C", root, word, "VERSION=v0.1.0")
			if out, err := dry.CombinedOutput(); err != nil {
				return fmt.Errorf("make -n %s: %w: %s", word, err, out)
			}
		}
	}
	for _, name := range script.FindAllStringSubmatch(b.script, -1) {
		info, err := os.Stat(filepath.Join(root, name[1]))
		if err != nil {
			return err
		}
		if info.Mode()&0o100 == 0 {
			return fmt.Errorf("%s is not executable", name[1])
		}
	}
	return nil
}

// TestWorkflowsRunTargetsThatExist: each run block parses as shell, and each
// target of make and script that it names exists.
func TestWorkflowsRunTargetsThatExist(t *testing.T) {
	targets := map[string]bool{}
	all := blocks(t)
	for _, b := range all {
		if err := wrong(b); err != nil {
			t.Errorf("%s: %v\n%s", b.place, err, b.script)
		}
		for _, call := range makeCall.FindAllStringSubmatch(b.script, -1) {
			for word := range strings.FieldsSeq(call[1]) {
				targets[word] = true
			}
		}
	}
	for _, want := range []string{"test-short", "test-386", "check", "lint", "apicheck", "vulncheck", "test", "conformance", "servers", "soak", "mutants", "fuzz-short", "benchcompare", "publish"} {
		if !targets[want] {
			t.Errorf("no workflow runs make %s", want)
		}
	}
}

func TestWrongBlocksAreFound(t *testing.T) {
	for text, ok := range map[string]bool{
		"make check": true, "make check lint": true, "make soak MINUTES=\"$MINUTES\" SERVICE=etcd": true, "make SERVICE=etcd soak": true,
		"make chekc": false, "make check lnit": false, "X=1 make MINUTES=\"$M\" saok": false, "if true; then\nmake check": false,
		"echo \"a": false, ".ci/deps\nmake test": true, ".ci/depz": false, "echo ${{ github.ref }}": false,
	} {
		if err := wrong(block{script: text}); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
