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

// attempt is the life of one contender from Acquire to its hold:
//
//	agree on terms -> join -> judge the view -> rest (lock-delay) -> hold
//	                           ^    |
//	                    woken  |    v not admitted
//	                           await: alone, or on the shared queue watch
//
// When a step fails, the entry is removed in the background.
type attempt struct {
	Request
	queue   *Queue
	session *engine.Session
	info    info
	value   []byte
	joined  driver.Joined

	rule   Rule
	record driver.Version // of the terms that rule comes from
	stale  bool           // the record may have changed since it was read
	moved  bool           // the record has changed since the contender joined

	waited bool      // it was not admitted at once
	told   time.Time // when it last learnt that a contender ahead left, or of another record
	first  bool      // it was admitted as the first in the queue
	last   bool      // no contender behind it can take it for a waiter

	noted driver.Version // of its note in the record; see rest
}

// acquire is Acquire without re-entry.
func (l *Queue) acquire(ctx context.Context, r Request) (*Hold, error) {
	if r.Payload == nil {
		r.Payload = l.payload
	}
	began := time.Now()
	a := &attempt{Request: r, queue: l, rule: r.Rule, info: info{
		Identity: l.identity, Since: began.UTC().Round(time.Millisecond), Payload: r.Payload}}
	if r.exclusive() {
		a.rule = Exclusive
	}
	if err := a.win(ctx); err != nil {
		a.observe(ctx, began, event.NotGranted, err)
		return nil, err
	}
	// Before there is a hold: observers are notified of a grant before its
	// loss.
	a.observe(ctx, began, event.Granted, nil)
	return a.hold(ctx), nil
}

func (a *attempt) observe(ctx context.Context, began time.Time, kind event.Kind, err error) {
	e := event.Event{Kind: kind, Op: a.Op, Queue: a.queue.id, Token: a.joined.Token, Context: ctx,
		Duration: time.Since(began), Waited: a.waited, Err: err}
	if a.session != nil {
		e.Session = a.session.ID()
	}
	if a.waited && err == nil {
		e.HandOver = time.Since(a.told)
	}
	a.queue.client.Observe(e)
}

// win returns nil with a grant. Otherwise nothing stays in the queue.
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
		// A session that ended between the request of the grant and now, while
		// the process was paused for instance, has no grant to give.
		err = a.session.Check(ctx)
	}
	if err != nil {
		a.session.Abandon(a.queue.id, a.joined.Place)
		return a.taken(ctx, err)
	}
	return nil
}

// join puts a contender into the queue: on a new session if this one was over
// before, and by the new record if that has changed since this queue read it.
func (a *attempt) join(ctx context.Context) (err error) {
	for sessions := 0; ; {
		if a.session, err = a.queue.client.Session(ctx); err != nil {
			return err
		}
		if err = a.agree(ctx); err == nil {
			a.joined, err = a.session.Join(ctx, a.queue.id, driver.Contender{
				ID: a.session.NewID(a.Terms == nil), Mode: a.Mode, Value: a.value,
				Alone:  a.Try && a.exclusive(),
				Record: a.record, Follows: a.Terms == nil})
		}
		switch {
		case err == nil:
			a.queue.client.Observe(event.Event{Kind: event.Joined,
				Session: a.session.ID(), Queue: a.queue.id, Token: a.joined.Token})
			if a.Queued != nil {
				a.Queued()
			}
			return nil
		case errors.Is(err, coordinator.ErrStale) && a.Terms != nil && ctx.Err() == nil:
			a.queue.record.Store(nil)
		case sessions == 0 && engine.LostBefore(ctx, err):
			sessions++
		default:
			return ended(ctx, err)
		}
	}
}

