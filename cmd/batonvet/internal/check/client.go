package check

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Client finds clients that are opened for each call.
var Client = &analysis.Analyzer{
	Name: "batonclient",
	Doc: `find clients that are opened for each request

A client has a connection and a session, which the service keeps alive: one is
meant for the whole process. The check reports a client that is opened in an
HTTP handler, within the work of Do or Run, or in a loop that also closes it.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runClient,
}

func runClient(pass *analysis.Pass) (any, error) {
	for c := range calls(pass) {
		call := c.Node().(*ast.CallExpr)
		if !opens(pass.TypesInfo, call) {
			continue
		}
		if where := perCall(pass.TypesInfo, c, call); where != "" {
			pass.Reportf(call.Pos(), "a client is opened %s: each has a connection and a session; "+
				"open one when the process starts, and share it", where)
		}
	}
	return nil, nil
}

// opens reports whether a call returns a new client.
func opens(info *types.Info, call *ast.CallExpr) bool {
	f := callee(info, call)
	if f == nil || f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path(), coordinator) ||
		f.Signature().Recv() != nil || f.Signature().Results().Len() == 0 {
		return false
	}
	p, ok := f.Signature().Results().At(0).Type().(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := types.Unalias(p.Elem()).(*types.Named)
	return ok && named.Obj().Name() == "Client" && named.Obj().Exported() && f.Exported() &&
		strings.HasPrefix(named.Obj().Pkg().Path(), module)
}

// perCall says what around a call runs again and again.
func perCall(info *types.Info, c inspector.Cursor, call *ast.CallExpr) string {
	for around := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil), (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.CallExpr)(nil)) {
		switch n := around.Node().(type) {
		case *ast.ForStmt:
			if closes(info, n.Body, call) {
				return "in each round of a loop"
			}
		case *ast.RangeStmt:
			if closes(info, n.Body, call) {
				return "in each round of a loop"
			}
		case *ast.CallExpr:
			if work := workOf(info, n); work != nil && work.Pos() <= call.Pos() && call.Pos() < work.End() {
				return "in the work of " + title(callee(info, n))
			}
		case *ast.FuncLit:
			if handles(info.TypeOf(n).(*types.Signature)) {
				return "for each HTTP request"
			}
		case *ast.FuncDecl:
			if f, ok := info.Defs[n.Name].(*types.Func); ok && handles(f.Signature()) {
				return "for each HTTP request"
			}
		}
	}
	return ""
}

// handles reports whether a function has the parameters of an HTTP handler.
func handles(s *types.Signature) bool {
	const request, writer = "*net/http.Request", "net/http.ResponseWriter"
	seen := map[string]bool{}
	for p := range s.Params().Variables() {
		seen[types.Unalias(p.Type()).String()] = true
	}
	return seen[request] && seen[writer]
}

// closes reports whether a loop closes the client that it opens with a call,
// so that the next round needs another one.
func closes(info *types.Info, body *ast.BlockStmt, open *ast.CallExpr) (found bool) {
	var client types.Object
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if ok && len(a.Rhs) == 1 && a.Rhs[0] == ast.Expr(open) {
			if id, ok := a.Lhs[0].(*ast.Ident); ok {
				client = variable(info, id)
			}
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		if _, later := n.(*ast.FuncLit); later {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Close" {
			return true
		}
		id, ok := s.X.(*ast.Ident)
		found = found || ok && client != nil && info.ObjectOf(id) == client
		return true
	})
	return found
}
