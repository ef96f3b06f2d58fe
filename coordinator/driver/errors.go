package driver

import (
	"errors"
	"fmt"
)

// The errors of the contract. Package coordinator gives users the same values.
var (
	// ErrUnavailable: the service did not answer, lacks a quorum or is
	// overloaded. The request may have been applied. Trying again makes sense.
	ErrUnavailable = errors.New("service unavailable")

	// ErrSessionLost: the session is over at the service and all it held is
	// gone.
	ErrSessionLost = errors.New("session lost")

	// ErrGone: the entry is not in the queue.
	ErrGone = errors.New("entry is gone")

	// ErrTaken: the queue is not empty, and the contender asked to be alone.
	ErrTaken = errors.New("taken")

	// ErrStale: the queue's record has another version than the caller knows.
	ErrStale = errors.New("stale version")

	// ErrRefused: the service answered and said no: no permission, no space,
	// bad credentials. Nothing was applied. Trying again does not help by
	// itself.
	ErrRefused = errors.New("refused by the service")

	// ErrInvalid: a value breaks a rule. Nothing was sent or applied.
	ErrInvalid = errors.New("invalid")
)

// Error is a sentinel of this package together with the service's own
// error. Both are found by errors.Is and errors.As.
type Error struct {
	Kind  error // one of the sentinels above
	Cause error // the service's error; may be nil
}

// Wrap returns cause as an error of the given kind.
func Wrap(kind, cause error) error { return &Error{Kind: kind, Cause: cause} }

func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Kind.Error()
	}
	return e.Kind.Error() + ": " + e.Cause.Error()
}

// Unwrap gives errors.Is and errors.As both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// OpError is what failed calls of Baton return: the operation, the name it was
// about, and why. Drivers return bare errors, which the engine puts into one.
type OpError struct {
	Op   string // "lock", "unlock", "session", …
	Name string // the recipe's name or the service
	Err  error  // one of Baton's errors, with the service's own error behind it

	// Maybe is true when the call may have changed the service nevertheless.
	// What it changed is undone (a join) or finished (a release) in the
	// background.
	Maybe bool
}

func (e *OpError) Error() string {
	s := fmt.Sprintf("baton: %s %q: %v", e.Op, e.Name, e.Err)
	if e.Maybe {
		s += " (may have been applied)"
	}
	return s
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }
