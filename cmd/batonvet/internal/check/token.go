package check

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Token finds fencing tokens that nobody can check.
var Token = &analysis.Analyzer{
	Name: "batontoken",
	Doc: `find fencing tokens that are fetched and not sent

A token protects a resource only if each write sends it and the resource refuses
smaller ones. The check reports a token, or a sequencer, that is dropped or
kept in a variable that is only printed.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runToken,
}

func runToken(pass *analysis.Pass) (any, error) {
	kept := map[types.Object]*ast.CallExpr{} // by the variable that gets it
	for c := range calls(pass) {
		call := c.Node().(*ast.CallExpr)
		if !isToken(pass.TypesInfo, call) {
			continue
		}
		switch to, found := variableOf(pass.TypesInfo, c.Parent().Node()); {
		case !found:
		case to == nil:
			reportToken(pass, call, "is dropped")
		case to.Parent() != pass.Pkg.Scope():
			kept[to] = call
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	seen := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	used := map[types.Object]bool{}
	for c := range seen.Root().Preorder((*ast.Ident)(nil)) {
		id := c.Node().(*ast.Ident)
		if o := pass.TypesInfo.Uses[id]; kept[o] != nil {
			used[o] = used[o] || uses(pass.TypesInfo, c.Parent().Node(), id)
		}
	}
	for o, call := range kept {
		if !used[o] {
			reportToken(pass, call, "is not sent")
		}
	}
	return nil, nil
}

// variableOf returns the variable that a statement gives the result of a call
// to; nil if it gives it to none.
func variableOf(info *types.Info, stmt ast.Node) (to types.Object, found bool) {
	switch stmt := stmt.(type) {
	case *ast.ExprStmt:
		return nil, true
	case *ast.AssignStmt:
		if id, ok := stmt.Lhs[0].(*ast.Ident); ok && len(stmt.Lhs) == 1 {
			return variable(info, id), true
		}
	}
	return nil, false
}

// uses reports whether a node does more with one of its identifiers than to
// print it, to drop it or to give it a value.
func uses(info *types.Info, n ast.Node, id *ast.Ident) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return !prints(info, n)
	case *ast.AssignStmt:
		if slices.Contains(n.Lhs, ast.Expr(id)) {
			return false
		}
		to, ok := n.Lhs[0].(*ast.Ident)
		return !ok || len(n.Lhs) > 1 || to.Name != "_"
	}
	return true
}

func reportToken(pass *analysis.Pass, call *ast.CallExpr, what string) {
	pass.Reportf(call.Pos(), "the token of %s %s: send it to the resource with each write, "+
		"and let the resource refuse smaller ones (see package fence)", title(callee(pass.TypesInfo, call)), what)
}

// isToken reports whether a call returns the token or sequencer of a hold.
func isToken(info *types.Info, call *ast.CallExpr) bool {
	f := callee(info, call)
	if f == nil || f.Signature().Recv() == nil {
		return false
	}
	_, hold := isHold(f.Signature().Recv().Type())
	return hold && (strings.HasPrefix(f.Name(), "Token") || strings.HasPrefix(f.Name(), "Sequencer"))
}

// prints reports whether a call only writes its arguments for people.
func prints(info *types.Info, call *ast.CallExpr) bool {
	f := callee(info, call)
	if f == nil {
		return false
	}
	return isFrom(f, "log") || isFrom(f, "log/slog") || isFrom(f, "fmt") && strings.HasPrefix(f.Name(), "Print")
}
