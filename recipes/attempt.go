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

// attempt is one contender on its way from Acquire to a hold.
type attempt struct {
	Request
	queue   *Queue
	session *engine.Session
	info    info
	value   []byte
	record  driver.Version // of the terms that Rule comes from
	joined  driver.Joined
	last    bool // nobody could be behind it and take it for a waiter
	first   bool // it was admitted as the first in the queue
	waited  bool // it was not admitted at once

	// What it knows of the record; see Terms.
	remembered bool // it is from an earlier attempt
	slept      bool // it may have changed since, unheard
	moved      bool // it has changed since the contender joined
	sharing    sharing

	noted driver.Version // of the note that it has left; see rest

	told time.Time // when it heard last that somebody ahead has left, or of another record
}

// acquire is Acquire without re-entry.
func (l *Queue) acquire(ctx context.Context, h *Hold, r Request) error {
	if r.Payload == nil {
		r.Payload = l.payload
	}
	began := time.Now()
	a := &attempt{Request: r, queue: l, info: info{
		Identity: l.identity, Since: began.UTC().Round(time.Millisecond), Payload: r.Payload}}
	if err := a.win(ctx); err != nil {
		a.observe(ctx, began, event.NotGranted, err)
		return err
	}
	// Before there is a hold, which might be lost at once: nobody is to hear of
	// the loss before the grant.
	a.observe(ctx, began, event.Granted, nil)
	a.hold(ctx, h)
	return nil
}

// observe tells how the attempt has ended.
func (a *attempt) observe(ctx context.Context, began time.Time, kind event.Kind, err error) {
	e := event.Event{Kind: kind, Op: a.Op, Queue: a.queue.queue, Token: a.joined.Token, Context: ctx,
		Duration: time.Since(began), Waited: a.waited, Err: err}
	if a.session != nil {
		e.Session = a.session.ID()
	}
	if a.waited && err == nil {
		e.HandOver = time.Since(a.told)
	}
	a.queue.client.Observe(e)
}

// win takes the attempt to where it is granted. When it fails, it has seen to
// it that nothing stays in the queue.
func (a *attempt) win(ctx context.Context) (err error) {
	if a.value, err = a.queue.encode(a.info); err != nil {
		return err
	}
	err = a.join(ctx)
	switch {
	case a.session == nil:
		return err
	case err != nil:
		return a.taken(ctx, err)
	}
	if err = a.wait(ctx); err == nil {
		err = a.rest(ctx)
	}
	if err == nil {
		// The last look: a session that ended between the grant's request and now, while this
		// process was paused say, has no grant to give. Whoever comes next may have it.
		err = a.session.Check(ctx)
	}
	if err != nil {
		a.session.Abandon(a.queue.queue, a.joined.Place)
		return a.taken(ctx, err)
	}
	return nil
}

// join puts a contender into the queue. When the service answers that the
// session was over before, this attempt has not was queued yet, and is made
// once more on a new session. When the record has changed since this queue read
// it, it is read again.
func (a *attempt) join(ctx context.Context) (err error) {
	for sessions := 0; ; {
		if a.session, err = a.queue.client.Session(ctx); err != nil {
			return err
		}
		if err = a.agree(ctx); err == nil && a.Try && !a.Alone {
			err = a.wouldAdmit(ctx)
		}
		if err == nil {
			if a.Terms != nil && a.Terms.Mode != nil {
				a.Mode = a.Terms.Mode(a.record)
			}
			a.joined, err = a.session.Join(ctx, a.queue.queue, driver.Contender{
				ID: a.session.NewID(a.Terms == nil), Mode: a.Mode, Value: a.value, Alone: a.Try && a.Alone, Record: a.record, Follows: a.Terms == nil})
		}
		switch {
		case err == nil:
			// Whoever joins a queue and is no attempt, as Examine does, is
			// neither granted nor not, and nobody is told of it.
			a.queue.client.Observe(event.Event{Kind: event.Joined, Session: a.session.ID(), Queue: a.queue.queue, Token: a.joined.Token})
			return nil
		case errors.Is(err, coordinator.ErrStale) && a.Terms != nil && ctx.Err() == nil:
			a.queue.record.Store(nil)
		case sessions == 0 && lostBefore(ctx, err):
			sessions++
		default:
			return ended(ctx, err)
		}
	}
}

