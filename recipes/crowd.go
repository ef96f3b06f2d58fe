package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// A queue is crowded when many contenders of few sessions stand in it: many
// goroutines, that is, of few processes. There it is cheaper that each session
// watches the queue, once for all of its contenders, than that each contender
// is woken by the one ahead, reads the queue, and converts its entry to wake
// the next one; and several can be admitted at once. Only contenders with Terms
// share the watch: of the others, one at a time is admitted, and it is notified
// by the one that leaves. It takes a service that can watch a queue.
const (
	manyPlaces  = 16  // from which it pays,
	manyEach    = 3   // with so many for each session;
	fewSessions = 16  // which bounds whom a leaving wakes,
	fewPlaces   = 512 // and this what a reading costs
)

func crowded(places, sessions int) bool {
	return places >= max(manyPlaces, manyEach*sessions) && sessions <= fewSessions && places <= fewPlaces
}

// crowdAhead says whether the line is crowded, as far as one sees it who has these ahead.
func crowdAhead(ahead []driver.Place) bool {
	sessions := make(map[string]struct{})
	for _, p := range ahead {
		sessions[p.Session] = struct{}{}
	}
	return crowded(len(ahead), len(sessions))
}

// sharing is how a contender stands to the watch of the queue that is shared in its session.
type sharing int8

const (
	never   sharing = iota // it is not for it
	willing                // it takes part as soon as others do, or the line is crowded
	now                    // it is about to
	not                    // it has found that the line is not crowded, and waits alone once
)

// share says whether a contender begins with the shared watch: if there is one,
// that costs nothing.
func (a *attempt) share() {
	if a.Terms == nil || a.Try || !a.session.WatchesQueues() {
		return
	}
	a.sharing = willing
	watched, stop := a.session.QueueWatched(a.line.line, func() {})
	stop()
	if watched {
		a.sharing = now
	}
}

// errCompany ends the wait of one who waits alone when others of its session
// begin to watch the queue.
var errCompany = errors.New("others watch the queue")

// awaitCompany is awaitAlone until others of the session begin to watch the
// queue: of them nobody converts its entry to wake this one.
func (a *attempt) awaitCompany(ctx context.Context, v Verdict) error {
	alone, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched, stop := a.session.QueueWatched(a.line.line, func() { cancel(errCompany) })
	defer stop()
	if watched {
		a.sharing = now
		return nil
	}
	err := a.awaitAlone(alone, v)
	if errors.Is(err, errCompany) { // if ctx has ended as well, the watch says so
		a.sharing = now
		return nil
	}
	return err
}

// watchQueue waits until the rule admits the contender, or until there is something
// else to find out than who stands ahead.
func (a *attempt) watchQueue(ctx context.Context) (admitted bool, err error) {
	a.slept = true
	for asked := a.record; ; {
		var other bool // record, of which nobody was asked yet
		record := asked
		err := a.session.WatchQueue(ctx, a.line.line, a.joined.Place, a.record, func(v engine.QueueView) bool {
			own := v.At(a.joined.Place)
			if admitted = a.Rule(v.Places[:own]).Admitted; admitted {
				a.last = shared(v.Places, own)
			}
			a.waited = a.waited || !admitted
			if v.Told.After(a.told) {
				a.told = v.Told
			}
			record, other = v.Record, v.Record != a.record && v.Record != asked
			return admitted || other || !crowded(len(v.Places), v.Sessions)
		})
		switch {
		case errors.Is(err, coordinator.ErrRefused), // what was asked for all may be granted to one
			err == nil && !admitted && !other: // the line is not crowded, or the contender not in it
			a.sharing = not
			return false, nil
		case err != nil:
			return false, err
		}
		if other {
			a.waits()
		}
		asked = record // which may be older than a.record
		same, err := a.confirm(ctx)
		if admitted || err != nil || !same {
			return admitted && same, err
		}
		a.slept = true
	}
}

// shared says of one who is admitted that nobody behind is likely to wait for
// its entry to be converted: of each session that waits there, the last
// contender sees a crowd ahead, and if one watches the queue all of that session
// do. Were it wrong, the settling of the hold would tell whoever waits, a
// quarter of a second later.
func shared(places []driver.Place, own int) bool {
	sessions, last := make(map[string]struct{}), make(map[string]bool)
	for i, p := range places {
		if i > own {
			last[p.Session] = crowded(i, len(sessions))
		}
		sessions[p.Session] = struct{}{}
	}
	for _, sees := range last {
		if !sees {
			return false
		}
	}
	return true
}
