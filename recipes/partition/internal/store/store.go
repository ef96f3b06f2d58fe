// Package store keeps the plan of a partition at the service. The plan is the
// record of one queue. Nobody watches it but members that were signalled, so a
// change wakes only the members that it affects:
//
//	read the plan          then the members, which are at least as new
//	signal the members     whose part changes: write the ID of the plan that
//	                       was read to the signal record of the member's seat
//	write the next plan    if the plan is unchanged; else begin again
//
// A signalled member waits until the plan has another ID, and then follows it.
// So no change is missed if the writer dies after any step: before the write
// nothing has changed, and the member that watches the writer plans again.
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
		now.ID = rand.Text()
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
// they wait for another plan than old, or are about to.
func (s *Store) signalAll(
	ctx context.Context, session *engine.Session, me int64, old, now plan.Plan,
) error {
	changed := now.Changed(old)
	if old.ID == "" { // there was none, or an operator has deleted it: seats may change
		changed, old.ID, me = now.Members, "none "+rand.Text(), 0
	}
	errs := make([]error, len(changed))
	var wg sync.WaitGroup
	for i, m := range changed {
		if m.Token != me {
			wg.Go(func() { errs[i] = s.signal(ctx, session, m.Seat, old.ID) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// signal makes sure that the signal record of a seat has the ID of a plan.
func (s *Store) signal(ctx context.Context, session *engine.Session, seat int, id string) error {
	q, err := s.signals(seat)
	if err != nil {
		return err
	}
	for {
		r, err := session.Record(ctx, q, driver.Any)
		if err != nil || string(r.Value) == id {
			return err
		}
		_, err = session.SetRecord(ctx, q, []byte(id), r.Version)
		if err == nil || !recipes.Overtaken(ctx, err) {
			return err
		}
	}
}

// signals returns the queue with the signal record of a seat.
func (s *Store) signals(seat int) (driver.Queue, error) {
	return s.client.Queue("partition-signal", s.name+"/"+strconv.Itoa(seat))
}

// Listen calls changed after each change of the plan for which the seat was
// signalled, and once at first. It returns when ctx ends or a request fails.
func (s *Store) Listen(
	ctx context.Context, session *engine.Session, seat int, changed func(),
) error {
	q, err := s.signals(seat)
	for known := driver.Any; err == nil; {
		var signal driver.Record
		if signal, err = session.Record(ctx, q, known); err != nil {
			break
		}
		known = signal.Version
		now, version := plan.Plan{ID: string(signal.Value)}, driver.Any
		for err == nil && now.ID == string(signal.Value) {
			now, version, err = s.Read(ctx, session, version)
		}
		if err == nil {
			changed()
		}
	}
	return err
}
