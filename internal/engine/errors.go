package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// The errors of Baton. Package coordinator documents them.
var (
	ErrUnavailable = driver.ErrUnavailable
	ErrTaken       = driver.ErrTaken
	ErrStale       = driver.ErrStale
	ErrSessionLost = driver.ErrSessionLost
	ErrRefused     = driver.ErrRefused
	ErrInvalid     = driver.ErrInvalid
	ErrRemoved     = errors.New("entry was removed at the service")
	ErrClosed      = driver.ErrClosed
	ErrNotHeld     = errors.New("not held")
	ErrReleased    = errors.New("released")
	ErrDeadlock    = errors.New("deadlock")
)

// Error is what failed calls return; coordinator.Error is the same type.
type Error = driver.OpError

// MayHaveApplied is coordinator.MayHaveApplied.
func MayHaveApplied(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Maybe
}

// maybe returns err, wrapped in an Error with Maybe if the outcome is
// uncertain. Otherwise err stays bare, and the caller adds the user's operation
// with [Describe].
func maybe(op string, queue driver.Queue, err error, uncertain bool) error {
	if err == nil || !uncertain {
		return err
	}
	return &Error{Op: op, Name: string(queue), Err: err, Maybe: true}
}

// Describe gives err the operation and the name that the user knows, in place
// of those of the failed step. It returns nil and the cause of ctx unchanged.
func Describe(ctx context.Context, op, name string, err error) error {
	if err == nil || ctx.Err() != nil && Same(err, context.Cause(ctx)) {
		return err
	}
	said := &Error{Op: op, Name: name, Err: err}
	for {
		step, ok := said.Err.(*Error) //nolint:errorlint // a step, not what a context's cause wraps
		if !ok {
			return said
		}
		said.Err, said.Maybe = step.Err, said.Maybe || step.Maybe
		if step.Op == "session" && op != step.Op { // the service matters too
			said.Err = fmt.Errorf("%s: %w", step.Name, step.Err)
		}
	}
}

// IsCause reports whether err is itself the cause of the end of ctx, or that of
// a WaitError, and does not only wrap it. That cause can be any error, also one
// of the above, and then it does not come from the service. IsCause does not
// call the Err of a live ctx, as context.Cause does: the context of a hold
// might ask the service, and wait.
func IsCause(ctx context.Context, err error) bool {
	select {
	case <-ctx.Done():
		return Same(bareWait(err), context.Cause(ctx))
	default:
		return false
	}
}

// Same reports whether two errors are identical, without unwrapping.
func Same(a, b error) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() &&
		reflect.ValueOf(b).Comparable() && a == b //nolint:errorlint // identity is meant
}

// Invalid returns an ErrInvalid that names the value and the rule.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("baton: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// unanswered reports whether a driver's error means that there was no answer:
// the request may have been applied, or may be applied later. Other errors are
// the service's answer, or the request was not sent.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		ErrTaken, ErrStale, ErrRefused, ErrInvalid, ErrSessionLost, ErrClosed, driver.ErrGone,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// unavailable is the error of a request without an answer when the context
// ended with cause. err is the error of the last attempt.
func unavailable(err, cause error) error {
	if !errors.Is(err, ErrUnavailable) {
		err = unansweredError{}
	}
	return &unavailableError{err, cause}
}

// unansweredError is an ErrUnavailable that does not blame the service: the
// context may have been too short for one round trip.
type unansweredError struct{}

func (unansweredError) Error() string { return "no answer in time" }

func (unansweredError) Unwrap() error { return ErrUnavailable }

// unavailableError is a driver's ErrUnavailable, with the cause of the caller's
// context. It hides the error of the driver's context, which is ours and is
// cancelled when the caller's times out: errors.Is(err, context.Canceled) must
// report on the caller's context.
type unavailableError struct{ err, cause error }

func (e *unavailableError) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.err, target)
}

func (e *unavailableError) As(target any) bool { return errors.As(e.err, target) }

func (e *unavailableError) Unwrap() error { return e.cause }

func (e *unavailableError) Error() string {
	text, cause := e.err.Error(), e.cause.Error()
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		text = strings.ReplaceAll(text, ": "+ended.Error(), "")
	}
	if strings.Contains(text, cause) {
		return text
	}
	return text + " (" + cause + ")"
}
