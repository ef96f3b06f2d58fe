package engine

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// Converts reports whether the service can convert entries.
func (s *Session) Converts() bool { return s.can.Converter != nil }

// Convert replaces own by an entry with another mode and value in its place,
// and returns the new place; see [driver.Converter]. The error is ErrRemoved if
// own has left the queue.
//
// After another error the conversion may have been applied, or may be applied
// later, until another Convert or a Forget succeeds.
func (s *Session) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	place := own.Place
	if !s.Converts() {
		return place, Invalid("the mode of an entry cannot be changed on this service")
	}
	err := s.change(ctx, "convert", queue, true, func(ctx context.Context) error {
		p, err := s.can.Converter.Convert(ctx, queue, own, mode, value)
		if err == nil {
			place = p
		} else if unanswered(err) {
			s.doubt(place.ID)
		}
		return err
	})
	return place, err
}

// Write changes the value of an entry of this session. After an error other
// than ErrRemoved the entry may have either value, until the next Write
// succeeds.
func (s *Session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	return s.change(ctx, "write", queue, true, func(ctx context.Context) error {
		err := s.can.Writer.Write(ctx, queue, own, value)
		if unanswered(err) {
			s.doubt(own.ID)
		}
		return err
	})
}

// SetRecord writes the record of a queue if its version is known, 0 if there is
// none. The error is ErrStale if the version was another. If an attempt had no
// answer, its own success may cause ErrStale; the error is ErrUnavailable then,
// and the caller has to read the record.
func (s *Session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	const op = "write the record"
	var version driver.Version
	stale := false
	err := s.change(ctx, op, queue, false, func(ctx context.Context) error {
		v, err := s.driver.SetRecord(ctx, queue, value, known)
		if err == nil {
			version = v
		}
		stale = errors.Is(err, ErrStale)
		return err
	})
	if stale && MayHaveApplied(err) && s.Ended() == nil {
		changed := errors.New("an attempt had no answer, and the record has changed since")
		err = maybe(op, queue, driver.Wrap(ErrUnavailable, changed), true)
	}
	return version, err
}