// ended is err, unless that is ErrStale and ctx has ended: it asks to look
// again, for which there is no time, and nothing was done.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, coordinator.ErrStale) && !errors.Is(err, coordinator.ErrUnavailable) {
		return context.Cause(ctx)
	}
	return err
}

// wait returns nil once the rule admits the contender. After each leaving among
// those it watches it looks again, since the one ahead may have left without
// ever holding; unless it left as the first in the queue.
func (a *attempt) wait(ctx context.Context) error {
	if a.joined.First && a.Rule(nil).Admitted {
		a.first, a.last = true, true // whoever is behind sees it first in the queue
		return nil
	}
	a.share()
	for v := a.glance(); ; v = (Verdict{}) {
		if a.sharing == now {
			if admitted, err := a.watchQueue(ctx); admitted || err != nil {
				return err
			}
		}
		if !v.Next {
			var admitted bool
			var err error
			if v, admitted, err = a.judge(ctx); admitted || err != nil {
				return err
			}
		}
		if a.sharing == now {
			continue
		}
		passed, err := a.await(ctx, v)
		if a.waits(); passed || err != nil {
			a.first = passed
			return err
		}
		if a.sharing == not {
			a.sharing = willing
		}
	}
}

// waits notes that something has come that the contender waited for.
func (a *attempt) waits() { a.waited, a.told = true, time.Now() }

// glance is the verdict, if that of whoever stands directly ahead is enough to know it.
func (a *attempt) glance() Verdict {
	if a.joined.Nearest == (driver.Place{}) || a.Try || a.Terms != nil {
		return Verdict{}
	}
	if v := a.Rule([]driver.Place{a.joined.Nearest}); v.Next {
		return v
	}
	return Verdict{}
}

// judge looks at the queue until that tells whether the contender is admitted, or whom it waits for.
func (a *attempt) judge(ctx context.Context) (v Verdict, admitted bool, err error) {
	for {
		view, err := a.look(ctx)
		if err != nil {
			return v, false, err
		}
		v = a.Rule(view.Ahead)
		switch {
		case !v.Admitted && a.Try:
			return v, false, coordinator.ErrTaken
		case !v.Admitted:
			if a.Terms != nil && !a.session.Converts() { // a contender ahead that is admitted cannot show it
				return Verdict{Watch: view.Ahead, Record: true}, false, nil
			}
			if a.sharing == willing && len(v.Watch) > 0 && crowdAhead(view.Ahead) {
				a.sharing = now
			}
			return v, false, nil
		}
		same, err := a.confirm(ctx)
		if err != nil {
			return v, false, err
		}
		if same {
			a.first = len(view.Ahead) == 0
			a.last = view.Last && !a.moved // the view can be older than the change, which others behind may not know of
			return v, true, nil
		}
	}
}

// wouldAdmit returns ErrTaken if the rule would not admit a contender that joined
// now, so that a Try that fails has not touched the queue.
func (a *attempt) wouldAdmit(ctx context.Context) error {
	view, err := a.session.Ahead(ctx, a.queue.queue, driver.Place{})
	if err != nil {
		return err
	}
	all := view.Ahead
	if !a.Rule(all).Admitted && a.remembered { // nothing else would ever tell that the terms have changed
		if err := a.ask(ctx); err != nil {
			return err
		}
	}
	if !a.Rule(all).Admitted {
		return coordinator.ErrTaken
	}
	return nil
}

// askWho bounds the request that finds out who has the name, for an error message.
const askWho = time.Second

// taken makes the error of a Try that found the name taken, with the first in
// queue if one more short request tells who that is. Other errors it leaves
// alone, and so it does when ctx has ended, for its cause may be the ErrTaken
// of somebody else.
func (a *attempt) taken(ctx context.Context, err error) error {
	var rests *DelayError
	if !a.Try || ctx.Err() != nil || !errors.Is(err, coordinator.ErrTaken) || errors.As(err, &rests) {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, askWho)
	defer cancel()
	e := &TakenError{Op: a.Op, Name: a.queue.name}
	if first, err := a.session.List(ask, a.queue.queue, 1); err == nil && len(first) > 0 {
		e.Holder = a.queue.contender(first[0])
		e.Holder.Holding = true
	}
	return e
}
