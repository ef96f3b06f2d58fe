// Package event defines the events of a client: grants, failures, losses,
// changes of the session, clean-up in the background. Pass an [Observer] to a
// client with coordinator.WithObserver. Packages promobserve and otelobserve
// have observers for Prometheus and OpenTelemetry.
package event

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Observer receives events, for metrics, traces and tests. Each client calls it
// from one goroutine, in the order of the events, and Baton never waits for it:
// an Observe that blocks delays only the later events of this observer. Close
// waits until all events were delivered or its context ends.
//
// An observer that lags by some 16,000 events misses whole contenders, sessions
// and clean-ups, and then gets a [Dropped]. It still gets the end of each that
// it has seen begin. If Observe panics, the process crashes.
type Observer interface {
	Observe(Event)
}

// Direct is an Observer that only counts or stores in memory, like those of
// packages promobserve and memory. A client calls it synchronously, from many
// goroutines, with no lock held. So its figures are complete when a call of
// Baton returns, and it misses nothing. Its Observe must not block and must not
// call Baton: Lock, Unlock and Close wait for it.
type Direct interface {
	Observer
	Direct() // marks the type; Baton does not call it
}

// ObserverFunc adapts a function to an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// DirectFunc adapts a function to a Direct.
type DirectFunc func(Event)

// Observe calls f.
func (f DirectFunc) Observe(e Event) { f(e) }

// Direct implements Direct.
func (f DirectFunc) Direct() {}

// Kind is the kind of an Event.
type Kind int

// The kinds of events, and the fields that each sets besides Session. Each
// beginning has exactly one end: SessionOpened and SessionEnded, Joined and
// Granted or NotGranted, Granted and Released or Lost, Cleaning and CleanedUp.
// So a gauge that adds and subtracts does not drift. Events of different
// goroutines may arrive in another order than they happened.
const (
	// Duration: of the opening
	SessionOpened Kind = iota + 1
	// Duration: round trip; Margin: when the answer came; Life
	SessionRenewed
	// Err; Margin
	SessionSuspended
	SessionResumed
	// State: the one before; Err: the cause
	SessionEnded
	// Op, Queue, Err: an attempt failed and is repeated
	Retried
	// Queue, Token: a contender is queued
	Joined
	// Op, Queue, Token, Context; Duration: from call to grant; Waited,
	// HandOver; Local, and then without Joined
	Granted
	// Op, Queue, Token, Context
	Reentered
	// Queue, Token; Op: the new mode; Err if refused, which is final
	Converted
	// Op, Queue, Err, Context; Duration: from call to error; Token if it was
	// queued
	NotGranted
	// Queue, Err: a contender waits, and an entry of no session blocks its
	// queue; Err says how to remove it
	Stray
	// Queue, Token; Duration: held so far, longer than expected; once per grant
	HeldLong
	// Queue, Token; Duration: held so far; its context was ended for that
	HeldTooLong
	// Queue, Token, Err; Duration: of the hold; Long; Local: the entry stays
	Released
	// Queue, Token, Err; Duration: of the hold; Long
	Lost
	// Op, Queue: a clean-up in the background has begun
	Cleaning
	// Op, Queue, Err: an attempt of a clean-up failed and is repeated
	CleanupFailed
	// Op, Queue; Err: nil, or why the session ended, which removed the entry
	CleanedUp
	// Count: so many events were not delivered, as the observer was too slow;
	// no Session
	Dropped
	// Queue: a recipe for a name was created; no Session
	Created
	// Queue, Token: a turn is kept although nobody works under it, for the
	// first time; see recipes.WithRetain
	Kept
	// Queue, Token; Duration: since the turn was admitted; HandOver: since
	// another contender was seen, if it was; the end of a turn with a Kept
	GivenUp
	// Op, Queue, Token, Err; Duration: waited so far; contenders wait for each
	// other: Err is a recipes.DeadlockError
	Deadlocked
)

var kindNames = [...]string{
	SessionOpened: "session opened", SessionRenewed: "session renewed",
	SessionSuspended: "session suspended", SessionResumed: "session resumed",
	SessionEnded: "session ended", Retried: "retried", Joined: "joined", Granted: "granted",
	Reentered: "reentered", Converted: "converted", NotGranted: "not granted", Stray: "stray",
	HeldLong: "held long", HeldTooLong: "held too long", Released: "released", Lost: "lost",
	Cleaning: "cleaning", CleanupFailed: "clean-up failed", CleanedUp: "cleaned up",
	Dropped: "dropped", Created: "created", Kept: "kept", GivenUp: "given up",
	Deadlocked: "deadlocked",
}

func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Event is one event. Fields that its kind does not name are zero.
type Event struct {
	Kind     Kind
	Time     time.Time // when it happened
	Session  string    // the session's ID
	Op       string
	Queue    driver.Queue
	Token    driver.Token
	Duration time.Duration
	Err      error

	// Context is the caller's. Use its values only: its Err may block for the
	// service.
	Context context.Context

	State  State         // of the session
	Margin time.Duration // until the session's deadline
	Life   time.Duration // from sending a renewal to the deadline that it sets

	// Waited is true if the grant was contended. HandOver is then the time from
	// the last wake-up, for instance because a contender ahead left.
	Waited   bool
	HandOver time.Duration
	Long     bool // there was a HeldLong
	Local    bool // without the service: see recipes.WithRetain and WithSharedTurns
	Count    int  // of events
}
