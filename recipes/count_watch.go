package recipes

import (
	"cmp"
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
// others each follow one entry, whose handoff admits them.

// shouldShare reports whether the places ahead alone make the watch pay.
func shouldShare(ahead []driver.Place) bool {
	sessions := make(map[string]struct{})
	for _, p := range ahead {
		sessions[p.Session] = struct{}{}
	}
	return engine.ShareWatch(len(ahead), len(sessions))
}

// mayWatchQueue reports whether the contender may use the shared watch. After a
// change of its record it may not: it has to count contenders behind it.
func (c *count) mayWatchQueue() bool {
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
				c.knownHolder = othersShare(v.Places, own)
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
			c.noteWake()
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

// confirm reads the record after a view that admits the contender, and reports
// whether the verdict used it. If not, the contender has to read the queue
// again, and to confirm that view, too: permits are not granted by a limit that
// had changed before they were released.
//
//	join with record 1 | SetLimit: record 2 | the holder leaves | view
//
// However soon the view comes, all that lies between can have happened before
// it; nor was a contender that watched its predecessor notified of a change of
// the record, and one that watched the record may be notified of a change later
// than of a departure that came after it.
//
// Two contenders need no read. The join of the first in the queue compared the
// record. A view that shows the version tells that the limit was in force then,
// after the last departure. A contender that has waited reads the record even
// so, since that also finds a change while the view was on its way.
func (c *count) confirm(ctx context.Context, shown driver.Version) (bool, error) {
	if shown == c.record && !c.waited {
		return true, nil
	}
	before := c.record
	err := c.awaitRecord(ctx, driver.Any)
	return c.record == before, err
}

// awaitRecord waits for another version than known, and takes its rule.
func (c *count) awaitRecord(ctx context.Context, known driver.Version) error {
	record, err := c.session.Record(ctx, c.queue.id, known)
	switch {
	case err != nil:
		return err
	case record.Version == 0:
		return cmp.Or(c.terms.None, ErrNoRecord)
	case record.Version == c.record:
		return nil
	}
	rule, err := c.terms.Rule(record, true)
	if err != nil {
		return err
	}
	c.rule, c.record, c.moved = rule, record.Version, true
	return nil
}

// await waits for an event that may change the verdict, or until the own entry
// has left the queue.
func (c *count) await(ctx context.Context, v Verdict) (handedOver bool, err error) {
	if !v.Record {
		return c.attempt.await(ctx, v)
	}
	return false, c.session.WhileQueued(ctx, c.queue.id, c.joined.Place,
		func(ctx context.Context) error {
			if len(v.Watch) == 0 {
				return c.awaitRecord(ctx, c.record)
			}
			return c.awaitEither(ctx, v.Watch)
		})
}

// awaitEither waits until one of the places leaves or the record changes.
func (c *count) awaitEither(ctx context.Context, places []driver.Place) error {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan error, 1)
	go func() { // waited for below
		defer cancel()
		changed <- c.awaitRecord(either, c.record)
	}()
	err := c.session.Await(either, c.queue.id, places...)
	cancel()
	if other := <-changed; !errors.Is(other, context.Canceled) {
		return other // the record has changed, it cannot be read, or ctx has ended
	}
	return err // only ctx can have cancelled this one
}
