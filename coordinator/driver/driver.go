// Package driver defines what Baton needs from a coordination service.
//
// Users of Baton never call it: they hold a [coordinator.Client]. Authors of a
// driver implement [Driver] and [Session] and prove them with the conformance
// suite in coordinator/coordinatortest.
//
// # The contract
//
// A driver only translates. Renewal, the loss clock, retries and clean-up
// belong to Baton's engine, so a driver keeps no timers of its own and never
// repeats a request that may have been applied, except where a clause asks for
// it.
//
// The doc comments below state the contract in numbered clauses. The suite
// names each case after the clause that it checks. General clauses:
//
// G1: Every method may be called by many goroutines at once.
//
// G2: Every call ends soon after its context does, whatever the service does. A
// request in flight may still be applied afterwards.
//
// G3: Every error says, by [errors.Is], which of the sentinels of this package
// it is, and carries the service's own error as a cause; or, when the call's
// context has ended, it may be the context's error.
//
// [coordinator.Client]: https://pkg.go.dev/github.com/baton-go/baton/coordinator#Client
package driver

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Token is a fencing token: the service's own number for one grant. Tokens of
// one queue rise strictly in the order in which contenders joined it, for as
// long as the service keeps its data. It is etcd's create revision and
// ZooKeeper's czxid. Tokens are compared as numbers, and are a BIGINT to
// databases.
type Token int64

// String writes the token in decimal digits, for people, headers and the like.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// ParseToken reads what String wrote. Anything but a positive number in its
// shortest form is ErrInvalid.
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if t := Token(n); err == nil && t > 0 && t.String() == s {
		return t, nil
	}
	return 0, fmt.Errorf("%w: token %.20q; want a positive decimal number of 64 bits",
		ErrInvalid, s)
}

// Queue is the opaque name of one queue: "kind/name", each part of it made of
// unreserved URL characters and percent escapes, never empty, "." or "..".
// Queues are told apart by the whole string only; "m/a" and "m/a%2Fb" have
// nothing in common.
type Queue string

// Contender is one attempt to stand in a queue.
type Contender struct {
	// ID tells this contender from all others of the queue: 16 to 32 lower-case
	// hex digits, chosen at random by the engine, which does not use it again,
	// unless the session asks for that by ReuseIDs.
	ID string
	// Mode is the recipe's mark, 1 to 16 characters of a-z and 0-9 ("x", "r",
	// "p3"). Every view shows it.
	Mode string
	// Value is shown by List. It is at most 64 KiB, and is not changed any
	// more.
	Value []byte
	// Alone asks to join only if the queue is empty (J6).
	Alone bool
	// Follows asks for Nearest (J8), and lets whoever comes next have it. All
	// contenders of a queue that has followers set it.
	Follows bool
	// Again says that an earlier Join with this ID may have been applied (J2).
	Again bool
	// Record asks to join only if the queue's record has this version (J7),
	// unless it is zero.
	Record Version
}

// Version tells one state of a value from all others of that value. Only
// equality means something. Zero is that of a value that is not there.
type Version int64

// Any stands for knowing nothing, in place of the version that a caller knows.
const Any Version = -1

// Place is a contender's place in a queue, as one view of the queue shows it.
type Place struct {
	// Key is the driver's own handle of the entry. It is never used for another
	// entry.
	Key string
	// ID and Mode are the contender's; Session is the ID of the session it
	// belongs to. An entry that was not written by Baton has an empty ID.
	ID, Mode, Session string
}

// Joined is the outcome of a Join.
type Joined struct {
	Place Place
	Token Token
	// First is true when the service showed, at or after the moment of joining,
	// that nobody is ahead. False says nothing.
	First bool
	// Nearest is who stood directly ahead, if the service could say so (J8).
	Nearest Place
}

// View is what a contender sees of its queue.
type View struct {
	// Ahead are the places ahead of its own, first in the queue first.
	Ahead []Place
	// Last is true when the view shows nobody behind.
	Last bool
}

