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
//	agree on terms -> join -> judge the view -> lock-delay -> hold
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
	queued  bool // the entry is in the queue, and no hold has it

	rule   Rule
	record driver.Version // of the terms of the rule
	moved  bool           // the record has changed since the join

	waited bool      // it was not admitted at once
	woken  time.Time // when it last saw an entry ahead leave, or another record
	first  bool      // it was admitted as the first in the queue
	last   bool      // no contender behind can mistake it for a waiter

	noted      driver.Version // of its note in the record; see lockDelay
	mayBeNoted bool           // the note may be written, also later
}

// acquire is Acquire without re-entry.
func (q *Queue) acquire(ctx context.Context, r Request) (*Hold, error) {
	if r.Payload == nil {
		r.Payload = q.payload
	}
	began := time.Now()
	a := &attempt{Request: r, queue: q, rule: r.Rule, info: info{
		Identity: q.identity, Since: began.UTC().Round(time.Millisecond), Payload: r.Payload}}
	if r.exclusive() {
		a.rule = Exclusive
	}
	defer a.leaveLater() // does nothing, unless an observer that is direct panics
	if err := a.win(ctx); err != nil {
		a.observe(ctx, began, event.NotGranted, err)
		return nil, err
	}
	// Before the hold exists: observers get a grant before its loss.
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
		e.HandOver = time.Since(a.woken)
	}
	a.queue.client.Observe(e)
}

// win returns nil when the contender is admitted. Otherwise it removes the
// entry.
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
		err = a.lockDelay(ctx)
	}
	if err == nil {
		// The session may have ended since, for instance during a pause of the
		// process.
		err = a.session.Check(ctx)
	}
	if err != nil {
		a.leaveLater()
		return a.taken(ctx, err)
	}
	return nil
}

// join joins the queue: on a new session if the last one has ended, and with
// the new record if it has changed since it was read.
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
			a.queued = true
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

