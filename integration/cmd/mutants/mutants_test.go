package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func root(t *testing.T) string {
	t.Helper()
	root, err := repository(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// No mutation is run. The patterns must still occur in the code, and the named
// tests must exist.
func TestMutationsFitTheCode(t *testing.T) {
	root := root(t)
	seen := map[string]bool{}
	promise := regexp.MustCompile(`^P[1-8]$`)
	name := regexp.MustCompile(`^[a-z-]+$`)
	for _, m := range mutations {
		if seen[m.name] || !name.MatchString(m.name) {
			t.Errorf("%q is a duplicate or an invalid name", m.name)
		}
		seen[m.name] = true
		if !promise.MatchString(m.promise) || m.what == "" || len(m.caught) == 0 || m.old == m.new {
			t.Errorf("%s: incomplete", m.name)
		}
		path, changed, err := mutate(root, m)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), path, changed, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s yields invalid Go: %v", m.name, err)
		}
		for _, by := range m.caught {
			if !declared(t, filepath.Join(root, by.pkg), by.name) {
				t.Errorf("%s: %v does not exist", m.name, by)
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d mutations", len(seen))
	}
}

// declared reports whether a test is declared in a directory.
func declared(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	fn := regexp.MustCompile(`(?m)^func ` + name + `\(t \*testing\.T\)`)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if fn.Match(src) {
			return true
		}
	}
	return false
}

func TestPageMatchesTheTables(t *testing.T) {
	have, err := os.ReadFile(filepath.Join(root(t), "docs/mutants.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page(mutations) {
		t.Errorf("docs/mutants.md is out of date: run %s", regenerate)
	}
}
