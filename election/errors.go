package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

func (r *runner) log() *slog.Logger { return engine.Of(r.election.client).Log() }

// lost describes the loss of a term, nil excepted.
func (r *runner) lost(err error) error {
	return recipes.Describe(context.Background(), "run", r.election.Name(), err)
}

// join is errors.Join that leaves a single error as it is.
func join(errs ...error) error {
	var only error
	for _, err := range errs {
		switch {
		case err == nil:
		case only != nil:
			return errors.Join(errs...)
		default:
			only = err
		}
	}
	return only
}

// own is the error of work whose context had ended, unless it says no more than that.
func own(o outcome) error {
	if o.err == nil || echoes(o.err, o.cause, o.lost) {
		return nil
	}
	return o.err
}

// joined is the type of what errors.Join returns: an error without words of its own.
var joined = reflect.TypeOf(errors.Join(ErrStepDown))

// echoes reports whether all that err says is that a context ended, for one of
// the given causes: it is such an error itself, one that this module has put a
// name to, or joins nothing else. Whatever has words of its own may say what
// was left half done, and must not get lost.
func echoes(err error, causes ...error) bool {
	for _, e := range append(causes,
		context.Canceled, context.DeadlineExceeded, ErrStepDown,
		coordinator.ErrReleased, coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrClosed,
	) {
		if same(err, e) {
			return true
		}
	}
	if e, ok := err.(*coordinator.Error); ok && e != nil { //nolint:errorlint // the outermost is meant
		return echoes(e.Err, causes...)
	}
	if reflect.TypeOf(err) != joined {
		return false
	}
	parts := err.(interface{ Unwrap() []error }).Unwrap()
	return !slices.ContainsFunc(parts, func(part error) bool { return !echoes(part, causes...) })
}

// same reports whether two errors are one. errors.Is would also find it behind others.
func same(a, b error) bool {
	return a != nil && reflect.ValueOf(a).Comparable() && a == b //nolint:errorlint // identity is meant
}

// invalid is an ErrInvalid of this package.
func invalid(op, name, rule string) error {
	return &coordinator.Error{Op: op, Name: name, Err: fmt.Errorf("%w: %s",
		coordinator.ErrInvalid, rule)}
}
