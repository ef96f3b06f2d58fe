package recipes

import (
	"cmp"
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// ensureRecord reads the queue's record, or writes the initial one.
func (q *Queue) ensureRecord(ctx context.Context, session *engine.Session, terms *Terms) (driver.Record, error) {
	for {
		r, err := session.Record(ctx, q.id, driver.Any)
		if err != nil || r.Version != 0 {
			return r, err
		}
		if len(terms.Initial) == 0 {
			return r, cmp.Or(terms.None, ErrNoRecord)
		}
		v, err := session.SetRecord(ctx, q.id, terms.Initial, 0)
		switch {
		case err == nil:
			return driver.Record{Value: terms.Initial, Version: v}, nil
		case !Overtaken(ctx, err):
			return r, causeIfStale(ctx, err)
		}
	}
}

// Overtaken reports whether to read the record and write again after a failed
// write: another client has written it, or the reply of this write was lost.
func Overtaken(ctx context.Context, err error) bool {
	return ctx.Err() == nil &&
		(errors.Is(err, coordinator.ErrStale) || coordinator.MayHaveApplied(err))
}

// causeIfStale returns err, or the cause of ctx if ctx has ended and err is
// ErrStale: nothing was done, and there is no time for another read.
func causeIfStale(ctx context.Context, err error) error {
	stale := errors.Is(err, coordinator.ErrStale) && !errors.Is(err, coordinator.ErrUnavailable)
	if stale && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
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
	return causeIfStale(ctx, err)
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
	return r, causeIfStale(ctx, err)
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
