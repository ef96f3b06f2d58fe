package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMutationsDieInVirtualTime: a test that waits in real time may fail by
// itself on a busy machine, and a server takes minutes for a table of rules. So
// no mutation needs a server. And what breaks the drivers' or the engine's
// protocol is noticed by tests in bubbles, or by such that know no time and no
// network.
func TestMutationsDieInVirtualTime(t *testing.T) {
	root := root(t)
	packages := map[string]*testCode{}
	for _, m := range mutations {
		for _, by := range m.caught {
			if !withoutServers(by.pkg) {
				t.Errorf("%s: %v needs servers", m.name, by)
			}
			if !strings.HasPrefix(m.file, "coordinator/etcd/") && !strings.HasPrefix(m.file, "coordinator/zookeeper/") &&
				!strings.HasPrefix(m.file, "internal/engine/") {
				continue
			}
			if packages[by.pkg] == nil {
				packages[by.pkg] = parseTests(t, filepath.Join(root, by.pkg))
			}
			if uses := packages[by.pkg].realTime(by.name); uses != "" {
				t.Errorf("%s: %v is in no bubble, and %s", m.name, by, uses)
			}
		}
	}
}

// withoutServers reports whether the tests of a package need no server.
func withoutServers(pkg string) bool {
	return !strings.HasPrefix(pkg+"/", "integration/") || pkg == "integration/simulation" ||
		strings.HasPrefix(pkg, "integration/internal/virtual")
}

// testCode has what the functions in the tests of a package call, by their
// names.
type testCode struct{ uses map[string][]string }

func parseTests(t *testing.T, dir string) *testCode {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	code := &testCode{map[string][]string{}}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				code.uses[fn.Name.Name] = append(code.uses[fn.Name.Name], names(fn)...)
			}
		}
	}
	return code
}

// names returns the functions that a function calls, qualified if they are of
// another package.
func names(fn *ast.FuncDecl) (all []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			all = append(all, f.Name)
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok {
				all = append(all, x.Name+"."+f.Sel.Name)
			}
			all = append(all, f.Sel.Name)
		}
		return true
	})
	return all
}

// realTime returns what a test uses of real time or the network, or "".
func (c *testCode) realTime(name string) string {
	seen, todo := map[string]bool{name: true}, []string{name}
	found := ""
	for len(todo) > 0 {
		f := todo[0]
		todo = todo[1:]
		for _, used := range c.uses[f] {
			switch used {
			case "synctest.Test", "coordinatortest.Run", "simulation.Run":
				return ""
			case "time.Now", "time.Sleep", "time.After", "net.Listen", "net.Dial":
				found = f + " uses " + used
			}
			if !seen[used] && !slices.Contains(todo, used) && c.uses[used] != nil {
				seen[used] = true
				todo = append(todo, used)
			}
		}
	}
	return found
}
