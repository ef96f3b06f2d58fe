package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/baton-go/baton/internal/pages"
)

// checker type-checks blocks of Go against the compiler's export data.
type checker struct {
	exports map[string]string // by import path: the file with the compiler's export data
	byName  map[string]string // by the name of a package: the import path meant
	types   types.Importer
}

// modules are the modules with packages for others: the library, the observers,
// the adapters.
var modules = []string{root, root + "/contrib", root + "/coordinator/observe/otelobserve", root + "/coordinator/observe/promobserve"}

// extra has the packages that pages use and the modules do not import.
var extra = []string{"testing", "testing/synctest", "database/sql", "hash/fnv", "os/signal", "log", "net/http"}

// newChecker returns the checker that all tests share, since listing the export
// data takes seconds.
func newChecker(t *testing.T) *checker {
	t.Helper()
	c, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var listed = sync.OnceValues(func() (*checker, error) {
	c := &checker{exports: map[string]string{}, byName: map[string]string{}}
	best := map[string]int{}
	for _, dir := range modules {
		list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Name}}\t{{.Standard}}\t{{.Export}}", "./..."}, extra...)...)
		list.Dir, list.Stderr = dir, os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			path, name := f[0], f[1]
			if c.exports[path] == "" {
				c.exports[path] = f[3]
			}
			if rank := rank(path, f[2] == "true"); rank > best[name] {
				best[name], c.byName[name] = rank, path
			}
		}
	}
	c.types = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if c.exports[path] == "" {
			return nil, fmt.Errorf("no package %q in the modules or their imports", path)
		}
		return os.Open(c.exports[path])
	})
	return c, nil
})

// rank orders the packages of one name: a block without imports means the one
// of the highest rank.
func rank(path string, standard bool) int {
	switch {
	case strings.Contains(path, "internal") || strings.HasSuffix(path, "/v3/concurrency"):
		return 0 // a block that means etcd's concurrency imports it
	case strings.HasPrefix(path, "github.com/baton-go/baton/"):
		return 3
	case standard && !strings.Contains(path, "vendor/"):
		return 2
	}
	return 1
}

// check returns the errors of a block.
func (c *checker) check(page string, b pages.Block) []error {
	note, _ := strings.CutPrefix(b.Note, "go:")
	if note == b.Note {
		note = ""
	}
	place := fmt.Sprintf("\n//line %s:%d\n", page, b.Line)
	declared := "\n" + note + "\n"
	if program := strings.HasPrefix(b.Text, "package ") || strings.Contains(b.Text, "\npackage "); program {
		return c.compile(false, place[1:]+b.Text)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+b.Text, parser.SkipObjectResolution); err == nil {
		return c.compile(true, "package p\n"+place[1:]+b.Text, "package p\n"+declared)
	}
	head := "func _() {"
	if returnsError(b.Text) {
		head = "func _() error {"
	}
	return c.compile(true, "package p"+declared+"var (ctx context.Context; client *coordinator.Client)\n"+head+place+b.Text+"\npanic(0)}")
}

// compile type-checks the files of one package. In a lenient package packages
// need no import, variables and imports no use.
func (c *checker) compile(lenient bool, sources ...string) []error {
	fset, errs := token.NewFileSet(), []error(nil)
	var files []*ast.File
	own := map[string]bool{}
	for i, src := range sources {
		f, err := parser.ParseFile(fset, fmt.Sprintf("snippet%d.go", i), src, 0)
		if err != nil {
			return []error{err}
		}
		for name := range f.Scope.Objects {
			own[name] = true
		}
		files = append(files, f)
	}
	for i, f := range files {
		if lenient {
			files[i] = c.withImports(fset, f, own, sources[i])
		}
	}
	conf := types.Config{Importer: c.types, Error: func(err error) {
		var e types.Error
		if !errors.As(err, &e) || !e.Soft || !lenient {
			errs = append(errs, err)
		}
	}}
	_, _ = conf.Check("p", fset, files, nil) // errs has its error, too
	return errs
}

// withImports parses a file again, with the imports that it lacks.
func (c *checker) withImports(fset *token.FileSet, f *ast.File, own map[string]bool, src string) *ast.File {
	again, err := parser.ParseFile(fset, "", c.imported(f, own, src), parser.SkipObjectResolution)
	if err != nil {
		return f
	}
	return again
}

// imported adds the imports that a file lacks to its text, on the line of the
// package clause so that line numbers stay.
func (c *checker) imported(f *ast.File, own map[string]bool, src string) string {
	var lacks []string
	for name := range unresolved(f) {
		imported := slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
			path := strings.Trim(i.Path.Value, `"`)
			return i.Name != nil && i.Name.Name == name || strings.HasSuffix("/"+path, "/"+name) || strings.HasSuffix(path, "/"+name+"/v3")
		})
		if path := c.byName[name]; path != "" && !own[name] && !imported {
			lacks = append(lacks, fmt.Sprintf("; import %s %q", name, path))
		}
	}
	return "package p" + strings.Join(lacks, "") + strings.TrimPrefix(src, "package p")
}