// ended is err, unless that is ErrStale and ctx has ended: it asks for another
// read, for which there is no time, and nothing was done.
func ended(ctx context.Context, err error) error {
	stale := errors.Is(err, coordinator.ErrStale) && !errors.Is(err, coordinator.ErrUnavailable)
	if stale && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// agree finds out the rule from the terms. A record that was read before is
// taken for the present one: if it is not, joining fails. A Try that is not
// exclusive also reads the queue, so that one that fails has not touched it;
// before it fails by a record that was read before, it reads that again.
func (a *attempt) agree(ctx context.Context) error {
	known := false
	if a.Terms != nil {
		if r := a.queue.record.Load(); r != nil {
			if rule, err := a.Terms.Rule(*r, false); err == nil {
				a.rule, a.record, known = rule, r.Version, true
			}
		}
		if !known {
			if err := a.ask(ctx); err != nil {
				return err
			}
		}
	}
	if a.Try && !a.exclusive() {
		view, err := a.session.Ahead(ctx, a.queue.id, driver.Place{})
		if err == nil && known && !a.rule(view.Ahead).Admitted {
			err = a.ask(ctx)
		}
		if err == nil && !a.rule(view.Ahead).Admitted {
			err = coordinator.ErrTaken
		}
		if err != nil {
			return err
		}
	}
	if a.Terms != nil && a.Terms.Mode != nil {
		a.Mode = a.Terms.Mode(a.record)
	}
	return nil
}

// wait returns nil once the rule admits the contender. After each wake-up it
// reads the queue again, since the contender ahead may have left without ever
// holding, unless that one left as the first in the queue and handed over.
func (a *attempt) wait(ctx context.Context) error {
	if a.joined.First && a.rule(nil).Admitted {
		a.first, a.last = true, true // a contender behind sees it first in the queue
		return nil
	}
	defer a.watchStrays(ctx)()
	// to take part in a watch that other contenders share costs nothing
	shared := a.mayShare() && a.session.QueueWatched(a.queue.id)
	for v := a.glance(); ; v = (Verdict{}) {
		left := shared // the shared watch, so it waits alone before it returns to it
		if shared {
			if admitted, err := a.watchQueue(ctx); admitted || err != nil {
				return err
			}
			shared = false
		}
		if !v.Next {
			var crowded bool
			var err error
			if v, crowded, err = a.judge(ctx); v.Admitted || err != nil {
				return err
			}
			if crowded && !left {
				shared = true
				continue
			}
		}
		passed, err := a.await(ctx, v)
		if a.wakes(); passed || err != nil {
			a.first = passed
			return err
		}
	}
}

func (a *attempt) wakes() { a.waited, a.told = true, time.Now() }

// glance is the verdict, if the predecessor alone is enough to know it.
func (a *attempt) glance() Verdict {
	if a.joined.Nearest == (driver.Place{}) || a.Try || a.Terms != nil {
		return Verdict{}
	}
	if v := a.rule([]driver.Place{a.joined.Nearest}); v.Next {
		return v
	}
	return Verdict{}
}

// judge reads the queue and returns the verdict. crowded: the contender may
// wait on the shared queue watch, and the queue is crowded enough.
func (a *attempt) judge(ctx context.Context) (v Verdict, crowded bool, err error) {
	for {
		view, err := a.look(ctx)
		if err != nil {
			return Verdict{}, false, err
		}
		v = a.rule(view.Ahead)
		switch {
		case !v.Admitted && a.Try:
			return v, false, coordinator.ErrTaken
		// an admitted contender ahead cannot show it
		case !v.Admitted && a.Terms != nil && !a.session.Converts():
			return Verdict{Watch: view.Ahead, Record: true}, false, nil
		case !v.Admitted:
			return v, a.mayShare() && len(v.Watch) > 0 && crowdAhead(view.Ahead), nil
		}
		same, err := a.confirm(ctx)
		if err != nil {
			return Verdict{}, false, err
		}
		if same {
			a.first = len(view.Ahead) == 0
			// the view can be older than the change, which others behind may
			// not know of
			a.last = view.Last && !a.moved
			return v, false, nil
		}
	}
}

// await waits for what a verdict says may change it. passed: the predecessor
// left as the first in the queue.
func (a *attempt) await(ctx context.Context, v Verdict) (passed bool, err error) {
	a.stale = a.Terms != nil
	switch {
	case v.Next:
		return a.session.Follow(ctx, a.queue.id, a.joined.Place, v.Watch[0])
	case !v.Record:
		return false, a.session.Await(ctx, a.queue.id, v.Watch...)
	case len(v.Watch) == 0:
		return false, a.renegotiate(ctx, a.record)
	}
	return false, a.awaitEither(ctx, v.Watch)
}

// awaitEither waits for one of the places to leave, or for another record.
func (a *attempt) awaitEither(ctx context.Context, places []driver.Place) error {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan error, 1)
	go func() { // waited for below
		defer cancel()
		changed <- a.renegotiate(either, a.record)
	}()
	err := a.session.Await(either, a.queue.id, places...)
	cancel()
	if other := <-changed; !errors.Is(other, context.Canceled) {
		return other // the record has changed, it cannot be read, or ctx has ended
	}
	return err // only ctx can have cancelled this one
}

// askWho bounds the request that finds out who has the name, for an error
// message.
const askWho = time.Second

// taken makes a TakenError of the error of a Try that found the name taken.
// When ctx has ended, err may be its cause, the ErrTaken of another call.
func (a *attempt) taken(ctx context.Context, err error) error {
	_, known := err.(*TakenError) //nolint:errorlint // ours, see rest
	if !a.Try || known || !errors.Is(err, coordinator.ErrTaken) || ctx.Err() != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, askWho)
	defer cancel()
	e := &TakenError{Op: a.Op, Name: a.queue.name}
	if first, err := a.session.List(ask, a.queue.id, 1); err == nil && len(first) > 0 {
		e.Holder = a.queue.contender(first[0])
		e.Holder.Holding = true
	}
	return e
}
