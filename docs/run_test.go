package docs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-go/baton/internal/pages"
)

// TestTestsOfPagesRun runs the blocks that are tests of this module.
func TestTestsOfPagesRun(t *testing.T) {
	c, found := newChecker(t), 0
	for _, p := range all(t) {
		var sources []string
		for _, b := range p.Blocks {
			if b.Note == pages.Run {
				sources = append(sources, fmt.Sprintf("package p\n//line %s:%d\n%s", p.Path, b.Line, b.Text))
			}
		}
		if len(sources) == 0 {
			continue
		}
		found += len(sources)
		if out, err := runTests(t, c, sources); err != nil {
			t.Errorf("%s: %v\n%s", p.Path, err, out)
		}
	}
	if found < 5 {
		t.Errorf("only %d blocks that run were found", found)
	}
}

// TestFailingTestOfAPageIsFound: the test above can fail.
func TestFailingTestOfAPageIsFound(t *testing.T) {
	out, err := runTests(t, newChecker(t), []string{
		"package p\nfunc want() int { return 1 }\n",
		"package p\n//line x.md:7\nfunc TestIt(t *testing.T) { if m := new(mutex.Mutex); m != nil && want() != 2 { t.Error(\"one\") } }\n",
	})
	if err == nil || !strings.Contains(out, "x.md:7: one") {
		t.Errorf("%v\n%s", err, out)
	}
}

// runTests runs the tests of a package, whose files need no imports.
func runTests(t *testing.T, c *checker, sources []string) (output string, err error) {
	t.Helper()
	dir, err := os.MkdirTemp(".", "_page-") // not matched by ./...
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i, src := range sources {
		f, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
		if err != nil {
			return "", err
		}
		name := filepath.Join(dir, fmt.Sprintf("page%d_test.go", i))
		if err := os.WriteFile(name, []byte(c.imported(f, nil, src)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./"+filepath.ToSlash(dir)).CombinedOutput()
	return string(out), err
}
