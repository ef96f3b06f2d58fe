package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// In a queue with many contenders of few sessions (see engine.ShareWatch) one
// view of the shared queue watch can admit several contenders. Without it each
// contender is woken by its predecessor, reads the queue, and converts its
// entry to wake its successor. Only contenders with Terms share the watch: the
// others are admitted one at a time, by a handoff.

// shouldShare reports whether the places ahead alone make the watch pay.
func shouldShare(ahead []driver.Place) bool {
	sessions := make(map[string]struct{})
	for _, p := range ahead {
		sessions[p.Session] = struct{}{}
	}
	return engine.ShareWatch(len(ahead), len(sessions))
}

// mayShare reports whether the contender may use the shared watch. After a
// change of its record it may not: it has to count contenders behind it.
func (c *count) mayShare() bool {
	return !c.Try && !c.moved && c.session.WatchesQueues()
}

// watchQueue waits on the shared watch until the rule admits the contender. It
// returns false when the contender has to read the queue alone: the watch does
// not pay any more, the record has changed, or the watch was refused.
func (c *count) watchQueue(ctx context.Context) (admitted bool, err error) {
	for asked := c.record; ; {
		var other bool // the watch has shown a record that was not confirmed yet
		record := asked
		err := c.session.WatchQueue(ctx, c.queue.id, c.joined.Place, c.record, func(v engine.QueueView) bool {
			own := v.At(c.joined.Place)
			if admitted = c.rule(v.Places[:own:own]).Admitted; admitted {
				c.last = othersShare(v.Places, own)
			}
			c.waited = c.waited || !admitted
			if v.Shown.After(c.woken) {
				c.woken = v.Shown
			}
			record, other = v.Record, v.Record != c.record && v.Record != asked
			return admitted || other || !v.ShareWatch()
		})
		switch {
		case errors.Is(err, coordinator.ErrRefused), // reading may still be allowed
			// the watch does not pay, or the contender is not in the queue
			err == nil && !admitted && !other:
			return false, nil
		case err != nil:
			return false, err
		}
		if other {
			c.wake()
		}
		asked = record // which may be older than c.record
		same, err := c.confirm(ctx, 0)
		if admitted || err != nil || !same {
			return admitted && same, err
		}
	}
}

// othersShare reports whether an admitted contender need not convert its entry,
// because every session with a waiter behind it probably shares a watch: it
// pays for the last contender of the session. If that is wrong, a waiter is
// notified engine.SettleAfter later, when the hold converts.
func othersShare(places []driver.Place, own int) bool {
	sessions, last := make(map[string]struct{}), make(map[string]bool)
	for i, p := range places {
		if i > own {
			last[p.Session] = engine.ShareWatch(i, len(sessions))
		}
		sessions[p.Session] = struct{}{}
	}
	for _, shares := range last {
		if !shares {
			return false
		}
	}
	return true
}
