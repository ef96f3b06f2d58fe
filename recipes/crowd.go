package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// In a crowded queue (see engine.Crowded) one view of the shared watch can
// admit several contenders. Without it each one is woken by the one ahead,
// reads the queue, and converts its entry to wake the next one. Only contenders
// with Terms share it: of the others, one at a time is admitted, by the one
// that leaves.

// crowdAhead reports whether the queue is crowded, judged by the places ahead
// of a contender alone.
func crowdAhead(ahead []driver.Place) bool {
	sessions := make(map[string]struct{})
	for _, p := range ahead {
		sessions[p.Session] = struct{}{}
	}
	return engine.Crowded(len(ahead), len(sessions))
}

// mayShare reports whether the contender may use the shared watch. One whose
// record has changed may not: it has to count contenders behind it.
func (a *attempt) mayShare() bool {
	return a.Terms != nil && !a.Try && !a.moved && a.session.WatchesQueues()
}

// watchQueue waits on the shared watch until the rule admits the contender. It
// returns false when the contender has to read the queue by itself: the queue
// is not crowded any more, the record has changed, or the watch was refused.
func (a *attempt) watchQueue(ctx context.Context) (admitted bool, err error) {
	a.stale = true
	for asked := a.record; ; {
		var other bool // record, of which nobody was asked yet
		record := asked
		err := a.session.WatchQueue(ctx, a.queue.id, a.joined.Place, a.record, func(v engine.QueueView) bool {
			own := v.At(a.joined.Place)
			if admitted = a.rule(v.Places[:own:own]).Admitted; admitted {
				a.last = othersShare(v.Places, own)
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
			// the queue is not crowded, or the contender not in it
			err == nil && !admitted && !other:
			return false, nil
		case err != nil:
			return false, err
		}
		if other {
			a.wakes()
		}
		asked = record // which may be older than a.record
		same, err := a.confirm(ctx)
		if admitted || err != nil || !same {
			return admitted && same, err
		}
		a.stale = true
	}
}

// othersShare reports whether an admitted contender may leave its entry as it
// is, because every session with a waiter behind it probably shares a watch:
// the last contender of the session sees a crowd ahead. If that is wrong, a
// waiter is notified when the hold settles, engine.SettleAfter later.
func othersShare(places []driver.Place, own int) bool {
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
