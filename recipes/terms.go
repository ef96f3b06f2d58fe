package recipes

import (
	"cmp"
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// Terms are what all contenders of a queue must agree on, for instance the
// limit of a semaphore. They are stored in the queue's record. A join compares
// the record's version in the same step, so every contender is queued with the
// terms that are stored at that moment.
type Terms struct {
	// Initial is written if the queue has no record. If Initial is empty, that
	// is the error None.
	Initial []byte
	None    error // nil: ErrNoRecord
	// Rule returns the rule for a record, or an error if the contender does not
	// accept it. joined: the contender is queued, and the record has changed.
	Rule func(record driver.Record, joined bool) (Rule, error)
	// Mode returns the mode of a contender that joins with a version of the
	// record. nil: the mode of the request.
	Mode func(driver.Version) string
	// Held is the mode to which an admitted contender is converted if another
	// contender is behind it, or after engine.SettleAfter. Empty: none.
	Held string
	// Counts reports whether an entry of a mode behind a contender counts for
	// it after its record has changed. The rule gets the places of such entries
	// in front of those ahead. nil: none counts.
	Counts func(mode string) bool
}

// lastRecord is a record that a session has read or written. Another session
// does not trust it: after a loss of data versions begin anew, so that the
// version may be that of another record.
type lastRecord struct {
	driver.Record
	by *engine.Session
}

// ErrNoRecord means that the queue has no record.
var ErrNoRecord = errors.New("nothing is stored at the name")

// readTerms reads the record, and takes its rule.
func (a *attempt) readTerms(ctx context.Context) error {
	r, err := a.queue.found(ctx, a.session, a.Terms)
	if err != nil {
		return err
	}
	rule, err := a.Terms.Rule(r, false)
	if err != nil {
		return err
	}
	a.queue.record.Store(&lastRecord{r, a.session})
	a.rule, a.record = rule, r.Version
	return nil
}

// found reads the queue's record, or writes the initial one.
func (q *Queue) found(ctx context.Context, s *engine.Session, t *Terms) (driver.Record, error) {
	for {
		r, err := s.Record(ctx, q.id, driver.Any)
		if err != nil || r.Version != 0 {
			return r, err
		}
		if len(t.Initial) == 0 {
			return r, cmp.Or(t.None, ErrNoRecord)
		}
		v, err := s.SetRecord(ctx, q.id, t.Initial, 0)
		switch {
		case err == nil:
			return driver.Record{Value: t.Initial, Version: v}, nil
		case !Overtaken(ctx, err):
			return r, ended(ctx, err)
		}
	}
}

// Overtaken reports whether to read the record and write again after a failed
// write: another client has written it, or the reply of this write was lost.
func Overtaken(ctx context.Context, err error) bool {
	return ctx.Err() == nil &&
		(errors.Is(err, coordinator.ErrStale) || coordinator.MayHaveApplied(err))
}

// view reads the places for the rule. A contender whose record has changed
// since it joined needs the whole queue, read after the change: contenders of
// the old record may have been admitted behind it.
func (a *attempt) view(ctx context.Context) (driver.View, error) {
	if a.moved && a.Terms.Counts != nil {
		whole, err := a.session.Ahead(ctx, a.queue.id, driver.Place{})
		if err != nil {
			return whole, err
		}
		for i, p := range whole.Ahead {
			if p.ID == a.joined.Place.ID {
				var counted []driver.Place
				for _, behind := range whole.Ahead[i+1:] {
					if a.Terms.Counts(behind.Mode) {
						counted = append(counted, behind)
					}
				}
				return driver.View{
					Ahead: append(counted, whole.Ahead[:i]...), Record: whole.Record,
				}, nil
			}
		} // not found: Ahead returns the reason
	}
	return a.session.Ahead(ctx, a.queue.id, a.joined.Place)
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
func (a *attempt) confirm(ctx context.Context, shown driver.Version) (bool, error) {
	if a.Terms == nil || shown == a.record && !a.waited {
		return true, nil
	}
	before := a.record
	err := a.awaitRecord(ctx, driver.Any)
	return a.record == before, err
}

// awaitRecord waits for another version than known, and takes its rule.
func (a *attempt) awaitRecord(ctx context.Context, known driver.Version) error {
	r, err := a.session.Record(ctx, a.queue.id, known)
	switch {
	case err != nil:
		return err
	case r.Version == 0:
		return cmp.Or(a.Terms.None, ErrNoRecord)
	case r.Version == a.record:
		return nil
	}
	rule, err := a.Terms.Rule(r, true)
	if err != nil {
		return err
	}
	a.rule, a.record, a.moved = rule, r.Version, true
	return nil
}

// Record reads the queue's record. Version 0 means that there is none.
func (q *Queue) Record(ctx context.Context) (driver.Record, error) {
	return q.NextRecord(ctx, driver.Any)
}

// SetRecord writes the queue's record if its version is known. The error is
// ErrStale if it is not and ctx is alive.
func (q *Queue) SetRecord(ctx context.Context, value []byte, known driver.Version) error {
	err := q.client.OnSession(ctx, func(s *engine.Session) error {
		v, err := s.SetRecord(ctx, q.id, value, known)
		if err == nil {
			q.record.Store(&lastRecord{driver.Record{Value: value, Version: v}, s})
		}
		return err
	})
	return ended(ctx, err)
}

// LatestRecord is Record for a caller that must see every write that any client
// has finished before the call. Record shows only those of this client's
// session: on ZooKeeper its server may be behind. It costs there one more
// request, a write of no version, which the service refuses: later reads of the
// session are at least as new as that answer. See D3 of [driver.Session].
func (q *Queue) LatestRecord(ctx context.Context) (r driver.Record, err error) {
	err = q.client.OnSession(ctx, func(s *engine.Session) error {
		_, err := s.SetRecord(ctx, q.id, []byte("0"), driver.Any)
		if ctx.Err() == nil { // it was answered, or the session has ended
			r, err = s.Record(ctx, q.id, driver.Any)
		}
		step, ok := err.(*engine.Error) //nolint:errorlint // of this step, not what it wraps
		if ok && !engine.IsCause(ctx, err) {
			err = step.Err // without "may have been applied"
		}
		return err
	})
	return r, ended(ctx, err)
}

// NextRecord waits until the queue's record has another version than known, or
// the session is lost: after a loss of data versions begin anew, so that
// another record may have the known one. It leaves nothing at the service when
// ctx ends, except one watch, which ends at the next change. After a lost
// session, the record may be the known one, or older than one that was returned
// before.
func (q *Queue) NextRecord(
	ctx context.Context, known driver.Version,
) (r driver.Record, err error) {
	err = q.client.OnSession(ctx, func(s *engine.Session) error {
		r, err = s.Record(ctx, q.id, known)
		known = driver.Any
		return err
	})
	return r, err
}

// AwaitGone waits until at least one of the places has left the queue. It
// leaves nothing at the service when ctx ends, except a watch of each place,
// which ends when the place leaves.
func (q *Queue) AwaitGone(ctx context.Context, places ...driver.Place) error {
	return q.client.OnSession(ctx, func(s *engine.Session) error {
		return s.Await(ctx, q.id, places...)
	})
}
