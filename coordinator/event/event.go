// Package event has what an observer of a client is told: grants, waits,
// losses, the session's life and clean-up in the background. Give an [Observer]
// to a client by coordinator.WithObserver, for metrics, traces and tests.
// Package observe and its parts have observers for Prometheus and
// OpenTelemetry.
package event

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Observer is told what happens, for metrics, traces and tests. It is called
// synchronously and from many goroutines, never with a lock held; it must
// return quickly and must not call Baton.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// Kind says what an Event is about.
type Kind int

// The kinds of events, and which fields of the Event they fill besides Session.
// What begins ends in exactly one event: a session that was opened ends; what
// was joined is granted or not; what was granted is released or lost, in that
// order; a clean-up that began ends. So whoever adds and subtracts has a gauge
// that does not drift. Events of different goroutines may come in another order
// than they happened.
const (
	// Duration: how long the opening took
	SessionOpened Kind = iota + 1
	// Duration: round trip; Margin: what was left when the answer came; Life
	SessionRenewed
	// Err; Margin: what is left
	SessionSuspended
	SessionResumed
	// State: what it was before; Err: the cause
	SessionEnded
	// Op, Queue, Err: an attempt failed and is repeated
	Retried
	// Queue, Token: stands in the queue
	Joined
	// Op, Queue, Token, Context; Duration: from call to grant; Waited, HandOver
	Granted
	// Op, Queue, Token, Context
	Reentered
	// Queue, Token; Op: the new mode; Err if refused, and not tried again
	Converted
	// Op, Queue, Err, Context; Duration: from call to error; Token if it stood
	// in the queue
	NotGranted
	// Queue, Err: a contender waits, and the queue has an entry that stays
	// until somebody deletes it; Err names it and says how
	Stray
	// Queue, Token; Duration: how long it has been held, longer than expected.
	// Once for a grant
	HeldLong
	// Queue, Token; Duration; its context was ended for that, though it is held
	HeldTooLong
	// Queue, Token, Err; Duration: how long it was held; Long
	Released
	// Queue, Token, Err; Duration: how long it was held; Long
	Lost
	// Op, Queue: a clean-up in the background has begun
	Cleaning
	// Op, Queue, Err: an attempt of it failed and is repeated
	CleanupFailed
	// Op, Queue; Err: nil, or why the session ended, and with it what was to be
	// cleaned up
	CleanedUp
)

var kindNames = [...]string{
	SessionOpened: "session opened", SessionRenewed: "session renewed",
	SessionSuspended: "session suspended", SessionResumed: "session resumed",
	SessionEnded: "session ended", Retried: "retried", Joined: "joined", Granted: "granted",
	Reentered: "reentered", Converted: "converted", NotGranted: "not granted", Stray: "stray",
	HeldLong: "held long", HeldTooLong: "held too long", Released: "released", Lost: "lost",
	Cleaning: "cleaning", CleanupFailed: "clean-up failed", CleanedUp: "cleaned up",
}

func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Event is something that happened. Fields that a kind does not name are zero.
type Event struct {
	Kind     Kind
	Session  string // the session's ID
	Op       string
	Queue    driver.Queue
	Token    driver.Token
	Duration time.Duration
	Err      error

	// Context is the caller's, for its values. Its Err may ask the service; do
	// not call it.
	Context context.Context

	State  State         // of the session
	Margin time.Duration // until the session's deadline
	Life   time.Duration // from the sending of a renewal to the deadline that it makes

	// Waited: the grant was not there at once. HandOver is then the time from
	// hearing that somebody ahead has left, or that the terms have changed, to
	// the grant.
	Waited   bool
	HandOver time.Duration
	Long     bool // there was an HeldLong
}
