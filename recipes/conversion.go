package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// conversion converts a grant's entry to another mode, in the background. It
// continues until it is done, the grant is released, or the session ends,
// however long its callers wait. A grant has one at a time: a mode requested
// meanwhile becomes its goal.
type conversion struct {
	mode    string // the goal; guarded by the grant's mu
	cancel  context.CancelFunc
	refused chan struct{} // closed at the first refusal of the service
	refusal error         // set when refused is closed
	done    chan struct{} // closed, under the grant's mu, when it is over
	err     error         // set when done is closed
	// set when done is closed: a request had no answer, so the entry may have
	// either mode
	maybe bool
}

// convert starts to convert the entry to a mode that excludes less. After a
// failed conversion there is no other, unless its mode was invalid. The caller
// holds g.mu, and has checked that there are handles: after the last release no
// entry may be created.
func (g *grant) convert(mode string) *conversion {
	g.held = ""
	if c := g.conversion; c != nil {
		if !c.over() || c.err != nil && !errors.Is(c.err, coordinator.ErrInvalid) {
			c.mode = mode
			return c
		}
	}
	ctx, cancel := context.WithCancel(g.session.Context())
	c := &conversion{mode: mode, cancel: cancel,
		done: make(chan struct{}), refused: make(chan struct{})}
	g.conversion = c
	if !g.session.Go(func() { g.run(ctx, c) }) {
		cancel()
		c.err = coordinator.ErrSessionLost
		close(c.done)
	}
	return c
}

// run converts the entry until it has the mode of the conversion.
//
// Nothing writes the entry's value meanwhile: the conversion would restore the
// old value, and the write would not find its entry, as if it had been removed.
func (g *grant) run(ctx context.Context, c *conversion) {
	defer c.cancel()
	var err error
	select {
	case g.writing <- struct{}{}:
		defer func() { <-g.writing }()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	var mode string // if c.maybe, the entry may have it already: then it is tried again
	for err == nil {
		g.mu.Lock()
		if !c.maybe {
			mode = c.mode
		}
		own, value := driver.Joined{Place: g.place, Token: g.token}, g.value
		if own.Place.Mode == mode && !c.maybe {
			close(c.done)
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		err = g.become(ctx, c, own, value, mode)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.err = err
	close(c.done)
}

// become converts the entry. A refusal does not end the conversion: permissions
// or space can come back.
func (g *grant) become(
	ctx context.Context, c *conversion, own driver.Joined, value []byte, mode string,
) error {
	place, err := g.session.Convert(ctx, g.queue.id, own, mode, value)
	c.maybe = err != nil && (c.maybe || coordinator.MayHaveApplied(err))
	refused := errors.Is(err, coordinator.ErrRefused)
	switch {
	case err == nil:
		g.mu.Lock()
		g.place = place
		g.mu.Unlock()
	case errors.Is(err, coordinator.ErrRemoved):
		g.removed()
		return coordinator.ErrRemoved
	case refused && ctx.Err() == nil:
		if c.refusal == nil {
			g.queue.client.Log().Warn("baton: the service refuses to convert an entry; until it is converted, others may wait longer than necessary",
				"queue", g.queue.id, "token", g.token, "mode", mode, "error", err)
			c.refusal = err
			close(c.refused)
		}
		select {
		case <-time.After(g.session.TTL() / 4):
			return nil
		case <-ctx.Done():
		}
	}
	if err == nil || refused || errors.Is(err, coordinator.ErrInvalid) {
		g.queue.client.Observe(event.Event{Kind: event.Converted, Session: g.session.ID(),
			Op: mode, Queue: g.queue.id, Token: g.token, Err: err})
	}
	return err
}

// settledPlace waits until no conversion is under way or the grant is over, and
// returns the entry's place.
func (g *grant) settledPlace() driver.Place {
	for {
		g.mu.Lock()
		c, place := g.conversion, g.place
		settled := c == nil || c.over() || g.ctx.Err() != nil
		g.mu.Unlock()
		if settled {
			return place
		}
		select {
		case <-c.done:
		case <-g.ctx.Done():
		}
	}
}

func (c *conversion) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// await waits until a conversion is done, ctx ends, or the service refuses.
func (g *grant) await(ctx context.Context, c *conversion) error {
	select {
	case <-c.done:
	case <-c.refused:
	case <-ctx.Done():
	}
	switch {
	case !c.over() && ctx.Err() != nil:
		return g.pending(driver.Wrap(coordinator.ErrUnavailable, context.Cause(ctx)))
	case !c.over():
		return g.pending(c.refusal)
	case c.err == nil:
		return nil
	}
	if err := g.err(ctx); err != nil {
		return err
	}
	return c.err
}

// pending is the error of a call that returns before its conversion is over.
func (g *grant) pending(err error) error {
	return &coordinator.Error{Op: "convert", Name: string(g.queue.id), Err: err, Maybe: true}
}

// leaveQueue removes the entry, whatever its mode. It waits shortly for a
// conversion under way: when the outcome is known, one delete is enough, which
// a service without space does not refuse.
func (g *grant) leaveQueue(ctx context.Context) error {
	g.mu.Lock()
	c := g.conversion // the last one: no handle is left
	g.mu.Unlock()
	sent := false
	defer func() {
		if !sent { // an observer panics, and no handle is left to release
			g.forget(c)
		}
	}()
	g.clearNote(ctx)
	err := g.sendLeave(ctx, c)
	sent = true
	return err
}

// forget removes the entry in the background, after its last conversion, which
// could create it again.
func (g *grant) forget(c *conversion) {
	if c != nil {
		c.cancel()
		<-c.done
	}
	g.session.ForgetLater(g.queue.id, g.place.ID)
}

func (g *grant) sendLeave(ctx context.Context, c *conversion) error {
	if c != nil {
		patience := time.NewTimer(g.session.TTL() / 4)
		defer patience.Stop()
		select {
		case <-c.done:
		case <-c.refused:
		case <-ctx.Done():
		case <-patience.C:
		}
		c.cancel()
		<-c.done // at once
	}
	switch {
	case c == nil || c.err == nil:
	case errors.Is(c.err, coordinator.ErrRemoved):
		g.session.ForgetLater(g.queue.id, g.place.ID) // a late join may still arrive
		return coordinator.ErrNotHeld
	case c.maybe && ctx.Err() != nil: // no time is left
		g.session.ForgetLater(g.queue.id, g.place.ID)
		return g.pending(driver.Wrap(coordinator.ErrUnavailable, context.Cause(ctx)))
	case c.maybe:
		return g.session.Forget(ctx, g.queue.id, g.place.ID)
	}
	if g.place == g.handoff { // and was not converted
		return g.session.Pass(ctx, g.queue.id, g.place)
	}
	return g.session.Leave(ctx, g.queue.id, g.place)
}
