package check

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// Release finds holds that a function neither releases nor gives away.
var Release = &analysis.Analyzer{
	Name: "batonrelease",
	Doc: `find holds that are not released on some path

A hold of Baton lasts until its Unlock, Release, Resign or Leave, or until the
session ends. The check reports a return before which the hold of the function
is neither released nor given to anybody.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run:      runRelease,
}

func runRelease(pass *analysis.Pass) (any, error) {
	eachGrant(pass, func(g grant, around ast.Node) {
		name := title(callee(pass.TypesInfo, g.call))
		if g.hold == nil {
			pass.Reportf(g.call.Pos(), "the hold of %s is dropped: nobody can call its %s; "+
				"keep it, or use Do", name, g.release)
			return
		}
		if !g.isLocal(around) {
			return
		}
		var first *ast.ReturnStmt
		g.walk(around, func(ast.Node) {}, func(r *ast.ReturnStmt) {
			if first == nil || r.Pos() < first.Pos() {
				first = r
			}
		})
		if first != nil {
			pass.Reportf(g.call.Pos(), "%s is not released before the return in line %d: "+
				"defer %s.%s(ctx) after the check of the error, or use Do",
				name, pass.Fset.Position(first.Pos()).Line, g.hold.Name(), g.release)
		}
	})
	return nil, nil
}
