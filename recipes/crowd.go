package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// In a crowded queue (see engine.Crowded) the contenders of a session share one
// watch of it. Otherwise each contender is woken by the one ahead, reads the
// queue, and converts its entry to wake the next one; with the watch several can
// be admitted by one view. Only contenders with Terms use it: of the others, one
// at a time is admitted, and it is notified by the one that leaves. It takes a
// service that can watch a queue.

// crowdAhead reports whether the queue is crowded, judged by the places ahead of
// a contender alone.
func crowdAhead(ahead []driver.Place) bool {
	sessions := make(map[string]struct{})
	for _, p := range ahead {
		sessions[p.Session] = struct{}{}
	}
	return engine.Crowded(len(ahead), len(sessions))
}

// sharing says whether a contender uses the shared watch.
type sharing int8

const (
	never   sharing = iota // it must not
	willing                // once the queue is crowded, or another contender of its session does
	now                    // it does so next
	not                    // the queue was not crowded, or the watch was refused: it waits alone first
)

// share says whether a contender begins with the shared watch: if there is one,
// that costs nothing.
func (a *attempt) share() {
	if a.Terms == nil || a.Try || !a.session.WatchesQueues() {
		return
	}
	a.sharing = willing
	watched, stop := a.session.QueueWatched(a.queue.queue, func() {})
	stop()
	if watched {
		a.sharing = now
	}
}

// errCompany ends the wait of one who waits alone when others of its session
// begin to watch the queue.
var errCompany = errors.New("others watch the queue")

// awaitCompany waits alone until other contenders of the session watch a crowded
// queue. From then on it must not wait alone: those who share the watch do not
// convert their entries.
func (a *attempt) awaitCompany(ctx context.Context, v Verdict) error {
	alone, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched, stop := a.session.QueueWatched(a.queue.queue, func() { cancel(errCompany) })
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
		err := a.session.WatchQueue(ctx, a.queue.queue, a.joined.Place, a.record, func(v engine.QueueView) bool {
			own := v.At(a.joined.Place)
			if admitted = a.Rule(v.Places[:own:own]).Admitted; admitted {
				a.last = shared(v.Places, own)
			}
			a.waited = a.waited || !admitted
			if v.Told.After(a.told) {
				a.told = v.Told
			}
			record, other = v.Record, v.Record != a.record && v.Record != asked
			return admitted || other || !v.Crowded()
		})
		switch {
		case errors.Is(err, coordinator.ErrRefused), // it may be allowed to read by itself
			err == nil && !admitted && !other: // the queue is not crowded, or the contender not in it
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

// shared reports whether an admitted contender may leave its entry as it is,
// because every session with a waiter behind it probably shares a watch: the
// last contender of the session sees a crowd ahead. If that is wrong, a waiter is
// notified when the hold settles, engine.SettleAfter later.
func shared(places []driver.Place, own int) bool {
	sessions, last := make(map[string]struct{}), make(map[string]bool)
	for i, p := range places {
		if i > own {
			last[p.Session] = engine.Crowded(i, len(sessions))
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
