package recipes

import (
	"context"
	"errors"
	"slices"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// Terms are what all contenders of a queue must agree on, the limit of a
// semaphore for instance. They are kept in the queue's record. Joining and
// comparing them is one step at the service: nobody is queued who had
// other terms in mind.
type Terms struct {
	// Initial is written when the queue has no record yet. Empty: then that is an error, None.
	Initial []byte
	None    error // nil: ErrNoRecord
	// Rule returns the rule that follows from the record, or an error if it is not what the
	// contender has in mind. joined says that it is queued and the record has changed
	// meanwhile.
	Rule func(record driver.Record, joined bool) (Rule, error)
	// Mode is that of a contender who joins by the record of a version. nil:
	// the mode of the request.
	Mode func(driver.Version) string
	// Counts says, of a mode, whether one who stands behind counts as well for
	// a contender whose record has changed since it joined. The rule is shown
	// such places in front of those ahead. nil: nobody counts.
	Counts func(mode string) bool
}

// agree finds out the rule. A record that was read before is taken for the
// present one: if it is not, joining fails. Only before the contender is turned
// away is it read again.
func (a *attempt) agree(ctx context.Context) error {
	if a.Terms == nil {
		return nil
	}
	if r := a.queue.record.Load(); r != nil {
		if rule, err := a.Terms.Rule(*r, false); err == nil {
			a.Rule, a.record, a.remembered = rule, r.Version, true
			return nil
		}
	}
	return a.ask(ctx)
}

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
	a.Rule, a.record, a.remembered = rule, r.Version, false
	return nil
}

// look shows the rule what it is to judge. A contender whose record has changed
// since it joined is shown the whole queue, as it is after that: whoever came by
// the old record may have been admitted behind it.
func (a *attempt) look(ctx context.Context) (driver.View, error) {
	if a.moved && a.Terms.Counts != nil {
		whole, err := a.session.Ahead(ctx, a.queue.queue, driver.Place{})
		if err != nil {
			return whole, err
		}
		for i, p := range whole.Ahead {
			if p.ID == a.joined.Place.ID {
				return driver.View{Ahead: slices.Concat(a.counted(whole.Ahead[i+1:]), whole.Ahead[:i])}, nil
			}
		} // else it is not in the queue any more, and the service says why
	}
	return a.session.Ahead(ctx, a.queue.queue, a.joined.Place)
}

// counted are those behind who count.
func (a *attempt) counted(behind []driver.Place) (counted []driver.Place) {
	for _, p := range behind {
		if a.Terms.Counts(p.Mode) {
			counted = append(counted, p)
		}
	}
	return counted
}

// confirm reads the record before a contender that slept is admitted, and
// reports whether it is the one that the verdict comes from. Else it has to
// look again. A contender that watched the one ahead only has not heard of a
// change; one that watched the record may hear of it later than of a leaving
// that came after it. (To look at the record before every grant would cost
// more; to have all who wait watch it would wake them all when it changes.)
func (a *attempt) confirm(ctx context.Context) (bool, error) {
	if !a.slept {
		return true, nil
	}
	before := a.record
	err := a.renegotiate(ctx, driver.Any)
	a.slept = false
	return a.record == before, err
}

// found reads the queue's record, and writes the first one if there is none.
func (l *Queue) found(ctx context.Context, s *engine.Session, t *Terms) (driver.Record, error) {
	for {
		r, err := s.Record(ctx, l.queue, driver.Any)
		if err != nil || r.Version != 0 {
			return r, err
		}
		if len(t.Initial) == 0 {
			return r, t.none()
		}
		v, err := s.SetRecord(ctx, l.queue, t.Initial, 0)
		switch {
		case err == nil:
			return driver.Record{Value: t.Initial, Version: v}, nil
		case ctx.Err() != nil || !errors.Is(err, coordinator.ErrStale) && !coordinator.MayHaveApplied(err):
			return r, ended(ctx, err)
		} // else somebody was faster, be it this very request
	}
}

// ErrNoRecord says that the queue has no record.
var ErrNoRecord = errors.New("nothing is stored at the name")

func (t *Terms) none() error {
	if t.None == nil {
		return ErrNoRecord
	}
	return t.None
}

// await waits for what a verdict says may change it. passed: it has left as the first in the queue.
func (a *attempt) await(ctx context.Context, v Verdict) (passed bool, err error) {
	a.slept = a.Terms != nil
	switch {
	case v.Next:
		return a.session.Follow(ctx, a.queue.queue, a.joined.Place, v.Watch[0])
	case a.sharing != never && len(v.Watch) > 0:
		return false, a.awaitCompany(ctx, v)
	}
	return false, a.awaitAlone(ctx, v)
}

// awaitAlone waits with watches of its own.
func (a *attempt) awaitAlone(ctx context.Context, v Verdict) error {
	switch {
	case !v.Record:
		return a.session.Await(ctx, a.queue.queue, v.Watch...)
	case len(v.Watch) == 0:
		return a.renegotiate(ctx, a.record)
	}
	return a.awaitEither(ctx, v.Watch)
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
	err := a.session.Await(either, a.queue.queue, places...)
	cancel()
	if other := <-changed; !errors.Is(other, context.Canceled) {
		return other // the record has changed, there is no reading it, or ctx has ended
	}
	return err // nobody but ctx can have cancelled this one
}

// renegotiate takes the rule that follows from the record once it has another version than known.
func (a *attempt) renegotiate(ctx context.Context, known driver.Version) error {
	r, err := a.session.Record(ctx, a.queue.queue, known)
	switch {
	case err != nil:
		return err
	case r.Version == 0:
		return a.Terms.none()
	case r.Version == a.record:
		return nil
	}
	rule, err := a.Terms.Rule(r, true)
	if err != nil {
		return err
	}
	a.Rule, a.record, a.moved = rule, r.Version, true
	a.sharing = never
	return nil
}

// Record reads the queue's record. A zero version means that there is none.
func (l *Queue) Record(ctx context.Context) (r driver.Record, err error) {
	err = l.onSession(ctx, func(s *engine.Session) error {
		r, err = s.Record(ctx, l.queue, driver.Any)
		return err
	})
	return r, err
}

// SetRecord writes the queue's record if its version is known. ErrStale means
// that it is not, and that ctx is alive.
func (l *Queue) SetRecord(ctx context.Context, value []byte, known driver.Version) error {
	err := l.onSession(ctx, func(s *engine.Session) error {
		v, err := s.SetRecord(ctx, l.queue, value, known)
		if err == nil {
			l.record.Store(&driver.Record{Value: value, Version: v})
		}
		return err
	})
	return ended(ctx, err)
}

// onSession runs a request that needs a session, but no particular one. When
// the session turns out to be over, and nothing was applied, it runs once more
// on a new one.
func (l *Queue) onSession(ctx context.Context, f func(*engine.Session) error) error {
	for again := true; ; again = false {
		s, err := l.client.Session(ctx)
		if err == nil {
			err = f(s)
		}
		if !again || !lostBefore(ctx, err) {
			return err
		}
	}
}

// lostBefore says of a request that failed that its session was over before, so
// that nothing was applied and it can be made on another one.
func lostBefore(ctx context.Context, err error) bool {
	return errors.Is(err, coordinator.ErrSessionLost) && !coordinator.MayHaveApplied(err) && ctx.Err() == nil
}
