package check

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
)

// grant is a statement such as
//
//	l, err := m.Lock(ctx)
//
// whose hold is kept in a variable of the function around it.
type grant struct {
	pass    *analysis.Pass
	stmt    *ast.AssignStmt
	call    *ast.CallExpr
	release string // the method that ends the hold
	hold    types.Object
	err     types.Object // nil if the error is not kept
}

// eachGrant calls f for each call that grants a hold, with the function around
// it: an *ast.FuncDecl or *ast.FuncLit. The hold is nil if it goes to the blank
// identifier or nowhere; f is not called if it goes where others may release
// it, such as a field.
func eachGrant(pass *analysis.Pass, f func(g grant, around ast.Node)) {
	for c := range calls(pass) {
		g := grant{pass: pass, call: c.Node().(*ast.CallExpr)}
		release, ok := grants(pass.TypesInfo, g.call)
		if !ok {
			continue
		}
		g.release = release
		switch stmt := c.Parent().Node().(type) {
		case *ast.ExprStmt:
		case *ast.AssignStmt:
			if len(stmt.Lhs) != 2 {
				continue
			}
			hold, named := stmt.Lhs[0].(*ast.Ident)
			if !named {
				continue
			}
			g.stmt, g.hold = stmt, variable(pass.TypesInfo, hold)
			if err, named := stmt.Lhs[1].(*ast.Ident); named {
				g.err = variable(pass.TypesInfo, err)
			}
		default:
			continue
		}
		for around := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
			f(g, around.Node())
			break
		}
	}
}

// variable returns what an identifier defines or means; nil for "_".
func variable(info *types.Info, id *ast.Ident) types.Object {
	if id.Name == "_" {
		return nil
	}
	return info.ObjectOf(id)
}

// isLocal reports whether the hold's variable belongs to the function, so that
// nobody else sees it: not to a function around it, and not to its results.
func (g grant) isLocal(around ast.Node) bool {
	var results *ast.FieldList
	switch f := around.(type) {
	case *ast.FuncDecl:
		results = f.Type.Results
	case *ast.FuncLit:
		results = f.Type.Results
	}
	within := func(n ast.Node) bool { return n.Pos() <= g.hold.Pos() && g.hold.Pos() < n.End() }
	return within(around) && (results == nil || !within(results))
}

// walk follows the paths from the grant on which it succeeded, as far as the
// hold lasts in this function. It calls visit with each node on them, also when
// a release at the function's end is deferred, and leak with a return before
// which the hold is neither released nor given to anybody.
func (g grant) walk(around ast.Node, visit func(ast.Node), leak func(*ast.ReturnStmt)) {
	graphs := g.pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	var graph *cfg.CFG
	switch f := around.(type) {
	case *ast.FuncDecl:
		graph = graphs.FuncDecl(f)
	case *ast.FuncLit:
		graph = graphs.FuncLit(f)
	}
	if graph == nil {
		return
	}
	w := &walker{grant: g, visit: visit, leak: leak, seen: map[place]bool{}}
	for _, b := range graph.Blocks {
		if n := slices.Index(b.Nodes, ast.Node(g.stmt)); n >= 0 {
			w.follow(b, n+1, state{})
		}
	}
}

// errState is what is known of the variable of the grant's error.
type errState int

const (
	ofGrant errState = iota // nil if the grant succeeded
	isNil
	notNil
	unknown
)

// state is what is known on a path.
type state struct {
	err      errState
	deferred bool // a release is deferred
}

type place struct {
	block *cfg.Block
	state
}

type walker struct {
	grant
	visit func(ast.Node)
	leak  func(*ast.ReturnStmt)
	seen  map[place]bool
}

