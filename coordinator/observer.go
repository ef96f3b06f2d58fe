package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Observer is told what happens, for metrics, traces and tests. It is called
// synchronously and from many goroutines, never with a lock held; it must return quickly and
// must not call Baton.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// EventKind says what an Event is about.
type EventKind int

// The kinds of events, and which fields of the Event they fill besides Session. What begins ends in exactly one event:
// a session that was opened ends; what was joined is granted or not; what was granted is released or lost, in that order; a clean-up that began
// ends. So whoever adds and subtracts has a gauge that does not drift. Events of different goroutines may come in another order than they happened.
const (
	EventSessionOpened    EventKind = iota + 1 // Duration: how long the opening took
	EventSessionRenewed                        // Duration: round trip; Margin: what was left when the answer came; Life
	EventSessionSuspended                      // Err; Margin: what is left
	EventSessionResumed                        //
	EventSessionEnded                          // State: what it was before; Err: the cause
	EventRetried                               // Op, Line, Err: an attempt failed and is repeated
	EventJoined                                // Line, Token: stands in the line
	EventGranted                               // Op, Line, Token, Context; Duration: from call to grant; Waited, HandOver
	EventReentered                             // Op, Line, Token, Context
	EventConverted                             // Line, Token; Op: the new mode; Err if refused, and not tried again
	EventNotGranted                            // Op, Line, Err, Context; Duration: from call to error; Token if it stood in the line
	EventHeldLong                              // Line, Token; Duration: how long it has been held, longer than expected. Once for a grant
	EventHeldTooLong                           // Line, Token; Duration; its context was ended for that, though it is held
	EventReleased                              // Line, Token, Err; Duration: how long it was held; Long
	EventLost                                  // Line, Token, Err; Duration: how long it was held; Long
	EventCleaning                              // Op, Line: a clean-up in the background has begun
	EventCleanupFailed                         // Op, Line, Err: an attempt of it failed and is repeated
	EventCleanedUp                             // Op, Line; Err: nil, or why the session ended, and with it what was to be cleaned up
)

var eventNames = [...]string{
	EventSessionOpened: "session opened", EventSessionRenewed: "session renewed", EventSessionSuspended: "session suspended",
	EventSessionResumed: "session resumed", EventSessionEnded: "session ended", EventRetried: "retried", EventJoined: "joined",
	EventGranted: "granted", EventReentered: "reentered", EventConverted: "converted", EventNotGranted: "not granted",
	EventHeldLong: "held long", EventHeldTooLong: "held too long", EventReleased: "released", EventLost: "lost",
	EventCleaning: "cleaning", EventCleanupFailed: "clean-up failed", EventCleanedUp: "cleaned up",
}

func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", int(k))
}

// Event is something that happened. Fields that a kind does not name are zero.
type Event struct {
	Kind     EventKind
	Session  string // the session's ID
	Op       string
	Line     driver.Line
	Token    Token
	Duration time.Duration
	Err      error

	// Context is the caller's, for its values. Its Err may ask the service; do not call it.
	Context context.Context

	State  State         // of the session
	Margin time.Duration // until the session's deadline
	Life   time.Duration // from the sending of a renewal to the deadline that it makes

	// Waited: the grant was not there at once. HandOver is then the time from hearing that somebody ahead has left, or that
	// the terms have changed, to the grant.
	Waited   bool
	HandOver time.Duration
	Long     bool // there was an EventHeldLong
}

// Token is the fencing token of a grant: see [driver.Token].
type Token = driver.Token

// ParseToken reads what Token.String wrote. Anything but a positive number in its shortest form is ErrInvalid.
func ParseToken(s string) (Token, error) { return driver.ParseToken(s) }
