package recipes

import (
	"context"

	"github.com/baton-go/baton/internal/engine"
)

// nested is the context of a hold that was taken with the context of others: it
// ends with the hold, or when one of the others is lost. Its hold stays: work
// that ignores the end may still run.
//
//	outer hold lost -> its Ends.Run -> hook -> Ends.Run of the context
//
// The last step ends the contexts of work under the inner hold before the outer
// entry leaves. It is not Run of the inner turn: a handle of the outer hold may
// in turn be taken within the inner one, and Run would call itself.
type nested struct {
	context.Context
	cancel context.CancelCauseFunc
	ends   engine.EndsWithin // of the contexts under it
	unhook []func()
	again  bool // of one handle, a re-entry
}

// nest makes the context under which the grant's handles are, if the grant was
// taken with the context of another hold.
func (g *grant) nest(ctx context.Context) {
	if g.nested = g.within(ctx, g.turn.ctx, &g.turn.ends); g.nested != nil {
		g.part = &g.nested.ends
	}
}

// within returns a context under another one of the grant, for a handle taken
// with ctx, or nil if ctx carries no hold beside the grant's own: those in
// which the grant itself was taken were hooked when it began. Then it allocates
// nothing.
func (g *grant) within(ctx, under context.Context, outer ends) (n *nested) {
	for o := engine.OuterOf(ctx); o != nil && o.Holds() != any(g); o = engine.OuterOf(o.Beyond()) {
		if n == nil {
			n = &nested{}
			n.Context, n.cancel = context.WithCancelCause(under)
			n.ends.Begin(under, outer)
		}
		n.unhook = append(n.unhook, o.OnLost(n.hook(o)))
	}
	return n
}

// hook returns what ends n if o was lost. It is no closure in within, whose
// variables would be allocated for each lock.
func (n *nested) hook(o engine.Outer) func() {
	return func() {
		if why := o.Lost(); why != nil {
			n.cancel(why)
			n.ends.Run()
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
