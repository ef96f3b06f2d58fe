package recipes

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// holdKey finds the grant of a queue in a context.
type holdKey struct {
	client *engine.Client
	queue  driver.Queue
}

// holdContext is the context of a handle. It ends with the context it embeds,
// has the values of another, and its Err reads the clock.
//
// Value must return the embedded context's value for the key with which package
// context finds a canceller. Otherwise each derived context needs a goroutine.
type holdContext struct {
	context.Context
	values context.Context
	grant  *grant
}

// Err reads the clock, and asks the service if the machine may have slept,
// unless the context has already ended.
func (c *holdContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	// For its effect: if the deadline has passed, it ends the contexts, and the
	// embedded one then has the error. An answer alone would differ from Done.
	_ = c.grant.turn.err(context.Background())
	return c.Context.Err()
}

func (c *holdContext) Value(key any) any {
	switch key {
	case c.grant.turn.queue.key:
		return c.grant
	case engine.OuterKey{}, engine.HolderKey{}:
		return c
	}
	// The embedded one first, for the key of package context: see the type.
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// OnEnd is for [engine.OnEnd].
func (c *holdContext) OnEnd(f func()) (stop func()) {
	if n := c.again(); n != nil {
		return n.ends.Add(n, f)
	}
	return c.grant.ends().Add(c.Context, f)
}

// again is Hold.again.
func (c *holdContext) again() *nested {
	if n, ok := c.Context.(*nested); ok && n.again {
		return n
	}
	return nil
}

// workContext is the context of work under a hold: the caller's context, which
// also carries the hold and ends with it. It is derived from the caller's, and
// not from the hold's, so that it keeps the deadline, and the error and cause
// of that. The hold ends it with engine.Ends, before the entry leaves.
type workContext struct {
	context.Context
	hold   *holdContext
	cancel context.CancelCauseFunc
}

func (c *workContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.hold.Err() != nil {
		c.over()
	}
	return c.Context.Err()
}

// over ends c with the hold.
func (c *workContext) over() { c.cancel(context.Cause(c.hold)) }

func (c *workContext) Value(key any) any {
	switch key {
	case c.hold.grant.turn.queue.key:
		return c.hold.grant
	case engine.OuterKey{}, engine.HolderKey{}:
		return c
	}
	return c.Context.Value(key)
}

func (c *holdContext) Holds() any { return c.grant }

func (c *holdContext) Lost() error { return engine.LossOf(c.Context) }

func (c *holdContext) Beyond() context.Context { return c.values }

// EachHeld is for [engine.Holder].
func (c *holdContext) EachHeld(f func(engine.Held)) { c.grant.eachHeld(f) }

// OnLost is for [engine.Outer].
func (c *holdContext) OnLost(f func()) (stop func()) { return c.OnEnd(f) }

func (c *workContext) Holds() any { return c.hold.Holds() }

func (c *workContext) Lost() error { return c.hold.Lost() }

func (c *workContext) Beyond() context.Context { return c.Context }

// EachHeld is for [engine.Holder].
func (c *workContext) EachHeld(f func(engine.Held)) { c.hold.EachHeld(f) }

// OnLost is for [engine.Outer].
func (c *workContext) OnLost(f func()) (stop func()) { return c.hold.OnLost(f) }
