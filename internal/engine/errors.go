package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// The errors of Baton; package coordinator says what each means.
var (
	ErrUnavailable = driver.ErrUnavailable
	ErrTaken       = driver.ErrTaken
	ErrStale       = driver.ErrStale
	ErrSessionLost = driver.ErrSessionLost
	ErrRefused     = driver.ErrRefused
	ErrInvalid     = driver.ErrInvalid
	ErrRemoved     = errors.New("entry was removed at the service")
	ErrClosed      = errors.New("client is closed")
	ErrNotHeld     = errors.New("not held")
	ErrReleased    = errors.New("released")
)

// Error is what failed calls return; coordinator.Error is the same type.
type Error = driver.OpError

// MayHaveApplied is coordinator.MayHaveApplied.
func MayHaveApplied(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Maybe
}

// maybe is err, of an operation on a queue, with the word that the operation
// may have been applied if it is uncertain. Otherwise err stays bare: whoever
// returns it to a user calls [Describe], which names what the user called.
func maybe(op string, queue driver.Queue, err error, uncertain bool) error {
	if err == nil || !uncertain {
		return err
	}
	return &Error{Op: op, Name: string(queue), Err: err, Maybe: true}
}

// Describe gives err the operation and the name that a user knows, in place of
// those of the steps behind it. It returns nil and the cause of ctx untouched.
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

// IsCause reports whether err is the cause of the end of ctx itself, and not an
// error that has it inside. That cause can be any error, one of the above too,
// and then says nothing about the service. IsCause does not call the Err of a
// ctx that has not ended, as context.Cause does: the context of a hold might
// ask the service, and wait.
func IsCause(ctx context.Context, err error) bool {
	select {
	case <-ctx.Done():
		return Same(err, context.Cause(ctx))
	default:
		return false
	}
}

// Same reports whether two errors are one. errors.Is would also find it behind
// others.
func Same(a, b error) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() &&
		reflect.ValueOf(b).Comparable() && a == b //nolint:errorlint // identity is meant
}

// Invalid returns an ErrInvalid that names the value and the rule.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("baton: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// unanswered reports whether a driver's error is the want of an answer: the
// request may have been applied, or may be later. Other errors are the
// service's answer, or a refusal to send the request.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		ErrTaken, ErrStale, ErrRefused, ErrInvalid, ErrSessionLost, driver.ErrGone,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// unavailable is the error of a request that had no answer when the context
// ended for cause. err is what the last attempt said.
func unavailable(err, cause error) error {
	if !errors.Is(err, ErrUnavailable) {
		err = ErrUnavailable
	}
	return &unavailableError{err, cause}
}

// unavailableError is a driver's ErrUnavailable and the cause for which the
// caller's context ended. It hides that the context which the driver was given
// had ended: that one is ours, and is cancelled when the caller's has timed
// out. A caller that asks errors.Is(err, context.Canceled) wants to know about
// its own.
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
