package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// holdKey finds the grant of a queue in a context.
type holdKey struct {
	client *engine.Client
	queue  driver.Queue
}

// holdContext is the context of a handle. It ends with the context it embeds, takes its values
// from another, and looks at the clock when asked for its error.
//
// The value of the key by which package context finds a canceller must be the embedded
// context's, so that contexts derived from this one attach to it without a goroutine.
type holdContext struct {
	context.Context
	values context.Context
	grant  *grant
	bound  context.Context // has the deadline to show, if any; nil for a hold's own context
}

// unlooked is ctx, for those who are about to ask err. That of a hold of the
// grant would do so too, and a look at the clock is a good part of what
// re-entering costs; and it would not heed the end of Do's caller when the
// service has to be asked.
func (g *grant) unlooked(ctx context.Context) context.Context {
	if c, ok := ctx.(*holdContext); ok && c.grant == g {
		return c.Context
	}
	return ctx
}

// Deadline is that of Do's caller. A hold's own context shows none: its end moves with each
// renewal, which a context's must not.
func (c *holdContext) Deadline() (time.Time, bool) {
	if c.bound == nil {
		return time.Time{}, false
	}
	return c.bound.Deadline()
}

// Err looks at the clock first, and asks the service when the machine may have
// slept, unless the context has ended anyway.
func (c *holdContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	_ = c.grant.err(context.Background())
	return c.Context.Err()
}

// Value returns the grant for its own queue, and else what the contexts have.
func (c *holdContext) Value(key any) any {
	if k, ok := key.(holdKey); ok && k == (holdKey{c.grant.queue.client, c.grant.queue.queue}) {
		return c.grant
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// Do runs work while h holds, and then releases h, also when work panics. The
// context of work has the values of h's and the deadline of ctx; it ends when
// the hold does or when ctx does, each with its cause.
//
// Do returns the error of work. If the hold was lost before work returned, or if it could not
// be released, the error says that as well: work that returned nil may have run without
// protection. If h does not hold, work does not run. undo names the release in errors: "unlock".
func (h *Hold) Do(ctx context.Context, undo string, work func(context.Context) error) (err error) {
	if err := h.Check(ctx); err != nil {
		return errors.Join(err, h.Release(ctx))
	}
	inner, cancel := context.WithCancelCause(&h.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		released := h.ctx.grant.queue.describe(context.Background(), undo, h.Release(ctx))
		cancel(nil)
		switch {
		case err == nil:
			err = released
		case released != nil:
			err = errors.Join(err, released)
		}
	}()
	return work(&holdContext{Context: inner, values: context.Background(), grant: h.ctx.grant, bound: ctx})
}
