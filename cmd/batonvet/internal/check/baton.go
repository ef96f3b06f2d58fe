// Package check has the analyzers of batonvet.
//
// They know Baton by the shape of its API, not by a list of names, so that a
// new recipe is covered: a hold is a type of one of Baton's packages with a
// method that releases it, and a grant is a call that returns a hold and an
// error.
package check

import (
	"go/ast"
	"go/types"
	"iter"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// All returns the analyzers.
func All() []*analysis.Analyzer {
	return []*analysis.Analyzer{Release, Context, Token, Client}
}

const (
	module      = "github.com/baton-go/baton"
	coordinator = module + "/coordinator"
)

// ofBaton reports whether a package is one of Baton's recipes, as opposed to
// another package with such an API.
func ofBaton(p *types.Package) bool {
	return p != nil && strings.HasPrefix(p.Path(), module+"/") && !strings.HasPrefix(p.Path(), coordinator)
}

// calls are the calls to check. None are in Baton's library, which implements
// what the checks assume, and none in tests, which may hold a lock until their
// end, or use it wrongly to see what happens.
func calls(pass *analysis.Pass) iter.Seq[inspector.Cursor] {
	return func(yield func(inspector.Cursor) bool) {
		if isLibrary(pass.Pkg.Path()) {
			return
		}
		seen := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
		for c := range seen.Root().Preorder((*ast.CallExpr)(nil)) {
			file := pass.Fset.Position(c.Node().Pos()).Filename
			if !strings.HasSuffix(file, "_test.go") && !yield(c) {
				return
			}
		}
	}
}

func isLibrary(path string) bool {
	inside, ok := strings.CutPrefix(path, module+"/")
	return ok && !strings.HasPrefix(inside, "examples/") && !strings.HasPrefix(inside, "cmd/")
}

// releases are the methods that end a hold.
var releases = []string{"Unlock", "Release", "Resign", "Leave"}

// isHold reports whether t points to a hold, and returns its release method.
func isHold(t types.Type) (release string, ok bool) {
	p, isPointer := types.Unalias(t).(*types.Pointer)
	if !isPointer {
		return "", false
	}
	named, isNamed := types.Unalias(p.Elem()).(*types.Named)
	if !isNamed || !ofBaton(named.Obj().Pkg()) {
		return "", false
	}
	for m := range named.Methods() {
		sig := m.Signature()
		if slices.Contains(releases, m.Name()) && sig.Params().Len() == 1 &&
			isContext(sig.Params().At(0).Type()) && sig.Results().Len() == 1 {
			return m.Name(), true
		}
	}
	return "", false
}

func isContext(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Context" && isFrom(named.Obj(), "context")
}

func isFrom(o types.Object, path string) bool { return o.Pkg() != nil && o.Pkg().Path() == path }

// callee returns the function that a call names, or nil.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(info, call).(*types.Func)
	return f
}

// grants returns what is held after a call: the release method of the hold that
// it returns, with an error.
func grants(info *types.Info, call *ast.CallExpr) (release string, ok bool) {
	f := callee(info, call)
	if f == nil || !ofBaton(f.Pkg()) {
		return "", false
	}
	results := f.Signature().Results()
	if results.Len() != 2 || results.At(1).Type() != types.Universe.Lookup("error").Type() {
		return "", false
	}
	return isHold(results.At(0).Type())
}

// title names a function for a message, as in its documentation: "Mutex.Lock".
func title(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Pkg().Name() + "." + f.Name()
	}
	t := recv.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}
