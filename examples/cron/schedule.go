package main

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
	"github.com/baton-go/baton/mutex"
)

// errCrash ends a replica that is dead.
var errCrash = errors.New("crashed")

// record is what is known of a job: a row of a table, in a real service.
type record struct {
	records.Guard
	Begun, Done           time.Time // the last period that was begun, and done
	Periods, Begins, Ends int       // how often; for the summary
}

// schedule runs a job in each period.
type schedule struct {
	config
	store records.Store
}

// serve is the life of a replica, until ctx ends.
func (s schedule) serve(ctx context.Context, r *fleet.Replica) error {
	lock, err := mutex.New(r.Client, "cron/"+s.job)
	if err != nil {
		return err
	}
	for {
		switch err := s.once(ctx, r, lock); {
		case errors.Is(err, errCrash):
			return nil
		case ctx.Err() != nil:
			return err
		case fleet.Passing(err), errors.Is(err, fence.ErrStale):
			r.Say("goes on after: %v", err)
		case err != nil:
			return err
		}
		now := time.Now()
		if !fleet.Pause(ctx, now.Truncate(s.every).Add(s.every).Sub(now)) {
			return nil
		}
	}
}

// once sees to it that what is due is run, by this replica or by the ones ahead of it.
func (s schedule) once(ctx context.Context, r *fleet.Replica, m *mutex.Mutex) error {
	lock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	err = s.all(ctx, r, lock)
	if errors.Is(err, errCrash) {
		return err // the dead unlock nothing
	}
	return errors.Join(err, lock.Unlock(ctx))
}

// all runs the job until nothing is due, or the replica is told to stop: of a
// job that is longer than its period, there is always one more due.
func (s schedule) all(told context.Context, r *fleet.Replica, lock *mutex.Lock) error {
	ctx := lock.Context() // ends when the lock is lost
	seq, err := lock.Sequencer(ctx)
	if err != nil {
		return err
	}
	for told.Err() == nil {
		period, due, err := s.begin(seq)
		if err != nil || !due {
			return err
		}
		r.Say("runs %s of %s (token %d)", s.job, period.Format(time.TimeOnly), seq.Token)
		if err := s.run(ctx, r, period); err != nil {
			return err
		}
		if err := s.end(seq, period); err != nil {
			return err
		}
	}
	return nil
}

// begin says which period's run is due, and notes that it is begun. The clock
// is this replica's; the record never goes back.
func (s schedule) begin(seq fence.Sequencer) (period time.Time, due bool, err error) {
	now := time.Now().Truncate(s.every)
	err = records.Update(s.store, s.job, func(rec *record) error {
		if err := rec.Admit(seq); err != nil {
			return err
		}
		again := s.mode == atLeastOnce && rec.Begun.After(rec.Done) // begun by one that crashed
		period, due = now, again || now.After(rec.Begun)
		switch {
		case again:
			period = rec.Begun
		case due:
			rec.Begun = now
			rec.Periods++
		}
		if due {
			rec.Begins++
		}
		return nil
	})
	return period, due, err
}

// end notes that a period's run is done. The job's own effects belong here,
// too, if they are in the same database.
func (s schedule) end(seq fence.Sequencer, period time.Time) error {
	return records.Update(s.store, s.job, func(rec *record) error {
		if err := rec.Admit(seq); err != nil {
			return err
		}
		rec.Done = period
		rec.Ends++
		return nil
	})
}

// run is the job. It stops when the lock is lost, and not when the replica is
// told to stop: then it is the last thing that it does.
func (s schedule) run(ctx context.Context, r *fleet.Replica, period time.Time) error {
	if !fleet.Pause(ctx, s.work/2) {
		return context.Cause(ctx)
	}
	if rec, err := records.Read[record](s.store, s.job); err == nil && rec.Begins == s.crash && r.Crash() {
		r.Say("crashes")
		return errCrash
	}
	if !fleet.Pause(ctx, s.work/2) {
		return context.Cause(ctx)
	}
	r.Say("has run %s of %s", s.job, period.Format(time.TimeOnly))
	return nil
}
