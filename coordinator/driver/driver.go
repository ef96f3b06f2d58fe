// Package driver is the contract between Baton and the driver of a coordination
// service.
//
// Authors of a driver implement [Driver] and [Session] and test them with the
// conformance suite in coordinator/coordinatortest. Users of Baton hold a
// [coordinator.Client] instead. The package is experimental: a minor version
// may change it.
//
// # The contract
//
// A driver translates calls into requests. Baton's engine renews sessions, runs
// the loss clock, retries and cleans up. So a driver has no timers but those of
// W5 and N2, and never repeats a request that may have been applied, unless a
// clause asks for it.
//
// The doc comments below state the contract in numbered clauses. The suite
// names each case after its clause. General clauses:
//
// G1: Methods are safe for concurrent use.
//
// G2: Every call ends soon after its context does, whatever the service does. A
// request in flight may still be applied afterwards.
//
// G3: Every error wraps a sentinel of this package and the service's own error.
// If the call's context has ended, it may be the context's error instead.
//
// [coordinator.Client]: https://pkg.go.dev/github.com/baton-go/baton/coordinator#Client
package driver

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Token is a fencing token, the service's number for one grant: etcd's create
// revision, ZooKeeper's czxid. Tokens of one queue rise strictly in the order
// of joins, as long as the service keeps its data. Compare tokens as numbers.
// Databases store them as BIGINT.
type Token int64

// String returns the token in decimal digits.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// ParseToken parses a positive decimal number, as String writes it. Other text
// is ErrInvalid.
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if t := Token(n); err == nil && t > 0 && t.String() == s {
		return t, nil
	}
	return 0, fmt.Errorf("%w: token %.20q; want a positive decimal number of 64 bits",
		ErrInvalid, s)
}

// Queue is the opaque name of one queue: "kind/name". Both parts consist of
// unreserved URL characters and percent escapes, and are never empty, "." or
// "..". The queues "m/a" and "m/a%2Fb" are unrelated.
type Queue string

// Contender is one attempt in a queue.
type Contender struct {
	// ID identifies the contender in the queue: 16 to 32 lower-case hex digits,
	// which the engine chooses at random and uses once, unless the session has
	// set ReuseIDs.
	ID string
	// Mode is the recipe's mark, 1 to 16 characters of a-z and 0-9 ("x", "r",
	// "p3"). Every view shows it.
	Mode string
	// Value is shown by List. It has at most 64 KiB. The engine does not change
	// it any more.
	Value []byte
	// Alone asks to join only if the queue is empty (J6).
	Alone bool
	// Follows asks for Nearest (J8), and lets the next contender ask for it.
	// Either all contenders of a queue set it, or none.
	Follows bool
	// Again says that an earlier Join with this ID may have been applied (J2).
	Again bool
	// Record asks to join only if the queue's record has this version (J7).
	// Zero asks for nothing.
	Record Version
}

// Version identifies one state of a value. Versions can only be compared for
// equality. Zero is the version of an absent value.
type Version int64

// Any stands for a version that the caller does not know.
const Any Version = -1

// Place is a contender's place in a queue.
type Place struct {
	// Key is the driver's own handle of the entry. It is never used for another
	// entry.
	Key string
	// ID and Mode are the contender's. Session is the ID of its session. An
	// entry of another program has an empty ID.
	ID, Mode, Session string
}

// Joined is the result of a Join.
type Joined struct {
	Place Place
	Token Token
	// First is true when the service showed, at or after the moment of joining,
	// that no contender is ahead. False says nothing.
	First bool
	// Nearest is the predecessor, if the service could say so (J8).
	Nearest Place
}

// View is a queue as one contender sees it.
type View struct {
	// Ahead are the places ahead of the contender, in queue order.
	Ahead []Place
	// Last is true when the view shows no contender behind it.
	Last bool
	// Record is the version of the queue's record, or zero (V6).
	Record Version
}

// Entry is a place with the token and value that List reads.
type Entry struct {
	Place
	Token Token
	Value []byte
	// Stray, unless empty, says that no session owns the entry, and how to
	// remove it, for people.
	Stray string
}

// Head is one state of the first entry of a queue. It is zero for an empty
// queue.
type Head struct {
	Entry
	Version Version
}

// Record is a value of the queue itself. It outlives contenders and sessions. A
// queue without a record has the zero Record.
type Record struct {
	Value   []byte
	Version Version
}

