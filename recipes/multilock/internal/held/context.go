package held

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
)

// holdContext is the context of a hold: it ends with the embedded one, has the
// values of the caller's and carries the members, and its Err reads the clock.
//
// It asks the caller's context once for a key, not once for each member: sets
// in sets would ask it n^depth times.
type holdContext struct {
	context.Context
	values context.Context
	holds  *Holds
}

func (c *holdContext) Err() error {
	_ = c.holds.Err()
	return c.Context.Err()
}

func (c *holdContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // by which derived contexts attach
		return v
	}
	if key == (engine.OuterKey{}) || key == (engine.HolderKey{}) {
		return c
	}
	if v := c.holds.carries(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

func (c *holdContext) Holds() any              { return c.holds }
func (c *holdContext) Lost() error             { return c.holds.lost() }
func (c *holdContext) Beyond() context.Context { return c.values }

// EachHeld is for [engine.Holder].
func (c *holdContext) EachHeld(f func(engine.Held)) { c.holds.eachHeld(f) }

// OnLost is for [engine.Outer].
func (c *holdContext) OnLost(f func()) (stop func()) { return c.holds.onLost(f) }

// workContext is a context of the caller that carries the members of a hold,
// and ends with either.
type workContext struct {
	context.Context
	holds  *Holds
	cancel context.CancelCauseFunc
	clocks bool // Err reads those of all members
}

func (c *workContext) Value(key any) any {
	// Not that of the wait for a further member: the hold ends when too few are
	// left, and not each member when another one is lost.
	if key == (engine.OuterKey{}) && c.clocks || key == (engine.HolderKey{}) {
		return c
	}
	if v := c.holds.carries(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

func (c *workContext) Holds() any              { return c.holds }
func (c *workContext) Lost() error             { return c.holds.lost() }
func (c *workContext) Beyond() context.Context { return c.Context }

// EachHeld is for [engine.Holder].
func (c *workContext) EachHeld(f func(engine.Held)) { c.holds.eachHeld(f) }

// OnLost is for [engine.Outer].
func (c *workContext) OnLost(f func()) (stop func()) { return c.holds.onLost(f) }

func (c *workContext) Err() error {
	if c.clocks && c.Context.Err() == nil && c.holds.Err() != nil {
		c.cancel(context.Cause(c.holds.over))
	}
	return c.Context.Err()
}

// Under returns a context that ends with ctx or the hold, and carries its
// members. It ends before the entry of the member leaves whose loss ends the
// hold. Until stop is called it costs a registration with both.
func (l *Holds) Under(ctx context.Context) (under context.Context, stop func()) {
	return l.under(ctx, true)
}

// Wait is Under for the wait for a further member: its Err does not read the
// clocks of those that are held, which would cost n^2 reads for n members.
func (l *Holds) Wait(ctx context.Context) (under context.Context, stop func()) {
	return l.under(ctx, false)
}

func (l *Holds) under(ctx context.Context, clocks bool) (under context.Context, stop func()) {
	inner, cancel := context.WithCancelCause(ctx)
	c := &workContext{inner, l, cancel, clocks}
	unhook := l.ends.Add(l.over, func() { cancel(context.Cause(l.over)) })
	return c, func() {
		unhook()
		cancel(nil)
	}
}

// Do calls work and then unlock, also if work panics. It returns the error of
// work, joined with the loss of the hold or the error of unlock. Work may call
// unlock itself and have its result: then Do joins only a loss before that.
func (l *Holds) Do(
	ctx context.Context, unlock, work func(ctx context.Context) error,
) (err error) {
	bound, stop := l.Under(ctx)
	defer func() {
		stop()
		over := l.Err()
		unlocked := unlock(ctx)
		switch {
		case errors.Is(over, coordinator.ErrReleased): // by work
			over = nil
		case over == nil:
			over = unlocked
		}
		if over != nil && !errors.Is(err, over) {
			err = errors.Join(err, over)
		}
	}()
	return work(bound)
}
