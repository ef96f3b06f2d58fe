package coordinator

import (
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// A returned error wraps one of these, and the service's error if there is one.
// These wrap none: the cause of ctx, the errors of package fence, and those
// that a recipe declares, such as election.ErrNoLeader. If a recipe's error
// does wrap one, its comment says so.
var (
	// ErrUnavailable: the service did not answer before the context ended. A
	// call that acquires has acquired nothing, and Baton cleans up in the
	// background. Any other call may have taken effect: see MayHaveApplied.
	ErrUnavailable = engine.ErrUnavailable

	// ErrTaken: a call such as TryLock would have had to wait: for a holder, a
	// waiter or a lock-delay. It left nothing in the queue.
	ErrTaken = engine.ErrTaken

	// ErrSessionLost: the session is over, and with it all holds and queued
	// calls. Stop the work that the hold covered. Then call again; with
	// etcd.FromSession make a new client.
	ErrSessionLost = engine.ErrSessionLost

	// ErrRemoved: an operator removed the entry. If an operator ended the
	// session, the error is usually ErrSessionLost, sometimes ErrRemoved.
	ErrRemoved = engine.ErrRemoved

	// ErrClosed: the client was closed, which released its holds; or Baton was
	// given a client of the service, and its owner has closed that.
	ErrClosed = engine.ErrClosed

	ErrRefused  = engine.ErrRefused  // the service refused: permissions, credentials, space
	ErrInvalid  = engine.ErrInvalid  // an argument breaks the rule that the message names
	ErrNotHeld  = engine.ErrNotHeld  // there is nothing to release; nothing was deleted
	ErrReleased = engine.ErrReleased // the cause of a hold's context after its release
	ErrStale    = engine.ErrStale    // for authors of recipes: the record was changed
)

// Error has the operation, name and cause of a failed call.
type Error = driver.OpError

// MayHaveApplied reports whether a call that returned err may still have
// changed data at the service.
func MayHaveApplied(err error) bool { return engine.MayHaveApplied(err) }