// ended returns err, or the cause of ctx if ctx has ended and err is ErrStale:
// nothing was done, and there is no time for another read.
func ended(ctx context.Context, err error) error {
	stale := errors.Is(err, coordinator.ErrStale) && !errors.Is(err, coordinator.ErrUnavailable)
	if stale && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// agree takes the rule from the terms. It trusts a record that the session has
// read before: if that is stale, joining fails. A Try that is not exclusive
// also reads the queue, so that it joins only if it is admitted; before it
// fails because of a record that was read before, it reads the record again.
func (a *attempt) agree(ctx context.Context) error {
	known := false
	if a.Terms != nil {
		if r := a.queue.record.Load(); r != nil && r.by == a.session {
			if rule, err := a.Terms.Rule(r.Record, false); err == nil {
				a.rule, a.record, known = rule, r.Version, true
			}
		}
		if !known {
			if err := a.readTerms(ctx); err != nil {
				return err
			}
		}
	}
	if a.Try && !a.exclusive() {
		view, err := a.session.Ahead(ctx, a.queue.id, driver.Place{})
		if err == nil && known && !a.rule(view.Ahead).Admitted {
			err = a.readTerms(ctx)
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

// wait returns nil when the rule admits the contender. After each wake-up it
// reads the queue again, since the predecessor may have left without ever
// holding, unless the predecessor was the first and handed over.
func (a *attempt) wait(ctx context.Context) error {
	if a.joined.First && a.rule(nil).Admitted {
		a.first, a.last = true, true // a contender behind sees it first in the queue
		return nil
	}
	defer a.seekStrays(ctx)()
	// joining a watch that other contenders already share costs nothing
	shared := a.mayShare() && a.session.QueueWatched(a.queue.id)
	for v := a.fromNearest(); ; v = (Verdict{}) {
		left := shared // the shared watch: then it waits alone once before it returns to it
		if shared {
			if admitted, err := a.watchQueue(ctx); admitted || err != nil {
				return err
			}
			shared = false
		}
		if !v.Next {
			var share bool
			var err error
			if v, share, err = a.judge(ctx); v.Admitted || err != nil {
				return err
			}
			if share && !left {
				shared = true
				continue
			}
		}
		handedOver, err := a.await(ctx, v)
		if a.wake(); handedOver || err != nil {
			a.first = handedOver
			return err
		}
	}
}

func (a *attempt) wake() { a.waited, a.woken = true, time.Now() }

// fromNearest returns the verdict if the predecessor alone decides it.
func (a *attempt) fromNearest() Verdict {
	if a.joined.Nearest == (driver.Place{}) || a.Try || a.Terms != nil {
		return Verdict{}
	}
	if v := a.rule([]driver.Place{a.joined.Nearest}); v.Next {
		return v
	}
	return Verdict{}
}

// judge reads the queue and returns the verdict. share: the contender should
// wait on the shared queue watch.
func (a *attempt) judge(ctx context.Context) (v Verdict, share bool, err error) {
	for {
		view, err := a.view(ctx)
		if err != nil {
			return Verdict{}, false, err
		}
		v = a.rule(view.Ahead)
		switch {
		case !v.Admitted && a.Try:
			return v, false, coordinator.ErrTaken
		// without conversion an admitted contender ahead cannot show that it
		// holds
		case !v.Admitted && a.Terms != nil && !a.session.Converts():
			return Verdict{Watch: view.Ahead, Record: true}, false, nil
		case !v.Admitted:
			return v, a.mayShare() && len(v.Watch) > 0 && shouldShare(view.Ahead), nil
		}
		same, err := a.confirm(ctx, view.Record)
		if err != nil {
			return Verdict{}, false, err
		}
		if same {
			a.first = len(view.Ahead) == 0
			// contenders behind may use the old record
			a.last = view.Last && !a.moved
			return v, false, nil
		}
	}
}

// await waits for an event that may change the verdict, or until the own entry
// has left the queue. handedOver: the predecessor left as the first in it.
func (a *attempt) await(ctx context.Context, v Verdict) (handedOver bool, err error) {
	if v.Next {
		return a.session.Follow(ctx, a.queue.id, a.joined.Place, v.Watch[0])
	}
	return false, a.session.WhileQueued(ctx, a.queue.id, a.joined.Place,
		func(ctx context.Context) error {
			switch {
			case !v.Record:
				return a.session.Await(ctx, a.queue.id, v.Watch...)
			case len(v.Watch) == 0:
				return a.awaitRecord(ctx, a.record)
			}
			return a.awaitEither(ctx, v.Watch)
		})
}

// awaitEither waits until one of the places leaves or the record changes.
func (a *attempt) awaitEither(ctx context.Context, places []driver.Place) error {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan error, 1)
	go func() { // waited for below
		defer cancel()
		changed <- a.awaitRecord(either, a.record)
	}()
	err := a.session.Await(either, a.queue.id, places...)
	cancel()
	if other := <-changed; !errors.Is(other, context.Canceled) {
		return other // the record has changed, it cannot be read, or ctx has ended
	}
	return err // only ctx can have cancelled this one
}

// holderTimeout bounds the request that reads the holder for a TakenError.
const holderTimeout = time.Second

// taken turns the ErrTaken of a Try into a TakenError. If ctx has ended, err
// may be its cause, the ErrTaken of another call.
func (a *attempt) taken(ctx context.Context, err error) error {
	_, known := err.(*TakenError) //nolint:errorlint // ours, see lockDelay
	if !a.Try || known || !errors.Is(err, coordinator.ErrTaken) || ctx.Err() != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, holderTimeout)
	defer cancel()
	e := &TakenError{Op: a.Op, Name: a.queue.name}
	if first, err := a.session.List(ask, a.queue.id, 1); err == nil && len(first) > 0 {
		e.Holder = a.queue.contender(first[0])
		e.Holder.Holding = true
	}
	return e
}