// Entry is a place together with what List reads of it.
type Entry struct {
	Place
	Token Token
	Value []byte
	// Stray, unless empty, says that no session owns the entry, and how to
	// remove it, for people.
	Stray string
}

// Head is the first entry of a queue in one of its states. That of an empty
// queue is zero.
type Head struct {
	Entry
	Version Version
}

// Record is a value that belongs to a queue itself. It outlives contenders and
// sessions. A queue that has none shows a zero one.
type Record struct {
	Value   []byte
	Version Version
}

// Driver is one coordination service as one client sees it: its addresses,
// credentials and namespace. It is made without I/O.
type Driver interface {
	// Open starts a session.
	//
	// O1: The session lives at the service for at least ttl after any moment at
	// which Open or an acknowledged Renew was called, less Slack, and it ends
	// soon after the ttl when it is not renewed.
	//
	// O2: When the service does not grant exactly ttl, Open returns ErrInvalid
	// with both values, and leaves no session behind.
	//
	// O3: Each Open makes a new session with an ID that was never used before.
	// A driver on a connection that it was given may instead adopt that
	// connection's session, and returns ErrSessionLost from then on if it can
	// get no other.
	//
	// O4: A failed Open leaves nothing that outlives the ttl.
	Open(ctx context.Context, ttl time.Duration) (Session, error)

	// Close gives back connections that the driver made itself. Sessions have
	// been closed before. It ends by ctx.
	Close(ctx context.Context) error

	// String names the service for logs and errors, without secrets:
	// "etcd://10.0.0.1:2379/prefix".
	String() string
}

