// Package docs_test compares the documentation with the code: examples compile,
// commands, links and packages exist, and words are the field's.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/baton-go/baton/internal/pages"
)

const root = ".."

// all reads the pages.
func all(t *testing.T) []pages.Page {
	t.Helper()
	list, err := pages.All(root)
	if err != nil || len(list) < 10 {
		t.Fatalf("%d pages, %v", len(list), err)
	}
	return list
}

// at formats a place in a file as editors read it.
func at(page string, line int) string { return fmt.Sprintf("%s:%d", page, line) }

// TestGoCompiles type-checks every block of Go. A block with a package clause
// is a whole program. For other blocks the comment above it, which readers do
// not see, declares the names that it uses:
//
//	<!-- go: var lock *mutex.Lock; func report(context.Context) error -->
//
// Such a block is a file without its package clause, or statements of a
// function in which ctx and client are declared. Packages need no import there,
// and variables no use. TestTestsOfPagesRun runs the blocks whose note is
// pages.Run, a test in integration/ those of pages.InIntegration.
func TestGoCompiles(t *testing.T) {
	c := newChecker(t)
	found := 0
	for _, p := range all(t) {
		for _, b := range p.Blocks {
			if b.Lang != "go" {
				continue
			}
			found++
			if b.Note == pages.InIntegration || b.Note == pages.Run {
				continue
			}
			for _, err := range c.check(p.Path, b) {
				t.Error(err)
			}
		}
	}
	if found < 16 {
		t.Errorf("only %d blocks of Go were found", found)
	}
}

// TestWrongGoIsFound: the check above can fail.
func TestWrongGoIsFound(t *testing.T) {
	c := newChecker(t)
	for text, ok := range map[string]bool{
		"m, err := mutex.New(client, \"x\")\n":           true,
		"m, err := mutex.New(client)\n":                  false,
		"err := nothing()\n":                             false,
		"err := mutex.Nothing()\n":                       false,
		"x :=\n":                                         false,
		"return ctx.Err()\n":                             true,
		"if true {\n\treturn\n}\n":                       true,
		"func f() error { return nil }\n":                true,
		"func f() error { return 1 }\n":                  false,
		"import \"fmt\"\n\nfunc f() { fmt.Println() }\n": true,
		"import \"no/such\"\n\nfunc f() { such.F() }\n":  false,
		"package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n": true,
		"package main\n\nfunc main() { fmt.Println(1) }\n":                   false,
		"package main\n\nimport \"fmt\"\n\nfunc main() {}\n":                 false,
		"package main\n\nfunc main() { x := 1 }\n":                           false,
	} {
		if errs := c.check("x.md", pages.Block{Lang: "go", Text: text, Line: 1}); (len(errs) == 0) != ok {
			t.Errorf("%q: %v", text, errs)
		}
	}
}

// unresolved returns the names before a dot that a file does not declare:
// packages, unless the file imports them.
func unresolved(f *ast.File) map[string]bool {
	names, free := map[string]bool{}, map[*ast.Ident]bool{}
	for _, id := range f.Unresolved {
		free[id] = true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && free[id] {
				names[id.Name] = true
			}
		}
		return true
	})
	return names
}

// returnsError reports whether the statements of a fragment return a value,
// except in functions that they contain.
func returnsError(fragment string) bool {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() {\n"+fragment+"\n}", parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	found := false
	ast.Inspect(f.Decls[0].(*ast.FuncDecl).Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
			found = true
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return found
}
