package documents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// virtual are the tests of this module that run in virtual time, in which a
// sleep costs nothing and a duration is exact.
var virtual = []string{"internal/simulation/", "internal/virtualetcd/", "internal/virtualzk/", "scripted/", "simulation/", "observability_scrape_test.go"}

// A busy machine delays everything. So a test on real servers waits with
// package await, which names a condition and no time, and asserts no duration,
// except where durations are what the test is about.
func TestTestsOnRealServersAssertNoDuration(t *testing.T) {
	const module = root + "/integration"
	seen := 0
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_figures_test.go") {
			return err
		}
		name, err := filepath.Rel(module, path)
		inVirtual := slices.ContainsFunc(virtual, func(v string) bool { return strings.HasPrefix(filepath.ToSlash(name), v) })
		if err != nil || inVirtual {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		seen++
		for _, at := range durationsAsserted(file) {
			t.Errorf("%s asserts a duration: assert an order of events, or put the test into a file *_figures_test.go", files.Position(at))
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("%d files, %v", seen, err)
	}
}

func TestAssertedDurationsAreFound(t *testing.T) {
	for body, want := range map[string]int{
		`if time.Since(began) > time.Second { t.Error() }`:                              1,
		`took := end.Sub(began); if err != nil || took > most { t.Fatalf("") }`:         1,
		`if d := time.Since(began); d < most { return } else { t.Errorf("") }`:          1,
		`if took := time.Since(began); took > most { return fmt.Errorf("late") }`:       1,
		`took := run(); if took > most { t.Error() }`:                                   0, // what it does not see
		`if time.Since(began) > most { break }`:                                         0,
		`if g.at.Before(told) { t.Error() }`:                                            0,
		`n := count(); if n > most { t.Error() }; t.Log(time.Since(began))`:             0,
		`func() { took := time.Since(began) }(); if took := n; took > 2 { t.Error() }`:  0,
		`if paused := time.Since(began); paused > most { servers.Skip(t, "too slow") }`: 0,
		`t.Run("", func(t *testing.T) { if time.Since(began) >= most { t.Error(1) } })`: 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x; func TestX(t *testing.T) {"+body+"}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(durationsAsserted(file)); got != want {
			t.Errorf("%d found, want %d: %s", got, want, body)
		}
	}
}

// durationsAsserted returns where a test fails because of a comparison with the
// time that has passed, as far as the syntax shows it.
func durationsAsserted(file *ast.File) (at []token.Pos) {
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil || inBubble(fn) {
			continue
		}
		passed := map[string]bool{} // variables of the function that have passed time
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if name, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
						passed[name.Name] = isElapsed(n.Rhs[i], passed)
					}
				}
			case *ast.IfStmt:
				if n.Init != nil {
					if set, ok := n.Init.(*ast.AssignStmt); ok && len(set.Lhs) == len(set.Rhs) {
						for i, to := range set.Lhs {
							if name, ok := to.(*ast.Ident); ok {
								passed[name.Name] = isElapsed(set.Rhs[i], passed)
							}
						}
					}
				}
				if compares(n.Cond, passed) && (fails(n.Body) || n.Else != nil && fails(n.Else)) {
					at = append(at, n.Pos())
				}
			}
			return true
		})
	}
	return at
}

// inBubble reports whether a function runs its body in virtual time.
func inBubble(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			found = found || name.Name == "synctest"
		}
		return true
	})
	return found
}

// isElapsed reports whether an expression is a time that has passed, or is
// computed from one.
func isElapsed(e ast.Expr, passed map[string]bool) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.CompositeLit:
			return false
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Since" || s.Sel.Name == "Sub") {
				found = true
			}
		case *ast.Ident:
			found = found || passed[n.Name]
		}
		return true
	})
	return found
}

// compares reports whether a condition compares a time that has passed.
func compares(cond ast.Expr, passed map[string]bool) (found bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok {
			switch b.Op {
			case token.LSS, token.GTR, token.LEQ, token.GEQ:
				found = found || isElapsed(b.X, passed) || isElapsed(b.Y, passed)
			}
		}
		return true
	})
	return found
}

// fails reports whether a block fails the test, or returns a new error.
func fails(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			found = found || slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}, s.Sel.Name)
		}
		return true
	})
	return found
}
