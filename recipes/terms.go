package recipes

import (
	"cmp"
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// Terms are what all contenders of a queue must agree on, the limit of a
// semaphore for instance. They are kept in the queue's record. Joining and
// comparing the record's version is one step at the service, so no contender is
// queued by other terms than those stored at that moment.
type Terms struct {
	// Initial is written when the queue has no record yet. Empty: then that is
	// an error, None.
	Initial []byte
	None    error // nil: ErrNoRecord
	// Rule returns the rule that follows from the record, or an error if the
	// contender does not agree with it. joined: the contender is queued, and
	// the record has changed meanwhile.
	Rule func(record driver.Record, joined bool) (Rule, error)
	// Mode is the mode of a contender that joins by the record of a version.
	// nil: the mode of the request.
	Mode func(driver.Version) string
	// Held is the mode to which an admitted contender is converted when another
	// one is behind it, or when it has held for a while. Empty: it keeps its
	// mode.
	Held string
	// Counts reports, of a mode, whether an entry behind counts as well for a
	// contender whose record has changed since it joined. The rule is shown
	// such places in front of those ahead. nil: none counts.
	Counts func(mode string) bool
}

// ErrNoRecord says that the queue has no record.
var ErrNoRecord = errors.New("nothing is stored at the name")

// ask finds out the rule from the record as it is now.
func (a *attempt) ask(ctx context.Context) error {
	r, err := a.queue.found(ctx, a.session, a.Terms)
	if err != nil {
		return err
	}
	rule, err := a.Terms.Rule(r, false)
	if err != nil {
		return err
	}
	a.queue.record.Store(&r)
	a.rule, a.record = rule, r.Version
	return nil
}

// found reads the queue's record, and writes the first one if there is none.
func (l *Queue) found(ctx context.Context, s *engine.Session, t *Terms) (driver.Record, error) {
	for {
		r, err := s.Record(ctx, l.id, driver.Any)
		if err != nil || r.Version != 0 {
			return r, err
		}
		if len(t.Initial) == 0 {
			return r, cmp.Or(t.None, ErrNoRecord)
		}
		v, err := s.SetRecord(ctx, l.id, t.Initial, 0)
		switch {
		case err == nil:
			return driver.Record{Value: t.Initial, Version: v}, nil
		case !Overtaken(ctx, err):
			return r, ended(ctx, err)
		}
	}
}

// Overtaken reports, of a failed write of a record, whether to read it and
// write again: another client was faster, or this very request whose reply was
// lost.
func Overtaken(ctx context.Context, err error) bool {
	return ctx.Err() == nil &&
		(errors.Is(err, coordinator.ErrStale) || coordinator.MayHaveApplied(err))
}

// look reads what the rule is to judge. A contender whose record has changed
// since it joined needs the whole queue, as it is after that: contenders of the
// old record may have been admitted behind it.
func (a *attempt) look(ctx context.Context) (driver.View, error) {
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
				return driver.View{Ahead: append(counted, whole.Ahead[:i]...)}, nil
			}
		} // else it is not in the queue any more, and the service says why
	}
	return a.session.Ahead(ctx, a.queue.id, a.joined.Place)
}

// confirm reads the record before a contender that has waited is admitted, and
// reports whether it is the one that the verdict comes from. If not, the
// contender has to read the queue again. A contender that watched the one ahead
// was not notified of a change; one that watched the record may be notified of
// it later than of a leaving that came after it.
func (a *attempt) confirm(ctx context.Context) (bool, error) {
	if !a.stale {
		return true, nil
	}
	before := a.record
	err := a.renegotiate(ctx, driver.Any)
	a.stale = false
	return a.record == before, err
}

// renegotiate waits for another version than known, and takes its rule.
func (a *attempt) renegotiate(ctx context.Context, known driver.Version) error {
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

// Record reads the queue's record. A zero version means that there is none.
func (l *Queue) Record(ctx context.Context) (r driver.Record, err error) {
	err = l.client.OnSession(ctx, func(s *engine.Session) error {
		r, err = s.Record(ctx, l.id, driver.Any)
		return err
	})
	return r, err
}

// SetRecord writes the queue's record if its version is known. ErrStale means
// that it is not, and that ctx is alive.
func (l *Queue) SetRecord(ctx context.Context, value []byte, known driver.Version) error {
	err := l.client.OnSession(ctx, func(s *engine.Session) error {
		v, err := s.SetRecord(ctx, l.id, value, known)
		if err == nil {
			l.record.Store(&driver.Record{Value: value, Version: v})
		}
		return err
	})
	return ended(ctx, err)
}
