package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// holdKey finds the grant of a line in a context.
type holdKey struct {
	client *coordinator.Client
	line   driver.Line
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
}

// Err looks at the clock first.
func (c *holdContext) Err() error {
	_ = c.grant.err()
	return c.Context.Err()
}

// Value returns the grant for its own line, and else what the contexts have.
func (c *holdContext) Value(key any) any {
	if k, ok := key.(holdKey); ok && k == (holdKey{c.grant.line.client, c.grant.line.line}) {
		return c.grant
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// Do runs work while h holds, and then releases h, also when work panics. The context of
// work has the values of h's and ends when the hold does or when ctx does, each with its
// cause.
//
// Do returns the error of work. If the hold was lost before work returned, or if it could not
// be released, the error says that as well: work that returned nil may have run without
// protection.
func (h *Hold) Do(ctx context.Context, work func(context.Context) error) (err error) {
	inner, cancel := context.WithCancelCause(h.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		released := h.Release(ctx)
		cancel(nil)
		switch {
		case err == nil:
			err = coordinator.Describe(context.Background(), "unlock", h.grant.line.name, released)
		case released != nil:
			err = errors.Join(err, coordinator.Describe(context.Background(), "unlock", h.grant.line.name, released))
		}
	}()
	return work(&holdContext{Context: inner, values: context.Background(), grant: h.grant})
}
