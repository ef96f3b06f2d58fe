package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// conversion is the conversion of a grant's entry to another mode. It goes on until it is done, the grant
// is given back, or the session has ended, whoever waits for it and for how long.
type conversion struct {
	cancel  context.CancelFunc
	done    chan struct{}
	err     error         // set when done is closed
	refused chan struct{} // closed when the service has refused it for the first time
	refusal error         // set when refused is closed
	maybe   bool          // set when done is closed: an attempt had no answer, so the entry may stand in either mode
}

// convert begins to convert the entry. Conversions follow one after the other. The caller
// holds g.mu, and has made sure that there are holds: after the last one nothing may make an entry.
func (g *grant) convert(mode string) *conversion {
	before := g.conversion
	ctx, cancel := context.WithCancel(g.session.Context())
	t := &conversion{cancel: cancel, done: make(chan struct{}), refused: make(chan struct{})}
	g.conversion, g.held = t, ""
	run := func() {
		defer close(t.done)
		defer cancel()
		converted := false
		if t.err = t.follow(ctx, before); t.err == nil {
			converted, t.err = g.become(ctx, t, mode)
		}
		if converted || errors.Is(t.err, coordinator.ErrInvalid) || errors.Is(t.err, coordinator.ErrRefused) {
			g.queue.client.Observe(event.Event{Kind: event.Converted, Session: g.session.ID(),
				Op: mode, Queue: g.queue.id, Token: g.token, Err: t.err})
		}
	}
	if !g.session.Go(run) {
		cancel()
		t.err = coordinator.ErrSessionLost
		close(t.done)
	}
	return t
}

// follow waits for the conversion before, if there was one. One to a mode that
// breaks a rule has changed nothing.
func (t *conversion) follow(ctx context.Context, before *conversion) error {
	if before == nil {
		return nil
	}
	select {
	case <-before.done:
	case <-before.refused:
		t.refuse(before.refusal)
	case <-ctx.Done():
	}
	select {
	case <-before.done:
	case <-ctx.Done(): // withdraw cancels the latest, which means all
		before.cancel()
		<-before.done
	}
	if before.err == nil || errors.Is(before.err, coordinator.ErrInvalid) {
		return nil
	}
	t.maybe = before.maybe
	return before.err
}

// refuse tells those who wait of a refusal, once.
func (t *conversion) refuse(err error) {
	if t.refusal == nil {
		t.refusal = err
		close(t.refused)
	}
}

// become converts the entry, and reports whether it had to. A refusal does not
// end it: it is a matter of permission or space, which somebody may give back,
// and until then others may wait for what they could have.
//
// Nobody writes the entry's value meanwhile: the conversion would bring back the old one, and the
// write would find its entry gone, as if it had been removed.
func (g *grant) become(ctx context.Context, t *conversion, mode string) (converted bool, err error) {
	select {
	case g.writeLock() <- struct{}{}:
		defer func() { <-g.writeLock() }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	for {
		g.mu.Lock()
		own, value := driver.Joined{Place: g.place, Token: g.token}, g.value
		g.mu.Unlock()
		if own.Place.Mode == mode {
			return false, nil
		}
		place, err := g.session.Convert(ctx, g.queue.id, own, mode, value)
		t.maybe = t.maybe || coordinator.MayHaveApplied(err)
		switch {
		case err == nil:
			g.mu.Lock()
			g.place = place
			g.mu.Unlock()
			return true, nil
		case errors.Is(err, coordinator.ErrRemoved):
			g.removed()
			return false, coordinator.ErrRemoved
		case ctx.Err() != nil || !errors.Is(err, coordinator.ErrRefused):
			return false, err
		case t.refusal == nil:
			g.queue.client.Log().Warn("baton: the service refuses to convert an entry; until it is converted, others may wait longer than they have to",
				"queue", g.queue.id, "token", g.token, "mode", mode, "error", err)
			t.refuse(err)
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(g.session.TTL() / 4):
		}
	}
}

// standing is the entry's place when no conversion is under way, or the grant is over.
func (g *grant) standing() driver.Place {
	for {
		g.mu.Lock()
		t := g.conversion
		settled := t == nil || t.over() || g.ctx.Err() != nil
		place := g.place // looked at after over, which comes after the place
		g.mu.Unlock()
		if settled {
			return place
		}
		select {
		case <-t.done:
		case <-g.ctx.Done():
		}
	}
}

func (t *conversion) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// await waits until a conversion is done. When ctx ends first, or the service
// refuses, it goes on in the background.
func (g *grant) await(ctx context.Context, t *conversion) error {
	ctx, stop := engine.Afterwards(ctx)
	defer stop()
	select {
	case <-t.done:
	case <-t.refused:
	case <-ctx.Done():
	}
	switch {
	case !t.over() && ctx.Err() != nil:
		return g.pending(driver.Wrap(coordinator.ErrUnavailable, context.Cause(ctx)))
	case !t.over():
		return g.pending(t.refusal)
	case t.err == nil:
		return nil
	}
	if err := g.err(ctx); err != nil {
		return err
	}
	return t.err
}

// pending is the error of a call that ends before what it began.
func (g *grant) pending(err error) error {
	name := string(g.queue.id)
	return engine.Describe(context.Background(), "convert", name, &coordinator.Error{Op: "convert", Name: name, Err: err, Maybe: true})
}

// notHeld is the error of a release that finds the entry removed.
func (g *grant) notHeld() error {
	return &coordinator.Error{Op: "leave", Name: string(g.queue.id), Err: coordinator.ErrNotHeld}
}

// withdraw removes the entry, in whatever mode it stands. A conversion under
// way gets a little time: when its outcome is known, leaving is one plain
// request. That matters most when the service has refused it for want of space,
// since it might refuse the other way as well.
func (g *grant) withdraw(ctx context.Context) error {
	ctx, stop := engine.Afterwards(ctx)
	defer stop()
	g.takeBack(ctx)
	g.mu.Lock()
	t := g.conversion
	g.mu.Unlock()
	if t != nil {
		patience := time.NewTimer(g.session.TTL() / 4)
		defer patience.Stop()
		select {
		case <-t.done:
		case <-t.refused:
		case <-ctx.Done():
		case <-patience.C:
		}
		t.cancel()
		<-t.done // at once
	}
	switch {
	case t == nil || t.err == nil:
	case errors.Is(t.err, coordinator.ErrRemoved):
		g.session.Discard(g.queue.id, g.place.ID) // a late request to join may be to come
		return g.notHeld()
	case t.maybe && ctx.Err() != nil: // the time is used up
		g.session.Discard(g.queue.id, g.place.ID)
		return g.pending(driver.Wrap(coordinator.ErrUnavailable, context.Cause(ctx)))
	case t.maybe:
		return g.session.Withdraw(ctx, g.queue.id, g.place.ID)
	}
	if g.place == g.passes { // and was not converted
		return g.session.Pass(ctx, g.queue.id, g.place)
	}
	return g.session.Leave(ctx, g.queue.id, g.place)
}
