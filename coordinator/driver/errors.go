package driver

import (
	"errors"
	"fmt"
	"strings"
)

// The errors of the contract. Package coordinator exports the same values.
var (
	// ErrUnavailable: the service did not answer, lacks a quorum or is
	// overloaded. The request may have been applied. A retry may succeed.
	ErrUnavailable = errors.New("service unavailable")

	// ErrSessionLost: the session is over at the service, and its entries are
	// gone.
	ErrSessionLost = errors.New("session lost")

	// ErrGone: the entry is not in the queue.
	ErrGone = errors.New("entry is gone")

	// ErrTaken: the queue is not empty, and the contender set Alone.
	ErrTaken = errors.New("taken")

	// ErrStale: the queue's record has another version than the caller knows.
	ErrStale = errors.New("stale version")

	// ErrRefused: the service refused the request: permissions, space or
	// credentials. Nothing was applied. A retry alone does not help.
	ErrRefused = errors.New("refused by the service")

	// ErrClosed: the client library's client was closed, by its owner or with
	// the driver. No request is sent any more, and a retry does not help.
	ErrClosed = errors.New("client is closed")

	// ErrInvalid: a value breaks a rule. Nothing was sent or applied.
	ErrInvalid = errors.New("invalid")
)

// Error wraps a sentinel of this package and the service's own error.
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
	kind, cause := e.Kind.Error(), e.Cause.Error()
	if strings.HasPrefix(cause, kind) { // once is enough
		return cause
	}
	return kind + ": " + cause
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// OpError is the error of a failed call of a client or recipe. The engine makes
// it; drivers return bare errors.
type OpError struct {
	Op   string // "lock", "unlock", "session", …
	Name string // of the recipe or the service
	Err  error  // wraps one of Baton's errors and the service's own error

	// Maybe is true when the call may have changed the service. Baton finishes
	// a release in the background. It is false after a call that acquires: if
	// its request is applied, Baton undoes it.
	Maybe bool
}

func (e *OpError) Error() string {
	// the cause may be an error of Baton, too
	s := fmt.Sprintf("baton: %s %q: %s", e.Op, e.Name, strings.TrimPrefix(fmt.Sprint(e.Err), "baton: "))
	if e.Maybe {
		s += " (may have been applied)"
	}
	return s
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }
