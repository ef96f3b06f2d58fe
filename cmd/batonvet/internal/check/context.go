package check

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// Context finds work that does not end with its hold.
var Context = &analysis.Analyzer{
	Name: "batoncontext",
	Doc: `find calls within a hold that get the context from outside of it

The context of a hold ends when the hold is lost. Work that uses the context
with which the lock was requested runs on, beside the next holder. A lock that
is requested with it waits for itself if it has the same name, and a deadlock
with other locks is not noticed.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run:      runContext,
}

func runContext(pass *analysis.Pass) (any, error) {
	for c := range calls(pass) {
		call := c.Node().(*ast.CallExpr)
		if work := workOf(pass.TypesInfo, call); work != nil {
			checkWork(pass, call, work)
		}
	}
	eachGrant(pass, func(g grant, around ast.Node) {
		if g.hold != nil && g.isLocal(around) {
			checkHold(g, around)
		}
	})
	return nil, nil
}

// workOf returns the function that a call of Do or Run runs within a hold.
func workOf(info *types.Info, call *ast.CallExpr) *ast.FuncLit {
	f := callee(info, call)
	if f == nil || !ofBaton(f.Pkg()) {
		return nil
	}
	for _, arg := range call.Args {
		work, ok := arg.(*ast.FuncLit)
		if !ok {
			continue
		}
		params := info.TypeOf(work).(*types.Signature).Params()
		if params.Len() > 0 && isContext(params.At(0).Type()) {
			return work
		}
	}
	return nil
}

// checkWork reports the calls in the work of Do that get a context from around
// it. Work within work is checked on its own, and what a go statement starts
// may outlive the hold on purpose.
func checkWork(pass *analysis.Pass, do *ast.CallExpr, work *ast.FuncLit) {
	name := title(callee(pass.TypesInfo, do))
	inner := "the work's own context"
	if names := work.Type.Params.List[0].Names; len(names) > 0 && names[0].Name != "_" {
		inner = names[0].Name
	}
	ast.Inspect(work.Body, func(n ast.Node) bool {
		if _, outlives := n.(*ast.GoStmt); outlives {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, arg := range call.Args {
			from := contextOf(pass.TypesInfo, arg)
			if from == nil || work.Pos() <= from.Pos() && from.Pos() < work.End() || harmless(pass.TypesInfo, call) {
				continue
			}
			d := analysis.Diagnostic{Pos: arg.Pos(), End: arg.End(), Message: fmt.Sprintf(
				"%s comes from outside of %s, so it does not end with the hold: use %s%s",
				types.ExprString(arg), name, inner, selfWait(pass.TypesInfo, call))}
			if names := work.Type.Params.List[0].Names; len(names) > 0 && names[0].Name != "_" {
				d.SuggestedFixes = []analysis.SuggestedFix{{
					Message:   "Use " + inner,
					TextEdits: []analysis.TextEdit{{Pos: arg.Pos(), End: arg.End(), NewText: []byte(inner)}},
				}}
			}
			pass.Report(d)
		}
		return workOf(pass.TypesInfo, call) == nil || call == do
	})
}

// checkHold reports the calls between a grant and its release that get the
// context with which it was requested.
func checkHold(g grant, around ast.Node) {
	info := g.pass.TypesInfo
	if len(g.call.Args) == 0 {
		return
	}
	outer := contextOf(info, g.call.Args[0])
	if outer == nil || !hasContext(g.hold.Type()) {
		return
	}
	reported := map[ast.Expr]bool{}
	changed := false
	visit := func(n ast.Node) {
		if a, ok := n.(*ast.AssignStmt); ok {
			changed = changed || slices.ContainsFunc(a.Lhs, func(e ast.Expr) bool {
				id, ok := e.(*ast.Ident)
				return ok && info.ObjectOf(id) == outer
			})
		}
		if _, later := n.(*ast.DeferStmt); later || changed {
			return
		}
		ast.Inspect(n, func(n ast.Node) bool {
			if _, later := n.(*ast.FuncLit); later {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || harmless(info, call) {
				return true
			}
			for _, arg := range call.Args {
				if contextOf(info, arg) != outer || reported[arg] {
					continue
				}
				reported[arg] = true
				g.pass.Reportf(arg.Pos(), "%s does not end with the hold of %s: use %s.Context()%s",
					types.ExprString(arg), title(callee(info, g.call)), g.hold.Name(), selfWait(info, call))
			}
			return true
		})
	}
	g.walk(around, visit, func(*ast.ReturnStmt) {})
}

// hasContext reports whether a hold has a context of its own.
func hasContext(hold types.Type) bool {
	o, _, _ := types.LookupFieldOrMethod(hold, true, nil, "Context")
	return o != nil
}

// contextOf returns the variable that an argument is, or whose context it is:
// ctx, or r.Context() of an HTTP request.
func contextOf(info *types.Info, arg ast.Expr) types.Object {
	switch e := arg.(type) {
	case *ast.Ident:
		if v, ok := info.ObjectOf(e).(*types.Var); ok && isContext(v.Type()) && !isGlobal(v) {
			return v
		}
	case *ast.CallExpr:
		f, of := callee(info, e), e.Fun
		s, ok := of.(*ast.SelectorExpr)
		if !ok || f == nil || f.FullName() != "(*net/http.Request).Context" {
			return nil
		}
		if id, ok := s.X.(*ast.Ident); ok {
			return info.ObjectOf(id)
		}
	}
	return nil
}

func isGlobal(v *types.Var) bool { return v.Pkg() != nil && v.Parent() == v.Pkg().Scope() }

// harmless reports whether a call may get the context from outside: it is a
// call of Baton that does not lock, it ends something, it only reads the
// context, or it logs.
func harmless(info *types.Info, call *ast.CallExpr) bool {
	f := callee(info, call)
	if f == nil {
		return false
	}
	if f.Pkg() != nil && strings.HasPrefix(f.Pkg().Path(), module) {
		_, locks := grants(info, call)
		return !locks && workOf(info, call) == nil // it releases, or looks at a queue or hold
	}
	switch {
	case f.Name() == "Close", f.Name() == "Shutdown":
		return true
	case isFrom(f, "log/slog"), isFrom(f, "log"), isFrom(f, "testing"), isFrom(f, "fmt"):
		return true
	case isFrom(f, "context"): // deriving is found where the result is used
		return true
	}
	return false
}

// selfWait adds what happens if the call requests a hold.
func selfWait(info *types.Info, call *ast.CallExpr) string {
	f := callee(info, call)
	if _, locks := grants(info, call); locks || workOf(info, call) != nil {
		return ", or " + title(f) + " of the same name waits for itself"
	}
	return ""
}
