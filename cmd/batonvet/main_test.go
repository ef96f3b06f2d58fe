package main_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// build compiles batonvet.
func build(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "batonvet")
	if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tool
}

// vet runs go vet with batonvet on packages of the module in dir. It returns
// what batonvet says, by place: "wrong.go:25".
func vet(t *testing.T, tool, dir string, packages ...string) map[string]string {
	t.Helper()
	vet := exec.Command("go", append([]string{"vet", "-vettool=" + tool}, packages...)...)
	vet.Dir = dir
	out, err := vet.CombinedOutput()
	place := regexp.MustCompile(`^(?:vet: )?(\S+\.go:\d+):\d+: (.*)$`)
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		switch m := place.FindStringSubmatch(strings.TrimSpace(line)); {
		case m != nil:
			said[m[1]] += m[2] + "\n"
		case !strings.HasPrefix(line, "#"):
			t.Fatalf("go vet in %s: %v\n%s", dir, err, out)
		}
	}
	if (err != nil) != (len(said) > 0) {
		t.Fatalf("go vet in %s: %v\n%s", dir, err, out)
	}
	return said
}

func TestWrongUsesAreFoundAndRightOnesAreNot(t *testing.T) {
	const dir = "testdata/corpus"
	said := vet(t, build(t), dir, "./...")
	want := regexp.MustCompile("// want `(.*)`$")
	found := 0
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			m := want.FindStringSubmatch(lines.Text())
			if m == nil {
				continue
			}
			at := fmt.Sprintf("%s:%d", filepath.Base(file), n)
			if got := strings.TrimSpace(said[at]); !regexp.MustCompile(m[1]).MatchString(got) {
				t.Errorf("%s: batonvet says %q, want a match of %q", at, got, m[1])
			}
			delete(said, at)
			found++
		}
	}
	for at, what := range said {
		t.Errorf("%s is right, but batonvet says %s", at, what)
	}
	if found < 12 {
		t.Errorf("the corpus has only %d faults", found)
	}
}

func TestBatonsOwnProgramsAreRight(t *testing.T) {
	tool := build(t)
	for dir, packages := range map[string]string{"../..": "./examples/...", "../baton": "./..."} {
		for at, what := range vet(t, tool, dir, packages) {
			t.Errorf("%s: %s", at, what)
		}
	}
}
