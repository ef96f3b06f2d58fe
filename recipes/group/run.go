package group

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// Run keeps the caller a member until ctx ends. It joins with value, and calls
// work with the membership and a context that ends with it or with ctx, with
// the cause. work must then return. It may be nil: then the caller is a member,
// and does nothing. The first row that fits applies:
//
//	work returned             Run
//	after ctx ended           leaves, returns context.Cause(ctx)
//	after a lost membership   pauses, joins again
//	nil or an error           leaves, returns it
//
// A join that fails counts as a lost membership: both are logged at Warn. Run
// joins again with the value of the latest [Member.Update], as a new member
// with a greater token. In between, for the TTL and longer if the service is
// away, listings may lack the member. Of errors other than those of work, only
// ErrInvalid and ErrClosed end Run.
//
// If ctx ended, the error of work is joined with the cause, unless it only says
// so. If leaving fails, its error is joined, and listings may show the member
// for up to one TTL.
func (g *Group) Run(
	ctx context.Context, value []byte, work func(ctx context.Context, m *Member) error,
) error {
	if work == nil {
		work = func(ctx context.Context, _ *Member) error {
			<-ctx.Done()
			return nil
		}
	}
	var last atomic.Pointer[[]byte]
	value = slices.Clone(value)
	last.Store(&value)
	for failures := 1; ; failures++ {
		m, err := g.Join(ctx, *last.Load())
		if err == nil {
			m.last, failures = &last, 1
			if err = m.run(ctx, work); ctx.Err() != nil {
				return ended(ctx, err)
			}
			if lost := m.Err(); !errors.Is(lost, coordinator.ErrSessionLost) && !errors.Is(lost, coordinator.ErrRemoved) {
				return err
			}
		}
		if ctx.Err() != nil || errors.Is(err, coordinator.ErrInvalid) || errors.Is(err, coordinator.ErrClosed) {
			return err
		}
		g.client.Log().Warn("baton: not a member; joining again", "group", g.Name(), "error", err)
		if err := recipes.PauseAgain(ctx, g.queue, failures); err != nil {
			return err
		}
	}
}

// run calls work and leaves.
func (m *Member) run(ctx context.Context, work func(context.Context, *Member) error) error {
	return m.hold.Do(ctx, "leave", func(under context.Context) error {
		err := work(under, m)
		if cause := context.Cause(under); under.Err() != nil && (errors.Is(err, cause) || errors.Is(err, under.Err())) {
			return nil // it only says that its context ended
		}
		return err
	})
}

// ended returns the cause of ctx, joined with what else went wrong.
func ended(ctx context.Context, err error) error {
	if err == nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, context.Cause(ctx))
}
