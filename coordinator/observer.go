package coordinator

import (
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

// The kinds of events, and which fields of the Event they fill besides Session.
const (
	EventSessionOpened    EventKind = iota + 1 // Duration: how long the opening took
	EventSessionRenewed                        // Duration: round trip; Margin: what was left
	EventSessionSuspended                      // Err; Margin: what is left
	EventSessionResumed                        //
	EventSessionEnded                          // Err: the cause
	EventRetried                               // Op, Line, Err: an attempt failed and is repeated
	EventJoined                                // Line, Token: stands in the line
	EventGranted                               // Line, Token; Duration: from call to grant
	EventReentered                             // Line, Token
	EventConverted                             // Line, Token; Op: the new mode; Err if refused, and not tried again
	EventNotGranted                            // Line, Err; Duration: from call to error
	EventReleased                              // Line, Token, Err; Duration: how long it was held
	EventLost                                  // Line, Token, Err; Duration: how long it was held
	EventCleanedUp                             // Op, Line, Err: a background clean-up ended
)

// Event is something that happened. Fields that a kind does not name are zero.
type Event struct {
	Kind     EventKind
	Session  string // the session's ID
	Op       string
	Line     driver.Line
	Token    Token
	Duration time.Duration
	Margin   time.Duration // until the session's deadline
	Err      error
}

// Token is the fencing token of a grant: see [driver.Token].
type Token = driver.Token

// ParseToken reads what Token.String wrote. Anything but a positive number in its shortest form is ErrInvalid.
func ParseToken(s string) (Token, error) { return driver.ParseToken(s) }
