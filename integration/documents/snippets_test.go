package documents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/baton-go/baton/internal/pages"
)

// The pages have blocks that are tests and need this module.
func TestDocumentedTestsRun(t *testing.T) {
	list, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range list {
		for _, b := range p.Blocks {
			if b.Note != pages.InIntegration {
				continue
			}
			found++
			dir, err := os.MkdirTemp("../testdata", "snippet-") // within the module, but not matched by ./...
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			if err := os.WriteFile(filepath.Join(dir, "snippet_test.go"), []byte(b.Text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", dir).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", p.Path, b.Line, err, out)
			}
		}
	}
	if found == 0 {
		t.Error("no such block")
	}
}
