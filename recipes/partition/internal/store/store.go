// Package store keeps the plan of a partition at the service. The plan is the
// record of one queue. Nobody watches it but members that were signalled, so a
// change wakes only the members that it affects:
//
//	read the plan          then the members, which are at least as new
//	signal the members     whose part changes: write the number of the plan that
//	                       was read to the signal record of the member's seat,
//	                       unless it has a greater number
//	write the next plan    if the plan is unchanged; else begin again
//
// A signalled member follows the plan until its number is greater than that of
// the signal. So no change is missed if the writer dies after any step: before
// the write nothing has changed, and the member that watches the writer plans
// again. Numbers in signals rise, so a slow writer, whose write will fail, does
// not replace the signal of another.
//
// There is a signal record for each seat. They stay, but seats are taken again,
// so there are as many as there were ever members at a time.
package store

import (
	"context"
	"crypto/rand"
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
		now.Mark = plan.Mark{ID: old.ID, Number: old.Number + 1}
		if old.ID == "" {
			now.ID = rand.Text()
		}
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
	changed := now.Changed(old)
	if old.ID == "" { // there was none, or an operator has deleted it: seats may change
		changed, old.ID, me = now.Members, now.ID, 0
	}
	text, err := json.Marshal(old.Mark)
	if err != nil {
		return err
	}
	errs := make([]error, len(changed))
	var wg sync.WaitGroup
	for i, m := range changed {
		if m.Token != me {
			wg.Go(func() { errs[i] = s.signal(ctx, session, m.Seat, old.Mark, text) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// signal makes sure that the signal record of a seat covers a mark.
func (s *Store) signal(
	ctx context.Context, session *engine.Session, seat int, mark plan.Mark, text []byte,
) error {
	q, err := s.signals(seat)
	if err != nil {
		return err
	}
	for {
		r, err := session.Record(ctx, q, driver.Any)
		if err != nil || marked(r).Covers(mark) {
			return err
		}
		_, err = session.SetRecord(ctx, q, text, r.Version)
		if err == nil || !recipes.Overtaken(ctx, err) {
			return err
		}
	}
}

// marked returns the mark in a signal record. A record of another program
// counts as empty.
func marked(r driver.Record) (m plan.Mark) {
	if json.Unmarshal(r.Value, &m) != nil {
		return plan.Mark{}
	}
	return m
}

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
	var seen plan.Mark
	for known := driver.Any; ; {
		r, err := session.Record(ctx, q, known)
		if err != nil {
			return err
		}
		known = r.Version
		for signal, version := marked(r), driver.Any; ; {
			var now plan.Plan
			if now, version, err = s.Read(ctx, session, version); err != nil {
				return err
			}
			if now.Mark != seen {
				seen = now.Mark
				changed()
			}
			if now.ID != "" && !signal.Covers(now.Mark) {
				break
			}
		}
	}
}
