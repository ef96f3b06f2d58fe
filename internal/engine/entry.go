package engine

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has what recipes need beyond queued: changing an entry,
// following the first of a queue, and the record of a queue.

// Converts reports whether an entry can be converted at all.
func (s *Session) Converts() bool { return s.can.Converter != nil }

// Convert gives the place of own to an entry with another mode and value, and returns the new
// place; see [driver.Session]. ErrRemoved means that own was not in the queue any more.
//
// After another error the conversion may have been applied, or may be later:
// the contender stands in either mode, until Convert is called again and
// succeeds, or Withdraw.
func (s *Session) Convert(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	place := own.Place
	if !s.Converts() {
		return place, wrap("convert", queue, invalid("the mode of an entry cannot be changed on this service"))
	}
	err := s.change(ctx, "convert", queue, func(ctx context.Context) error {
		p, err := s.can.Converter.Convert(ctx, queue, own, mode, value)
		if err == nil {
			place = p
		} else if !definite(err) {
			s.doubt(place.ID)
		}
		return err
	})
	return place, err
}

// change is a request that changes the service, with an error that says whether
// it may have done so.
//
// What the driver says is looked at where it says it, and not in the error that
// comes of it: the cause of ctx, which may be in there too, is any error.
func (s *Session) change(ctx context.Context, op string, queue driver.Queue, f func(context.Context) error) error {
	uncertain, gone := false, false
	err := s.request(ctx, op, queue, s.patience, func(ctx context.Context) error {
		err := f(ctx)
		gone = errors.Is(err, errGone)
		uncertain = uncertain || err != nil && !definite(err)
		return err
	})
	if err == nil {
		return nil
	}
	if gone && s.Ended() == nil {
		err = ErrRemoved
	}
	return &Error{Op: op, Name: string(queue), Err: err, Maybe: uncertain}
}

// Write changes the value of an entry of this session. ErrRemoved means that it
// was not in the queue any more. After another error the value may be the old or
// the new one, until the next Write succeeds.
func (s *Session) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	return s.change(ctx, "write", queue, func(ctx context.Context) error {
		err := s.can.Writer.Write(ctx, queue, own, value)
		if err != nil && !definite(err) {
			s.doubt(own.ID)
		}
		return err
	})
}

// Withdraw removes a contender of this session in whatever mode it stands,
// together with any request of it that is still under way. It is Leave for one
// whose last Convert has an unknown outcome, and what is said there of contexts
// and the background holds here.
func (s *Session) Withdraw(ctx context.Context, queue driver.Queue, id string) error {
	ctx, stop := Afterwards(ctx)
	defer stop()
	err := s.change(ctx, "leave", queue, func(ctx context.Context) error { return s.driver.Forget(ctx, queue, id) })
	if err != nil {
		s.Discard(queue, id)
		return err
	}
	s.unstray(id)
	return nil
}

// Discard is Withdraw in the background, until that is done or the session has ended.
func (s *Session) Discard(queue driver.Queue, id string) {
	s.unstray(id)
	s.forget(queue, id)
}

// Head returns the first entry of a queue once it is in another state than
// known, at once if that is driver.Any; see [driver.Session]. A ctx that ends
// while waiting comes back as context.Cause(ctx), untouched.
func (s *Session) Head(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
	var head driver.Head
	err := s.await(ctx, "observe", queue, known, func(ctx context.Context) error {
		var err error
		head, err = s.can.HeadWatcher.Head(ctx, queue, known)
		return err
	})
	return head, err
}

// Record returns the record of a queue once it is in another version than known,
// at once if that is driver.Any; see [driver.Session]. A ctx that ends while
// waiting comes back as context.Cause(ctx), untouched.
func (s *Session) Record(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
	var record driver.Record
	err := s.await(ctx, "read the record", queue, known, func(ctx context.Context) error {
		var err error
		record, err = s.driver.Record(ctx, queue, known)
		return err
	})
	return record, err
}

// await is a request if it is answered at once, and a wait if not.
func (s *Session) await(ctx context.Context, op string, queue driver.Queue, known driver.Version, f func(context.Context) error) error {
	if err := s.Ended(); err != nil {
		return wrap(op, queue, err)
	}
	if known == driver.Any {
		return wrap(op, queue, s.request(ctx, op, queue, s.patience, f))
	}
	return s.wait(ctx, op, queue, f)
}

// SetRecord writes the record of a queue if its version is known; zero says that
// there is none yet. ErrStale means that the version was another one. When an
// attempt had no answer, ErrStale may also come of its success, and the error
// is ErrUnavailable then: read the record to find out.
func (s *Session) SetRecord(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
	const op = "write the record"
	var version driver.Version
	stale, lost := false, false
	err := s.change(ctx, op, queue, func(ctx context.Context) error {
		v, err := s.driver.SetRecord(ctx, queue, value, known)
		if err == nil {
			version = v
		}
		stale, lost = errors.Is(err, ErrStale), errors.Is(err, ErrSessionLost)
		return err
	})
	if e, ok := errors.AsType[*Error](err); ok && lost {
		e.Maybe = true // what a lost session wrote last is gone if it was an entry; a record stays
	}
	if stale && MayHaveApplied(err) && s.Ended() == nil {
		err = driver.Wrap(ErrUnavailable, errors.New("an attempt had no answer, and the record has changed since"))
		return 0, &Error{Op: op, Name: string(queue), Err: err, Maybe: true}
	}
	return version, err
}
