// Package store keeps the plan of a partition at the service. The plan is the
// record of one queue. Nobody watches it but members that were signalled, so a
// change wakes only the members that it affects:
//
//	read the plan          then the members, which are at least as new
//	signal the members     whose part changes: write the number of the plan that
//	                       was read to the signal record of the member's seat,
//	                       unless it has that or a greater number
//	write the next plan    if the plan is unchanged; else begin again
//
// A signalled member follows the plan until its number is greater than that of
// the signal. So no change is missed if the writer dies after any step: before
// the write nothing has changed, and the member that watches the writer plans
// again. Numbers in signals rise, so a slow writer, whose write will fail, does
// not take the signal of another back.
//
// There is a signal record for each seat. They stay, but seats are taken again,
// so there are as many as there were ever members at a time.
//
// If there is no plan, it is the first, or an operator has deleted it: then the
// numbers begin again, and the seats of the members are not known. So the first
// plan signals all seats that have a record, whatever their numbers. Those may
// be greater than that of the plan: their members follow it for longer than
// they must. A member that was signalled and finds no plan makes one.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/partition/internal/plan"
)

// Store is the stored plan of a partition. It is safe for concurrent use.
type Store struct {
	client *engine.Client
	name   string
	plan   driver.Queue
}

// New returns the store of a partition's name. It does no I/O.
func New(c *engine.Client, name string) (*Store, error) {
	s := &Store{client: c, name: name}
	var err error
	s.plan, err = c.Queue("partition", name)
	return s, err
}

// Read reads the plan when its version differs from known, at once if known is
// driver.Any.
func (s *Store) Read(
	ctx context.Context, session *engine.Session, known driver.Version,
) (plan.Plan, driver.Version, error) {
	r, err := session.Record(ctx, s.plan, known)
	if err != nil {
		return plan.Plan{}, 0, err
	}
	now, err := plan.Parse(r.Value)
	if err != nil {
		err = engine.Invalid("the plan of partition %q, %.60q: %v", s.name, r.Value, err)
	}
	return now, r.Version, err
}

// Replace replaces the plan by the one that next returns for it, if they
// differ, and returns the plan that is stored then. me is the token of the
// caller, who needs no signal.
func (s *Store) Replace(
	ctx context.Context, session *engine.Session, me int64,
	next func(old plan.Plan) (plan.Plan, error),
) (plan.Plan, error) {
	for {
		old, version, err := s.Read(ctx, session, driver.Any)
		if err != nil {
			return old, err
		}
		now, err := next(old)
		if err != nil || now.Same(old) {
			return old, err
		}
		now.Number = old.Number + 1
		text, err := json.Marshal(now)
		if err == nil {
			err = s.signalAll(ctx, session, me, old, now)
		}
		if err == nil {
			_, err = session.SetRecord(ctx, s.plan, text, version)
		}
		if err == nil || !recipes.Overtaken(ctx, err) {
			return now, err
		}
	}
}

// signalAll signals the other members whose part changes. When it returns nil
// they follow the plan beyond old, or are about to.
func (s *Store) signalAll(
	ctx context.Context, session *engine.Session, me int64, old, now plan.Plan,
) error {
	if old.Number == 0 {
		return s.signalSeats(ctx, session)
	}
	changed := now.Changed(old)
	errs := make([]error, len(changed))
	var wg sync.WaitGroup
	for i, m := range changed {
		if m.Token != me {
			wg.Go(func() { _, errs[i] = s.signal(ctx, session, m.Seat, old.Number, false) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// signalSeats signals all seats that ever had a member. They are the first
// ones, since a member takes the first that is free, and creates its record.
func (s *Store) signalSeats(ctx context.Context, session *engine.Session) error {
	for seat := 0; ; seat++ {
		if found, err := s.signal(ctx, session, seat, 0, true); err != nil || !found {
			return err
		}
	}
}

// signal makes sure that the signal record of a seat has at least a number.
// always: it writes the record in any case, if there is one, and reports that.
func (s *Store) signal(
	ctx context.Context, session *engine.Session, seat int, number int64, always bool,
) (found bool, err error) {
	q, err := s.signals(seat)
	if err != nil {
		return false, err
	}
	for {
		r, err := session.Record(ctx, q, driver.Any)
		found, done := r.Version != 0, signalled(r) >= number
		if always {
			done = !found
		}
		if err != nil || done {
			return found, err
		}
		_, err = session.SetRecord(ctx, q, signalText(max(number, signalled(r))), r.Version)
		if err == nil || !recipes.Overtaken(ctx, err) {
			return found, err
		}
	}
}

// signalled returns the number in a signal record. A record of another program
// counts as 0.
func signalled(r driver.Record) int64 {
	n, err := strconv.ParseInt(string(r.Value), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func signalText(number int64) []byte { return strconv.AppendInt(nil, number, 10) }

// signals returns the queue with the signal record of a seat.
func (s *Store) signals(seat int) (driver.Queue, error) {
	return s.client.Queue("partition-signal", s.name+"/"+strconv.Itoa(seat))
}

// Listen calls changed after each change of the plan for which the seat was
// signalled, perhaps after others, and once at first. It returns when ctx ends
// or a request fails.
func (s *Store) Listen(
	ctx context.Context, session *engine.Session, seat int, changed func(),
) error {
	q, err := s.signals(seat)
	if err != nil {
		return err
	}
	seen := driver.Any
	for known := driver.Any; ; {
		r, err := session.Record(ctx, q, known)
		if err != nil {
			return err
		}
		if known = r.Version; known == 0 { // see signalSeats
			if v, err := session.SetRecord(ctx, q, signalText(0), 0); err == nil {
				known = v
			}
		}
		for version := driver.Any; ; {
			var now plan.Plan
			if now, version, err = s.Read(ctx, session, version); err != nil {
				return err
			}
			if version != seen { // also if an operator has deleted it
				seen = version
				changed()
			}
			if now.Number > signalled(r) {
				break
			}
		}
	}
}
