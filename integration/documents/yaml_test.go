package documents_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/baton-go/baton/internal/pages"
)

// It checks blocks in the pages, and files of docs, examples and the repository
// itself. It is in this module because the root module has no parser.
func TestDocumentedYAMLParses(t *testing.T) {
	list, err := pages.All(root)
	if err != nil || len(list) < 10 {
		t.Fatalf("%d pages, %v", len(list), err)
	}
	for _, p := range list {
		for _, b := range p.Blocks {
			if b.Lang != "yaml" && b.Lang != "yml" {
				continue
			}
			if err := parseYAML(strings.NewReader(b.Text)); err != nil {
				t.Errorf("%s:%d: %v", p.Path, b.Line, err)
			}
		}
	}
	for _, dir := range []string{"docs", "examples", ".github", ".goreleaser.yaml", ".golangci.yml"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || ext != ".yaml" && ext != ".yml" {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			if err := parseYAML(f); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if parseYAML(strings.NewReader("a: 1\n---\nb: [2]\n")) != nil || parseYAML(strings.NewReader("a: [1\n")) == nil {
		t.Error("the parser does not distinguish valid from invalid YAML")
	}
}

// parseYAML reads consecutive documents.
func parseYAML(r io.Reader) error {
	for d := yaml.NewDecoder(r); ; {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
