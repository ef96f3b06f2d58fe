package recipes

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// attempt is the life of one contender from Acquire to its hold:
//
//	agree on terms -> join -> wait -> lock-delay -> check the session -> hold
//
// When a step fails, the entry is removed in the background. How it waits is a
// matter of its admission. An attempt belongs to the goroutine that acquires.
type attempt struct {
	Request
	admission

	queue     *Queue
	session   *engine.Session
	info      info
	value     []byte
	joined    driver.Joined
	mustLeave bool // the entry is in the queue, and no hold has it

	rule        Rule
	waited      bool      // it was not admitted at once
	since       time.Time // when it began to wait
	woken       time.Time // when it last saw an entry ahead leave, or another record
	first       bool      // admitted as the first in the queue; used only if exclusive
	told        bool      // admitted by a handoff, or as the first that joined
	knownHolder bool      // no contender behind can mistake it for a waiter

	noted      driver.Version // of its note in the record; see lockDelay
	mayBeNoted bool           // the note may be written, also later
}

// admission is what differs between the contenders that follow one entry ahead
// (follow: mutex, readers, election) and those that count the entries ahead by
// terms which all of them share (count: semaphore). Both use the fields of the
// attempt. The attempt itself knows nothing of terms, records and shared
// watches.
type admission interface {
	// agree is called before each join. It decides with what the contender
	// joins. A Try that has to read the queue for that fails here.
	agree(ctx context.Context) error
	// contender returns the contender with which to join.
	contender() driver.Contender
	// outdated reports whether a join failed because of what agree has
	// remembered, and forgets that: then the contender agrees again.
	outdated(err error) bool
	// wait blocks until the joined contender is admitted. It sets first and
	// knownHolder, and calls noteWake whenever an entry ahead has left.
	wait(ctx context.Context) error
	// heldMode is the mode of an entry that shows that it holds, or "".
	heldMode() string
}

func (a *attempt) observe(ctx context.Context, began time.Time, kind event.Kind, err error) {
	said := event.Event{Kind: kind, Op: a.Op, Queue: a.queue.id, Token: a.joined.Token,
		Context: ctx, Duration: time.Since(began), Waited: a.waited, Err: err}
	if a.session != nil {
		said.Session = a.session.ID()
	}
	// Only a grant that had to wait was handed over: without the wait, woken is
	// the zero time.
	if a.waited && err == nil {
		said.HandOver = time.Since(a.woken)
	}
	a.queue.client.Observe(said)
}

// join joins the queue: on a new session if the last one has ended, and with
// the new record if it has changed since it was read.
func (a *attempt) join(ctx context.Context) (err error) {
	for sessions := 0; ; {
		if a.session, err = a.queue.client.Session(ctx); err != nil {
			return err
		}
		// In each round: what a contender has agreed on is valid for a session.
		if err = a.agree(ctx); err == nil {
			a.joined, err = a.session.Join(ctx, a.queue.id, a.contender())
		}
		switch {
		case err == nil:
			// Before the observer and Queued are called, which may panic: from
			// here on leaveLater removes the entry.
			a.mustLeave = true
			a.queue.client.Observe(event.Event{Kind: event.Joined,
				Session: a.session.ID(), Queue: a.queue.id, Token: a.joined.Token})
			if a.Queued != nil {
				a.Queued()
			}
			return nil
		case ctx.Err() == nil && a.outdated(err):
			// Nothing was joined. Without a pause, since each round means that
			// another client has written.
		case sessions == 0 && engine.LostBefore(ctx, err):
			// The session had ended before the call, and nobody had noticed:
			// the caller shall not see an error for that. Once only: a service
			// on which each session is lost at once has to be reported.
			sessions++
		default:
			return causeIfStale(ctx, err)
		}
	}
}

// joinedFirst reports whether the contender is admitted since no entry was
// ahead of it when it joined: none can come ahead later.
func (a *attempt) joinedFirst() bool {
	if !a.joined.First || !a.rule(nil).Admitted {
		return false
	}
	a.first, a.knownHolder = true, true // a contender behind sees it first in the queue
	a.told = true
	return true
}

// noteWake notes that an entry ahead has left, or that the terms have changed:
// from then on the time to the grant counts as that of a hand-over.
func (a *attempt) noteWake() { a.waited, a.woken = true, time.Now() }

// await waits for an event that may change the verdict, or until the own entry
// has left the queue. handedOver: the predecessor left as the first in it.
func (a *attempt) await(ctx context.Context, verdict Verdict) (handedOver bool, err error) {
	if verdict.Next {
		return a.session.Follow(ctx, a.queue.id, a.joined.Place, verdict.Watch[0])
	}
	// A removal of any of several entries proves nothing about the others, so
	// there is no handoff: the contender reads the queue again.
	return false, a.session.WhileQueued(ctx, a.queue.id, a.joined.Place,
		func(ctx context.Context) error {
			return a.session.Await(ctx, a.queue.id, verdict.Watch...)
		})
}
