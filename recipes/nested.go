package recipes

import (
	"context"

	"github.com/baton-go/baton/internal/engine"
)

// nested is the context of a hold that was taken with the context of others: it
// ends with the hold, or when one of the others is lost. Its hold stays: work
// that ignores the end may still run.
//
//	outer hold lost -> its Ends.Run -> hook -> Ends.RunUnder of the inner turn
//
// The last step ends the contexts of work under the inner hold before the outer
// entry leaves. It is not Run: a handle of the outer hold may in turn be taken
// within the inner one, and Run would call itself.
type nested struct {
	context.Context
	cancel context.CancelCauseFunc
	unhook []func()
	again  bool // of one handle, a re-entry
}

// nestedKey finds out whether a context is one, or derived from one.
type nestedKey struct{ of *nested }

func (n *nested) Value(key any) any {
	if key == (nestedKey{n}) {
		return n
	}
	return n.Context.Value(key)
}

// nest returns a context under that of a hold of the grant, for a handle taken
// with ctx, or nil if ctx carries no hold beside the grant's own: those in
// which the grant itself was taken were hooked when it began. Then it allocates
// nothing.
func (g *grant) nest(ctx, under context.Context) (n *nested) {
	for o := engine.OuterOf(ctx); o != nil && o.Holds() != any(g); o = engine.OuterOf(o.Beyond()) {
		if n == nil {
			n = &nested{}
			n.Context, n.cancel = context.WithCancelCause(under)
		}
		n.unhook = append(n.unhook, o.OnLost(n.hook(g.turn, o)))
	}
	return n
}

// hook returns what ends n if o was lost. It is no closure in nest, whose
// variables would be allocated for each lock.
func (n *nested) hook(t *turn, o engine.Outer) func() {
	return func() {
		if why := o.Lost(); why != nil {
			n.cancel(why)
			t.ends.RunUnder(nestedKey{n})
		}
	}
}

// release ends the hooks. A nil nested has none.
func (n *nested) release() {
	if n == nil {
		return
	}
	for _, unhook := range n.unhook {
		unhook()
	}
}
