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
// So a planner without competition needs no lock. One that was overtaken takes
// turns with the others: see turns.go. Otherwise n members that leave at the
// same time would each signal and write n times.
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
	"slices"
	"strconv"
	"sync"

	"github.com/baton-go/baton/coordinator"
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
	turns  *recipes.Queue // of planners, in the queue that has the plan
}

// New returns the store of a partition's name. It does no I/O.
func New(c *coordinator.Client, name string) (*Store, error) {
	s := &Store{client: engine.Of(c), name: name}
	var err error
	if s.plan, err = s.client.Queue("partition", name); err == nil {
		s.turns, err = recipes.NewQueue(c, "partition", name)
	}
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

// Change is what a planner wants.
type Change struct {
	// Me is the token of the caller, who needs no signal.
	Me int64
	// Wish shows the change to other planners while the caller waits.
	Wish plan.Wish
	// Done reports that a plan has the change, by another planner perhaps. nil:
	// only Next can tell.
	Done func(plan.Plan) bool
	// Next returns the plan that follows old and has the wishes of others, too.
	Next func(old plan.Plan, wishes []plan.Wish) (plan.Plan, error)
	// See is called with each plan that lacks the change while the caller waits
	// for its turn, so that it follows what others plan. nil: it need not.
	See func(plan.Plan)
}

func (c *Change) see(p plan.Plan) {
	if c.See != nil {
		c.See(p)
	}
}

func (c *Change) done(p plan.Plan) bool { return c.Done != nil && c.Done(p) }

// Replace makes a change, and returns the plan that is stored then. It writes
// nothing if the plan has the change. Without competition it plans at once. If
// another planner is faster, or is likely to plan too, it waits for its turn,
// or until another planner has made the change.
func (s *Store) Replace(
	ctx context.Context, session *engine.Session, c Change,
) (plan.Plan, error) {
	now, again, err := s.try(ctx, session, c, false)
	if !again {
		return now, err
	}
	return s.inTurn(ctx, session, c)
}

// try writes the plan that follows the one that it reads. again: another client
// was first, or there was no reply, or, out of turn, there is competition.
func (s *Store) try(
	ctx context.Context, session *engine.Session, c Change, inTurn bool,
) (now plan.Plan, again bool, err error) {
	old, version, err := s.Read(ctx, session, driver.Any)
	if err != nil || c.done(old) {
		return old, false, err
	}
	var wishes []plan.Wish
	if inTurn {
		if wishes, err = s.wishes(ctx); err != nil {
			return old, false, err
		}
	}
	now, err = c.Next(old, wishes)
	switch {
	case err != nil || now.Same(old):
		return old, false, err
	case !inTurn && now.Turnover(old) > 1: // each member that has come or gone has a planner
		return old, true, nil
	}
	now.Number = old.Number + 1
	text, err := json.Marshal(now)
	if err == nil {
		again, err = s.signalAll(ctx, session, c.Me, old, now, inTurn)
	}
	if err == nil && !again {
		_, err = session.SetRecord(ctx, s.plan, text, version)
	}
	return now, again || err != nil && recipes.Overtaken(ctx, err), err
}

// fewSignals is the most signals that a planner out of turn sends at once. With
// more of them it first sends one alone, to see whether others plan, too:
// otherwise n members that leave together would each send all of them.
const fewSignals = 2

// signalAll signals the other members whose part changes, except those that
// leave: they have ended their work by themselves. When it returns nil the
// members follow the plan beyond old, or are about to. rivals: another planner
// has signalled for the same plan; then, out of turn, some are not signalled.
func (s *Store) signalAll(
	ctx context.Context, session *engine.Session, me int64, old, now plan.Plan, inTurn bool,
) (rivals bool, err error) {
	if old.Number == 0 {
		return false, s.signalSeats(ctx, session)
	}
	changed := slices.DeleteFunc(now.Changed(old), func(m plan.Member) bool {
		return m.Token == me || m.Leaving
	})
	if !inTurn && len(changed) > fewSignals {
		_, sent, err := s.signal(ctx, session, changed[0].Seat, old.Number, false)
		if err != nil || !sent {
			return err == nil, err
		}
		changed = changed[1:]
	}
	errs := make([]error, len(changed))
	var wg sync.WaitGroup
	for i, m := range changed {
		wg.Go(func() { _, _, errs[i] = s.signal(ctx, session, m.Seat, old.Number, false) })
	}
	wg.Wait()
	return false, errors.Join(errs...)
}

// signalSeats signals all seats that ever had a member. They are the first
// ones, since a member takes the first that is free, and creates its record.
func (s *Store) signalSeats(ctx context.Context, session *engine.Session) error {
	for seat := 0; ; seat++ {
		if found, _, err := s.signal(ctx, session, seat, 0, true); err != nil || !found {
			return err
		}
	}
}

// signal makes sure that the signal record of a seat has at least a number.
// found: there is one. sent: it was written. always: it is written in any case,
// if there is one.
func (s *Store) signal(
	ctx context.Context, session *engine.Session, seat int, number int64, always bool,
) (found, sent bool, err error) {
	q, err := s.signals(seat)
	if err != nil {
		return false, false, err
	}
	for failures := 1; ; failures++ {
		r, err := session.Record(ctx, q, driver.Any)
		found, done := r.Version != 0, signalled(r) >= number
		if always {
			done = !found
		}
		if err != nil || done {
			return found, false, err
		}
		_, err = session.SetRecord(ctx, q, signalText(max(number, signalled(r))), r.Version)
		if err == nil || !recipes.Overtaken(ctx, err) {
			return found, err == nil, err
		}
		if err := recipes.PauseAgain(ctx, s.turns, failures); err != nil {
			return found, false, err
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

// signals returns the queue with the signal record of a seat. Its name is never
// too long: the prefix of the group's name, which New has checked, has room for
// nine digits.
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
			v, err := session.SetRecord(ctx, q, signalText(0), 0)
			switch {
			case err == nil:
				known = v
			case !errors.Is(err, coordinator.ErrStale):
				return err // the caller tries again: signalSeats must find the seat
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
