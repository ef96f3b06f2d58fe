package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// Stop makes Run return err when work returns it. Stop(nil) is nil.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

type stopError struct{ err error }

func (s *stopError) Error() string { return s.err.Error() }
func (s *stopError) Unwrap() error { return s.err }

// stopped reports whether err has been made by Stop, or wraps such an error,
// and returns it as Run does.
func stopped(err error) (error, bool) {
	if s, ok := err.(*stopError); ok { //nolint:errorlint // not behind others, which say more
		return s.err, true
	}
	var s *stopError
	return err, errors.As(err, &s)
}

func (r *runner) log() *slog.Logger { return engine.Of(r.election.client).Log() }

func (r *runner) failed(err error) error {
	return &coordinator.Error{Op: "run", Name: r.election.Name(), Err: err}
}

func (r *runner) lost(err error) error {
	return recipes.Describe(context.Background(), "run", r.election.Name(), err)
}

// join is errors.Join, but returns a single error as it is.
func join(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// own returns the error of work whose context had ended, or nil if the error
// only says that: it is the error or cause of a context, or such an error in a
// coordinator.Error, for instance from Proclaim. Any other error may say what
// the work left unfinished, so it must not get lost.
func own(o outcome) error {
	bare := o.err
	if named, ok := bare.(*coordinator.Error); ok && named != nil { //nolint:errorlint // not behind others
		bare = named.Err
	}
	for _, end := range []error{
		o.cause, o.lost, context.Canceled, context.DeadlineExceeded, ErrStepDown, coordinator.ErrReleased,
		coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrClosed,
	} {
		if engine.Same(bare, end) {
			return nil
		}
	}
	return o.err
}

func invalid(op, name, rule string) error {
	return &coordinator.Error{Op: op, Name: name, Err: fmt.Errorf("%w: %s",
		coordinator.ErrInvalid, rule)}
}