func (w *walker) follow(b *cfg.Block, from int, s state) {
	if from == 0 {
		if w.seen[place{b, s}] {
			return
		}
		w.seen[place{b, s}] = true
	}
	for _, n := range b.Nodes[from:] {
		switch w.use(n) {
		case released:
			if _, later := n.(*ast.DeferStmt); !later {
				return
			}
			s.deferred = true
		case givenAway:
			return
		}
		if w.assigns(n, w.err) {
			s.err = unknown
		}
		w.visit(n)
		if r, ok := n.(*ast.ReturnStmt); ok && !s.deferred {
			w.leak(r)
		}
	}
	if len(b.Succs) != 2 || len(b.Nodes) == 0 {
		for _, next := range b.Succs {
			w.follow(next, 0, s)
		}
		return
	}
	condition, _ := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	for n, next := range b.Succs {
		if known, possible := w.given(condition, n == 0, s); possible {
			w.follow(next, 0, known)
		}
	}
}

// given returns what is known if a condition is true, or false, and whether it
// can be: on the paths of the walk the grant has succeeded.
func (w *walker) given(condition ast.Expr, holds bool, s state) (known state, possible bool) {
	switch c := condition.(type) {
	case *ast.ParenExpr:
		return w.given(c.X, holds, s)
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return w.given(c.X, !holds, s)
		}
	case *ast.BinaryExpr:
		if c.Op == token.LAND && holds || c.Op == token.LOR && !holds { // both are
			if s, possible = w.given(c.X, holds, s); !possible {
				return s, false
			}
			return w.given(c.Y, holds, s)
		}
		if y, ok := c.Y.(*ast.Ident); ok && y.Name == "nil" && (c.Op == token.EQL || c.Op == token.NEQ) {
			return w.givenNil(c.X, holds == (c.Op == token.EQL), s)
		}
	case *ast.CallExpr: // errors.Is(err, …)
		f := callee(w.pass.TypesInfo, c)
		if holds && f != nil && isFrom(f, "errors") && len(c.Args) > 0 {
			return w.givenNil(c.Args[0], false, s)
		}
	}
	return s, true
}

// givenNil is given for the condition that an expression is nil, or is not.
func (w *walker) givenNil(e ast.Expr, isNull bool, s state) (known state, possible bool) {
	switch {
	case w.is(e, w.hold):
		return s, !isNull
	case !w.is(e, w.err):
		return s, true
	case isNull:
		possible = s.err != notNil
		s.err = isNil
	default:
		possible = s.err == unknown || s.err == notNil
		s.err = notNil
	}
	return s, possible
}

func (w *walker) is(e ast.Expr, o types.Object) bool {
	id, ok := e.(*ast.Ident)
	return ok && o != nil && w.pass.TypesInfo.ObjectOf(id) == o
}

func (w *walker) assigns(n ast.Node, o types.Object) bool {
	a, ok := n.(*ast.AssignStmt)
	return ok && slices.ContainsFunc(a.Lhs, func(e ast.Expr) bool { return w.is(e, o) })
}

// What a statement does with the hold.
const (
	nothing   = iota
	released  // it calls the release method
	givenAway // others may release it: an argument, a result, a closure, …
)

// use finds what a node does with the hold. To call a method that is not the
// release, or to compare the hold, is nothing.
func (w *walker) use(n ast.Node) (what int) {
	var stack []ast.Node
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		id, ok := n.(*ast.Ident)
		if !ok || w.pass.TypesInfo.ObjectOf(id) != w.hold {
			return true
		}
		switch use := w.useAt(stack); {
		case use == released || what == nothing:
			what = use
		}
		return true
	})
	return what
}

// useAt classifies the identifier at the end of a path of nodes.
func (w *walker) useAt(path []ast.Node) int {
	up := func(n int) ast.Node {
		if n >= len(path) {
			return nil
		}
		return path[len(path)-1-n]
	}
	inside := slices.ContainsFunc(path, func(n ast.Node) bool { _, ok := n.(*ast.FuncLit); return ok })
	switch p := up(1).(type) {
	case *ast.SelectorExpr:
		call, isCall := up(2).(*ast.CallExpr)
		switch {
		case !isCall || call.Fun != ast.Expr(p):
			return givenAway // a method value
		case p.Sel.Name == w.release:
			return released
		case inside:
			return givenAway
		}
		return nothing
	case *ast.BinaryExpr:
		return nothing
	}
	return givenAway
}
