package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

func TestPageMatchesTheTable(t *testing.T) {
	have, err := os.ReadFile(filepath.Join(root, "docs/track-record.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page(faults) {
		t.Error("docs/track-record.md is out of date: run (cd integration && go run ./cmd/reproduce -markdown > ../docs/track-record.md)")
	}
}

// No fault is reproduced here. The rows must be complete, and their tests must
// exist.
func TestRowsNameTestsThatExist(t *testing.T) {
	seen := map[string]bool{}
	name, commit := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), regexp.MustCompile(`^[0-9a-f]{7,40}$`)
	for _, f := range faults {
		if seen[f.name] || !name.MatchString(f.name) || !commit.MatchString(f.mend) || !strings.HasSuffix(f.what, ".") {
			t.Errorf("%q is a duplicate, or invalid", f.name)
		}
		seen[f.name] = true
		switch f.found {
		case "review", "test", "seed", "mutant", "report":
		default:
			t.Errorf("%s: found by %q", f.name, f.found)
		}
		if !declared(t, f.pkg, f.today()) {
			t.Errorf("%s: %s has no %s", f.name, f.pkg, f.today())
		}
	}
	if len(seen) < 25 {
		t.Errorf("only %d rows", len(seen))
	}
}

func declared(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), "\nfunc "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// A repository whose first commit is right, whose second breaks it, and whose
// third mends it, with a test.
func TestFaultIsReproducedFromTheHistory(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(files map[string]string) string {
		t.Helper()
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run("add", ".")
		run("commit", "-q", "-m", "change")
		return run("rev-parse", "--short", "HEAD")
	}
	run("init", "-q")
	first := commit(map[string]string{"go.mod": "module trial\n\ngo 1.26\n", "a/a.go": "package a\n\nfunc sum(x, y int) int { return x - y }\n"})
	test := `package a

import (
	"os"
	"testing"
)

func TestSum(t *testing.T) {
	if _, err := os.Stat("testdata/x"); err != nil || sum(1, 2) != 3 {
		t.Fatal(err)
	}
}

func TestNothing(t *testing.T) {}
`
	mend := commit(map[string]string{"a/a.go": "package a\n\nfunc sum(x, y int) int { return x + y }\n", "a/a_test.go": test, "a/testdata/x": ""})
	later := commit(map[string]string{"a/b.go": "package a\n\nfunc more() int { return 1 }\n", "a/b_test.go": "package a\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) { if more() != 1 { t.Fatal() } }\n"})

	r, err := newRunner(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	row := func(mend, test string) fault { return fault{name: "x", mend: mend, pkg: "a", test: test} }
	if err := r.hasHistory(t.Context(), []fault{row(mend, "TestSum")}); err != nil {
		t.Error(err)
	}
	if err := r.hasHistory(t.Context(), []fault{row(first, "TestSum")}); err == nil || !strings.Contains(err.Error(), "--unshallow") {
		t.Errorf("without a parent: %v", err)
	}
	for _, c := range []struct{ mend, test, says string }{
		{mend, "TestSum", ""},
		{mend, "TestNothing", "verdict is pass"},
		{mend, "TestNone", "does not exist"},
		{later, "TestMore", "does not compile"},
		{mend, "TestSum", ""}, // after another commit
	} {
		err := r.reproduce(t.Context(), row(c.mend, c.test))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s before %s: %v, want %q", c.test, c.mend, err, c.says)
		}
	}
	commit(map[string]string{"a/a_test.go": strings.Replace(test, "TestSum", "TestSumOfTwo", 1)})
	renamed := row(mend, "TestSum")
	if renamed.now = "TestSumOfTwo"; r.reproduce(t.Context(), renamed) != nil {
		t.Error("a test that has another name now is not found")
	}
	commit(map[string]string{"a/a.go": "package a\n\nfunc sum(x, y int) int { return x * y }\n", "a/a_test.go": test})
	if err := r.reproduce(t.Context(), row(mend, "TestSum")); err == nil || !strings.Contains(err.Error(), "now: ") {
		t.Errorf("a fault that is back: %v", err)
	}
}