// Session is a client's liveness as the service judges it, and the queues as
// that client sees them. These methods are the core, which every driver has.
// What a driver can do besides is in its [Capabilities].
type Session interface {
	// Capabilities returns the optional operations. It does no I/O, and always
	// returns the same.
	Capabilities() Capabilities

	// ID is the service's name of this session, in hex.
	ID() string

	// TTL is the time to live that the service granted.
	TTL() time.Duration

	// Slack is how much sooner than its TTL after the sending of an
	// acknowledged renewal the service might end the session, for reasons of
	// its own design (a touch that is reported late, say). Zero where there is
	// none.
	Slack() time.Duration

	// Renew asks the service to keep the session.
	//
	// R1: nil means that the service had the session at some moment after the
	// call began, and keeps it as O1 says.
	//
	// R2: ErrSessionLost means that the session is over at the service. Once
	// over it is over for ever: no call on it succeeds again, Close apart.
	Renew(ctx context.Context) error

	// Done is closed soon after the service says that the session is over. It
	// need not be closed while the service cannot be reached.
	Done() <-chan struct{}

	// Join puts a contender at the end of the queue, as an entry that the
	// service removes when the session ends.
	//
	// J1: The order of a queue is the order in which the service applied the
	// joins, and tokens rise strictly in that order, over sessions, clients and
	// restarts.
	//
	// J2: Join with an ID that stands in the queue already (Again is set)
	// returns that entry with its token. One ID never has two entries.
	//
	// J3: Of the contenders in a queue, exactly the first may see First.
	//
	// J4: When Join fails with any error but ErrTaken and ErrStale, the entry
	// may or may not be there, now or later. The engine then calls Join again
	// with Again set, or Forget.
	//
	// J5: A session that is over at the service can no longer join:
	// ErrSessionLost, and nothing is left behind.
	//
	// J6: With Alone set and the queue not empty, Join returns ErrTaken, leaves
	// no entry and no watch, and wakes nobody.
	//
	// J7: With Record set and the queue's record in another version at the
	// moment of joining, Join returns ErrStale, leaves no entry and no watch,
	// and wakes nobody. With Alone set as well and both against it, it may be
	// either error.
	//
	// J8: Nearest is zero, or the place of one who had joined before own, with
	// no contender of Baton between the two when own joined. It may have left
	// since. It costs the same however long the queue is: a driver that would
	// have to read the queue leaves it zero.
	Join(ctx context.Context, queue Queue, c Contender) (Joined, error)

	// Ahead shows the queue as it was at one moment, from where own stands.
	//
	// V1: The view is at least as new as own's join and as anything that this
	// session was told before by Watch. It may show a contender who has left
	// since; it never lacks one that stands ahead.
	//
	// V2: When own is no longer in the queue the error is ErrGone, or
	// ErrSessionLost. A place that was converted is not in the queue.
	//
	// V3: Last is true only if nobody stood behind own at the moment that the
	// view shows.
	//
	// V4: With the zero Place for own it shows the whole queue, as if own came
	// next, at least as new as everything that this session finished before.
	// Last is true.
	Ahead(ctx context.Context, queue Queue, own Place) (View, error)

	// Watch waits until at least one of the places has left the queue.
	//
	// W1: It returns nil once the service has shown that one of them is gone:
	// because it was left, forgotten, converted or deleted, or because its
	// session ended. If one is gone at the time of the call it returns nil at
	// once. No leaving is missed, even over reconnects and compactions.
	//
	// W2: Nothing but a leaving among the places, or an error, ends the wait:
	// the comings and goings of others wake nobody.
	//
	// W3: When ctx ends it returns the context's error and leaves at the
	// service at most one watch for each place, which goes when the place does,
	// or one for the queue, which goes when the queue changes.
	//
	// W4: ErrSessionLost when the service says that this session is over;
	// ErrUnavailable when the service cannot be reached or a quorum is missing,
	// and the engine tries again.
	Watch(ctx context.Context, queue Queue, places ...Place) error

	// Leave removes exactly the entry of own.
	//
	// L1: After nil the entry is gone. Whoever is next can be admitted.
	//
	// L2: When that entry is not there, the error is ErrGone, and nothing was
	// deleted: not an entry of another contender, session or time.
	//
	// L3: Calling Leave again after an unknown outcome is safe; the second call
	// may say ErrGone.
	Leave(ctx context.Context, queue Queue, own Place) error

	// Forget makes sure that no entry of a contender of this session is left,
	// and that none appears later.
	//
	// F1: After nil, no Join of this ID on this session that was called before
	// can still be applied, even if its request is still under way. Forgetting
	// an ID that never joined is not an error.
	//
	// F2: Other contenders of the same session and queue keep their places; a
	// Join of theirs that is under way may fail with ErrUnavailable.
	Forget(ctx context.Context, queue Queue, id string) error

	// List reads the first limit entries of a queue with their values, all of
	// them if limit is 0, in order. Entries that went while it read are left
	// out. A queue that nobody ever joined is empty, not an error.
	//
	// S1: The list is at least as new as everything that this session finished
	// before.
	List(ctx context.Context, queue Queue, limit int) ([]Entry, error)

	// Record waits until the queue's record is in another version than known,
	// and returns it. It returns at once if known is Any.
	//
	// D1: The record is at least as new as everything that this session
	// finished before. The last of several changes is never missed, even over
	// reconnects and compactions.
	//
	// D2: When ctx ends it returns the context's error and leaves at the
	// service at most one watch, which goes when what it watched changes. W4
	// holds for it too.
	Record(ctx context.Context, queue Queue, known Version) (Record, error)

	// SetRecord writes the queue's record if its version is known, and returns
	// the new version. The value has 1 byte to 64 KiB. A zero version means
	// that there must be no record.
	//
	// D3: With another version, Any included, the error is ErrStale, and
	// nothing is written. When the same call is repeated after an unknown
	// outcome, ErrStale may also mean that the first one was applied.
	//
	// D4: A record is no contender: a queue with a record and nobody in it is
	// empty. A record stays when contenders leave and sessions end.
	SetRecord(ctx context.Context, queue Queue, value []byte, known Version) (Version, error)

	// Close ends the session.
	//
	// C1: After nil all entries of the session are gone, at once and not after
	// the ttl, and requests that were under way are not applied any more.
	//
	// C2: It releases what the session started in this process, also when the
	// service does not answer, and then returns ErrUnavailable or the context's
	// error.
	//
	// C3: A driver on a connection or lease that it was given removes its own
	// entries and leaves the connection or lease as it was.
	Close(ctx context.Context) error
}
