package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// conversion converts the entry of a turn to another mode, in the background.
// It continues until it is done, the turn is passed on, or the session ends,
// however long its callers wait. A turn has one at a time: a mode requested
// meanwhile becomes its goal.
type conversion struct {
	mode    string // the goal; guarded by the turn's mu
	cancel  context.CancelFunc
	refused chan struct{} // closed at the first refusal of the service
	refusal error         // set when refused is closed
	done    chan struct{} // closed, under the turn's mu, when it is over
	err     error         // set when done is closed
	// set when done is closed: a request had no answer, so the entry may have
	// either mode
	maybe bool
}

// convert starts to convert the entry to a mode that excludes less. After a
// failed conversion there is no other, unless its mode was invalid. The caller
// holds t.mu, and has checked that the turn is not leaving: after the last
// release no entry may be created.
func (t *turn) convert(mode string) *conversion {
	t.heldMode = ""
	if c := t.conversion; c != nil {
		// The goal of one under way is changed, so that no two run side by
		// side. One that has failed is returned for its error, and has no use
		// for a goal: the entry is gone, or the session over.
		if !c.over() || c.err != nil && !errors.Is(c.err, coordinator.ErrInvalid) {
			c.mode = mode
			return c
		}
	}
	// Not from the turn's context, which ends before passOn, where one that is
	// under way may still finish.
	ctx, cancel := context.WithCancel(t.session.Context())
	c := &conversion{mode: mode, cancel: cancel,
		done: make(chan struct{}), refused: make(chan struct{})}
	t.conversion = c
	// A refused Go means that the session is over. Callers wait for done even
	// so, and nobody else would close it.
	if !t.session.Go(func() { t.runConversion(ctx, c) }) {
		cancel()
		c.err = coordinator.ErrSessionLost
		close(c.done)
	}
	return c
}

// runConversion converts the entry until it has the mode of the conversion.
//
// Nothing writes the entry's value meanwhile: the conversion would restore the
// old value, and the write would not find its entry, as if it had been removed.
func (t *turn) runConversion(ctx context.Context, conv *conversion) {
	defer conv.cancel()
	var err error
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	// While the outcome of a request is unknown, the same mode is tried again,
	// whatever the goal is by then: with another one, the entry might have any
	// of three modes.
	var mode string
	for err == nil {
		t.mu.Lock()
		if !conv.maybe {
			mode = conv.mode
		}
		own, value := driver.Joined{Place: t.place, Token: t.token}, t.value
		// In one step with the check: convert changes the goal of a conversion
		// that is not done, and nobody would look at the goal again.
		if own.Place.Mode == mode && !conv.maybe {
			close(conv.done)
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		err = t.convertOnce(ctx, conv, own, value, mode)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// A mode that was asked for meanwhile gets this error, too: see convert.
	conv.err = err
	close(conv.done)
}

// convertOnce converts the entry. A refusal does not end the conversion:
// permissions or space can come back.
func (t *turn) convertOnce(
	ctx context.Context, conv *conversion, own driver.Joined, value []byte, mode string,
) error {
	place, err := t.session.Convert(ctx, t.queue.id, own, mode, value)
	// A later error without maybe does not settle an earlier request that had
	// no answer; only success does.
	conv.maybe = err != nil && (conv.maybe || coordinator.MayHaveApplied(err))
	refused := errors.Is(err, coordinator.ErrRefused)
	switch {
	case err == nil:
		// Before the next check of the goal: a release that comes now finds the
		// place that is at the service.
		t.mu.Lock()
		t.place = place
		t.mu.Unlock()
	case errors.Is(err, coordinator.ErrRemoved):
		// Here, too: a hold that is younger than engine.SettleAfter has no
		// watch that would see it.
		t.removed()
		return coordinator.ErrRemoved
	case refused && ctx.Err() == nil:
		if conv.refusal == nil {
			t.queue.client.Log().Warn("baton: the service refuses to convert an entry; until it is converted, others may wait longer than necessary",
				"queue", t.queue.id, "token", t.token, "mode", mode, "error", err)
			// At the first refusal only: callers return with it, since it may
			// last, and the log has it once.
			conv.refusal = err
			close(conv.refused)
		}
		select {
		case <-time.After(t.session.TTL() / 4):
			return nil
		case <-ctx.Done():
		}
	}
	// Not the other errors: the outcome is open, or the turn reports its loss.
	if err == nil || refused || errors.Is(err, coordinator.ErrInvalid) {
		t.queue.client.Observe(event.Event{Kind: event.Converted, Session: t.session.ID(),
			Op: mode, Queue: t.queue.id, Token: t.token, Err: err})
	}
	return err
}

// stablePlace waits until no conversion is under way or the turn is over, and
// returns the entry's place. Watches use it: where a conversion deletes the old
// entry, a watch of that would report a removal.
func (t *turn) stablePlace() driver.Place {
	for {
		t.mu.Lock()
		c, place := t.conversion, t.place
		settled := c == nil || c.over() || t.ctx.Err() != nil
		t.mu.Unlock()
		if settled {
			return place
		}
		select {
		case <-c.done:
		case <-t.ctx.Done():
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

// awaitConversion waits until a conversion is done, ctx ends, or the service
// refuses.
func (t *turn) awaitConversion(ctx context.Context, conv *conversion) error {
	select {
	case <-conv.done:
	case <-conv.refused:
	case <-ctx.Done():
	}
	// By the state and not by the channel that was ready: of several, select
	// takes any, and a conversion that is done counts.
	switch {
	case !conv.over() && ctx.Err() != nil:
		return t.pending(driver.Wrap(coordinator.ErrUnavailable, context.Cause(ctx)))
	case !conv.over():
		return t.pending(conv.refusal)
	case conv.err == nil:
		return nil
	}
	// Why the turn is over says more than the "context canceled" of a
	// conversion that passOn has stopped.
	if err := t.err(ctx); err != nil {
		return err
	}
	return conv.err
}

// pending is the error of a call that returns before its conversion is over.
func (t *turn) pending(err error) error {
	return &coordinator.Error{Op: "convert", Name: string(t.queue.id), Err: err, Maybe: true}
}
