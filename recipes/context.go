package recipes

import (
	"context"
	"errors"

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
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// OnEnd is for [engine.OnEnd].
func (c *holdContext) OnEnd(f func()) (stop func()) {
	if n, ok := c.Context.(*nested); ok && n.again {
		return n.ends.Add(n, f)
	}
	return c.grant.ends().Add(c.Context, f)
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

// Under returns the context for work under h. It has the values and the
// deadline of ctx, carries h, and ends with ctx or h, with the cause: with h
// before its entry leaves. Its Err reads the clock. Call stop when the work has
// returned.
func (h *Hold) Under(ctx context.Context) (under context.Context, stop func()) {
	inner, cancel := context.WithCancelCause(ctx)
	c := &workContext{Context: inner, hold: &h.ctx, cancel: cancel}
	unhook := h.ctx.OnEnd(c.over)
	return c, func() {
		unhook()
		_ = c.Err() // ends it with h's cause, if h has ended
		cancel(nil)
	}
}

// Do calls work with the context of [Hold.Under], and then releases h, also if
// work panics. It returns the error of work, joined with the loss of the hold
// or the error of Release. If h does not hold, work is not called. undo names
// the release in errors: "unlock".
//
// Work may release h itself: Do does not release again, and the context of work
// ends, unless other handles of the level are left.
// The result of that release is the work's. If it was a loss, Do joins it even
// if work does not return it.
func (h *Hold) Do(ctx context.Context, undo string, work func(context.Context) error) (err error) {
	describe := func(err error) error {
		return h.turn().queue.describe(context.Background(), undo, err)
	}
	if err := h.Check(ctx); err != nil {
		released := h.Release(ctx)
		if engine.Same(released, err) { // the loss: said once
			return describe(released)
		}
		return errors.Join(err, describe(released))
	}
	under, stop := h.Under(ctx)
	defer func() {
		released := describe(h.releaseOnce(ctx))
		stop()
		switch {
		case err == nil:
			err = released
		case released != nil:
			err = errors.Join(err, released)
		}
	}()
	return work(under)
}

// releaseOnce is Release, or if that was called before, the loss that it found.
func (h *Hold) releaseOnce(ctx context.Context) error {
	if h.released.CompareAndSwap(false, true) {
		return h.release(ctx)
	}
	if lost := h.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}