// Driver is one client's access to a coordination service: addresses,
// credentials and namespace. Making a Driver does no I/O.
type Driver interface {
	// Open starts a session.
	//
	// O1: The service keeps the session for at least ttl - Slack after each
	// call of Open or of a Renew that is acknowledged. It ends the session soon
	// after the ttl when it is not renewed.
	//
	// O2: When the service does not grant exactly ttl, Open returns ErrInvalid
	// with both values, and leaves no session behind.
	//
	// O3: Each Open makes a new session with an ID that was never used before.
	// A driver on an external connection may use that connection's session
	// instead. Such an Open renews it, since O1 counts from the call. It
	// returns ErrSessionLost after the end of that session if it can get no
	// other.
	//
	// O4: A failed Open leaves nothing that outlives the ttl.
	Open(ctx context.Context, ttl time.Duration) (Session, error)

	// Close closes the connections that the driver made, and ends when ctx
	// does. Sessions have been closed before.
	Close(ctx context.Context) error

	// String returns the URL of the service for logs and errors, without
	// secrets: "etcd://10.0.0.1:2379/prefix".
	String() string
}

// RenewalsPerTTL is how many renewals the engine sends in a TTL, at equal
// intervals.
const RenewalsPerTTL = 10

// Session is a client's liveness as the service judges it, and the client's
// access to queues. Its methods are the core that every driver has. Optional
// operations are [Capabilities].
type Session interface {
	// Capabilities returns the optional operations. It does no I/O, and always
	// returns the same.
	Capabilities() Capabilities

	// ID returns the service's ID of the session, in hex.
	ID() string

	// TTL returns the time to live that the service granted.
	TTL() time.Duration

	// Slack returns how much earlier than O1's ttl the service may end the
	// session by its own design, for example because a follower reports
	// renewals late.
	Slack() time.Duration

	// Renew asks the service to keep the session.
	//
	// R1: nil means that the service had the session at some moment after the
	// call began, and keeps it as O1 says.
	//
	// R2: ErrSessionLost means that the session is over at the service. From
	// then on no call on the session succeeds, except Close.
	//
	// Without a connection Renew should fail at once instead of waiting for
	// one: the engine calls it again soon. Calls may overlap.
	Renew(ctx context.Context) error

	// Done is closed soon after the service says that the session is over, or
	// that it will end before O1's time. It need not be closed while the
	// service cannot be reached. If the session has a method Err() error, that
	// then says why: an ErrSessionLost.
	Done() <-chan struct{}

	// Join adds a contender at the end of the queue, as an entry that the
	// service removes when the session ends.
	//
	// J1: The order of a queue is the order in which the service applied the
	// joins. Tokens rise strictly in that order, over sessions, clients and
	// restarts.
	//
	// J2: Join with Again set and an ID that is in the queue returns that entry
	// with its token. One ID never has two entries.
	//
	// J3: Only the first contender of a queue may get First.
	//
	// J4: When Join fails with any error but ErrTaken and ErrStale, the entry
	// may or may not be there, now or later. The engine then calls Join with
	// Again set, or Forget.
	//
	// J5: A session that is over at the service can no longer join: Join
	// returns ErrSessionLost and leaves nothing behind.
	//
	// J6: With Alone set and the queue not empty, Join returns ErrTaken, leaves
	// no entry and no watch, and wakes no contender.
	//
	// J7: With Record set and the queue's record in another version at the
	// moment of joining, Join returns ErrStale, leaves no entry and no watch,
	// and wakes no contender. If Alone fails too, it may be either error.
	//
	// J8: Nearest is zero, or the place of a contender that joined before own,
	// with no contender of Baton between the two when own joined. It may have
	// left since. Its cost does not grow with the queue: a driver that would
	// have to read the queue leaves it zero.
	Join(ctx context.Context, queue Queue, c Contender) (Joined, error)

	// Ahead returns the queue as own sees it at one moment.
	//
	// V1: The view is at least as new as own's join and as every leaving that
	// Watch has returned to this session. It may show a contender that has left
	// since. It never lacks a contender that is ahead.
	//
	// V2: When own is no longer in the queue the error is ErrGone or
	// ErrSessionLost. A place that was converted is not in the queue.
	//
	// V3: Last is true only if no contender was behind own at the moment of the
	// view.
	//
	// V4: With the zero Place for own, Ahead returns the whole queue, at least
	// as new as everything that this session finished before. Last is true.
	//
	// V6: Record is zero, or the version that the queue's record had at the
	// moment of the view. A driver sets it if that costs no request. Baton then
	// need not read the record to know that a limit was in force.
	Ahead(ctx context.Context, queue Queue, own Place) (View, error)

	// Watch waits until at least one of the places has left the queue.
	//
	// W1: It returns nil once the service has shown that a place has left: by
	// Leave, Forget, conversion or deletion, or because its session ended. If a
	// place has left before the call, it returns nil at once. It misses no
	// leaving, even over reconnects and compactions. The places are from views
	// or Joins of this session: a server that lags cannot tell whether another
	// has left or not joined yet.
	//
	// W2: Only the leaving of one of the places, or an error, ends the wait.
	// Other contenders that join or leave do not.
	//
	// W3: When ctx ends, Watch returns the context's error. It then leaves at
	// the service at most one watch for each place, which ends when the place
	// leaves, or one for the queue, which ends when the queue changes.
	//
	// W4: Watch returns ErrSessionLost when the service says that this session
	// is over, and ErrUnavailable when the service cannot be reached or lacks a
	// quorum. The engine then calls it again.
	//
	// W5: No wait rests on one server for longer than about a TTL, or half a
	// minute. A server may stop to follow the others, for example because its
	// disk hangs, and still answer pings and pass on renewals: then it never
	// shows the change. While the service has a quorum, the wait ends soon
	// after that time. What this costs does not grow with the number of waits.
	// The same holds for a server that takes a request of a wait and does not
	// answer it; then the wait may return ErrUnavailable instead.
	Watch(ctx context.Context, queue Queue, places ...Place) error

	// Leave removes exactly the entry of own.
	//
	// L1: After nil the entry is gone, and the next contender can be admitted.
	//
	// L2: When that entry is not there, the error is ErrGone, and nothing was
	// deleted, in particular no other entry.
	//
	// L3: Calling Leave again after an unknown outcome is safe. The second call
	// may return ErrGone.
	Leave(ctx context.Context, queue Queue, own Place) error

	// Forget makes sure that a contender of this session has no entry, and that
	// none appears later.
	//
	// F1: After nil, no Join of this ID on this session that was called before
	// can still be applied, even if its request is under way. Forgetting an ID
	// that never joined is not an error.
	//
	// F2: Other contenders of the same session and queue keep their places.
	// Their Joins that are under way may fail with ErrUnavailable.
	Forget(ctx context.Context, queue Queue, id string) error

	// List reads the first limit entries of a queue with their values, in
	// order; all of them if limit is 0. It leaves out entries that are removed
	// while it reads. A queue that no contender ever joined is empty.
	//
	// S1: The list is at least as new as everything that this session finished
	// before.
	List(ctx context.Context, queue Queue, limit int) ([]Entry, error)

	// Record waits until the queue's record has another version than known, and
	// returns it. It returns at once if known is Any.
	//
	// D1: The record is at least as new as everything that this session
	// finished before. Record never misses the last of several changes, even
	// over reconnects and compactions.
	//
	// D2: When ctx ends, Record returns the context's error. It then leaves at
	// the service at most one watch, which ends at the next change. W4 and W5
	// hold too.
	Record(ctx context.Context, queue Queue, known Version) (Record, error)

	// SetRecord writes the queue's record if its version is known, and returns
	// the new version. The value has 1 byte to 64 KiB. Version zero means that
	// there must be no record.
	//
	// D3: With another version, or Any, the error is ErrStale, and nothing is
	// written. When the call is repeated after an unknown outcome, ErrStale may
	// also mean that the first call was applied. After a call with Any, Record
	// is at least as new as everything that any session finished before that
	// call. A driver whose Record always is need not ask the service.
	//
	// D4: A record is no contender: a queue that has only a record is empty. A
	// record stays when contenders leave and sessions end.
	SetRecord(ctx context.Context, queue Queue, value []byte, known Version) (Version, error)

	// Close ends the session.
	//
	// C1: After nil all entries of the session are gone, without waiting for
	// the ttl, and no request that was under way is applied any more.
	//
	// C2: It releases the session's resources in this process even if the
	// service does not answer. It then returns ErrUnavailable or the context's
	// error, and the engine calls it again while there is time.
	//
	// C3: A driver on an external connection or lease removes its own entries
	// and leaves the connection or lease as it was. If Close fails, it goes on
	// removing them in the background, since no ttl ends them.
	Close(ctx context.Context) error
}
