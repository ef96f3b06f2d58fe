package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// The errors of Baton; package engine says what each means.
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

// MayHaveApplied reports whether the call that returned err may have changed the
// service although it failed.
func MayHaveApplied(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Maybe
}

// Describe gives err the operation and the name that a recipe's user knows, in
// place of those of the step that failed, and of the steps behind that. The
// cause of ctx, if that is what err is, comes back untouched, and so does nil.
// It does so too if it ended a step that changes nothing: whoever waits looks
// at the queue now and then, and its caller cannot know when.
func Describe(ctx context.Context, op, name string, err error) error {
	var cause error
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	if err == nil || same(err, cause) {
		return err
	}
	return describe(op, name, err, cause) // which allocates
}

func describe(op, name string, err, cause error) error {
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Op: op, Name: name, Err: err}
	}
	said := &Error{Op: op, Name: name, Err: e.Err, Maybe: e.Maybe}
	for {
		if !said.Maybe && same(said.Err, cause) {
			return cause
		}
		inner, ok := said.Err.(*Error) //nolint:errorlint // a step, and not what is behind the cause of a context
		if !ok {
			return said
		}
		said.Err, said.Maybe = inner.Err, said.Maybe || inner.Maybe
	}
}

// IsCause reports whether err is the cause of the end of ctx itself, and not an
// error that has it inside. That cause can be any error, one of the above too,
// and then says nothing about the service. It does not ask a ctx that has not
// ended, as context.Cause does: the context of a hold might ask the service,
// and wait.
func IsCause(ctx context.Context, err error) bool {
	select {
	case <-ctx.Done():
		cause := context.Cause(ctx)
		return cause != nil && same(err, cause)
	default:
		return false
	}
}

// same reports whether two errors are one. errors.Is would also find it behind others.
func same(a, b error) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b //nolint:errorlint // identity is meant
}

// errGone is for the drivers' ears only: users get ErrNotHeld or ErrRemoved.
var errGone = driver.ErrGone

// invalid returns an ErrInvalid that names the value and the rule.
func invalid(format string, args ...any) error {
	return fmt.Errorf("baton: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// both is an error of two parts: what is true (errors.Is finds ErrUnavailable) and
// which context ended the call (errors.Is finds context.DeadlineExceeded).
type both struct{ kind, cause error }

func (b *both) Error() string {
	kind, cause := b.kind.Error(), b.cause.Error()
	if strings.Contains(kind, cause) {
		return kind
	}
	return kind + " (" + cause + ")"
}

func (b *both) Unwrap() []error { return []error{b.kind, b.cause} }
