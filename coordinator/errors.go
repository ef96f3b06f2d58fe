package coordinator

import (
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// The errors of Baton. All are found by errors.Is in what a call returns, next
// to the service's own error, which errors.As finds.
var (
	// ErrUnavailable: the service did not answer before the context ended.
	// Nothing is known to be held. What a call had begun is undone in the
	// background as soon as the service answers. Try again later.
	ErrUnavailable = engine.ErrUnavailable

	// ErrTaken: somebody else holds the name or waits for it, and the call was
	// not to wait. Nothing was left in the queue.
	ErrTaken = engine.ErrTaken

	// ErrStale: the record of a queue has another version than the caller
	// knows. For authors of recipes.
	ErrStale = engine.ErrStale

	// ErrSessionLost: the session is over, and everything held or waited for
	// through it is gone. Stop the work that the hold covered, then start anew:
	// the client opens a new session for the next call.
	ErrSessionLost = engine.ErrSessionLost

	// ErrRemoved: somebody deleted this one entry at the service, an operator
	// for instance. The session lives on, as far as is known: when the service
	// ends a session it removes all entries, and a hold may hear of its own
	// first. Treat it like ErrSessionLost.
	ErrRemoved = engine.ErrRemoved

	// ErrRefused: the service answered and said no: permission, credentials,
	// space. Nothing was applied.
	ErrRefused = engine.ErrRefused

	// ErrInvalid: an argument breaks a rule, which the message names. Nothing
	// was applied; who was queued already, when the rule changed, has been
	// withdrawn.
	ErrInvalid = engine.ErrInvalid

	// ErrClosed: the client was closed. All it held was given back.
	ErrClosed = engine.ErrClosed

	// ErrNotHeld: this handle holds nothing (any more), so there is nothing to
	// release. Nothing was deleted.
	ErrNotHeld = engine.ErrNotHeld

	// ErrReleased is the cause of a hold's context after its own release.
	ErrReleased = engine.ErrReleased
)

// Error is what failed calls return: the operation, the name it was about, and
// why. See [driver.OpError] for its fields.
type Error = driver.OpError

// MayHaveApplied reports whether the call that returned err may have changed
// the service although it failed.
func MayHaveApplied(err error) bool { return engine.MayHaveApplied(err) }
