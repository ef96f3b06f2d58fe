package driver

import "context"

// Capabilities are the operations that a session offers beyond the core. A nil
// field is a capability that the session lacks; its type's comment says what
// Baton then does.
//
// Sessions return them from a method rather than implement them, so that a
// wrapper that embeds a Session keeps them and can replace one.
type Capabilities struct {
	Handoff      Handoff
	Converter    Converter
	Writer       Writer
	HeadWatcher  HeadWatcher
	QueueWatcher QueueWatcher
	Operator     Operator
	Revoker      Revoker

	// OwnWatched says that Follow waits for own as well: see N2. Without it, a
	// contender that has waited for a second calls Watch with its own place
	// besides, which is a goroutine and a watch more for each.
	OwnWatched bool

	// ReuseIDs asks Baton to reuse a contender's ID on the same session, after
	// the contender has left or was refused and all requests for it were
	// answered. It is for services that keep all names that were ever used, and
	// whose reads of a queue grow with them. Without it, every contender has a
	// new ID.
	ReuseIDs bool
}

// Handoff lets a release admit the successor without another read.
//
// Without it, Joined.Nearest is zero. Baton waits with Watch, releases with
// Leave, and reads the queue after each wake-up.
type Handoff interface {
	// Follow is Watch of the predecessor, by a contender that waits for it
	// alone. W1 to W5 hold.
	//
	// N1: passed is true only if the place left by Pass, or during a call of
	// Pass for it. False says nothing.
	//
	// N2: With OwnWatched, Follow also ends when own has left the queue, and
	// then returns ErrGone, or ErrSessionLost, even if ahead has left since. W1
	// and W5 hold for own, too. Follow may notice that as late as a second
	// after its call; so it may that another client has removed ahead, if that
	// is of the same session. The error is ErrInvalid if own is a place that
	// Convert has returned.
	Follow(ctx context.Context, queue Queue, own, ahead Place) (passed bool, err error)

	// Pass is Leave of an entry that is the first in its queue and excludes all
	// others. It notifies the contender that follows the entry. The clauses of
	// Leave hold.
	//
	// N3: A marker that Pass leaves at the service is no contender, and no call
	// shows it. The service removes it with this session at the latest, and the
	// driver when it is not needed any more.
	Pass(ctx context.Context, queue Queue, own Place) error
}

// Converter changes the mode of an entry in place.
//
// Without it, downgrading a write lock and releasing a part of a permit are
// ErrInvalid. The contenders of a semaphore read the queue after each change.
// After a change of the limit they wait until the contenders that the old limit
// admitted have left.
type Converter interface {
	// Convert replaces own's entry by one with another mode and value, at the
	// same place in the queue. own is what Join returned, with the place that
	// the last Convert returned, if any.
	//
	// M1: The conversion is atomic. ID, session, token and order stay. A view
	// shows either the old entry or the new one.
	//
	// M2: For Watch, the old place has left.
	//
	// M3: When own is not in the queue the error is ErrGone, and nothing is
	// made. Calling again with the same arguments after an unknown outcome is
	// safe, and returns the new place. A mode that own already has is
	// ErrInvalid.
	//
	// M4: A late conversion makes nothing after the contender has left or was
	// forgotten.
	Convert(ctx context.Context, queue Queue, own Joined, mode string, value []byte) (Place, error)
}

// Writer changes the value of an entry.
//
// Without it, Proclaim and other changes of a payload are ErrInvalid.
type Writer interface {
	// Write changes the value of own's entry. It ends no Watch. The engine does
	// not overlap calls for one entry.
	//
	// P1: After nil, List and Head show the value, and no earlier Write of this
	// entry is applied any more.
	//
	// P2: When own is not in the queue the error is ErrGone, and nothing is
	// made, also later.
	Write(ctx context.Context, queue Queue, own Place, value []byte) error
}

// HeadWatcher follows the first entry of a queue.
//
// Without it, Baton reads the first entry once a second, and when Watch returns
// that it has left.
type HeadWatcher interface {
	// Head waits until the first entry of the queue is in another state than
	// known, and returns it. It returns at once if known is Any.
	//
	// H1: The state is at least as new as everything that this session finished
	// before, and as what Head returned before. Head may skip changes, but it
	// never misses the last one, even over reconnects and compactions.
	//
	// H2: Head waits for the first entry alone. Other contenders that join,
	// leave or write do not end the wait. While the queue is empty it waits for
	// the first join.
	//
	// H3: D2, W4 and W5 hold.
	Head(ctx context.Context, queue Queue, known Version) (Head, error)
}

// QueueWatcher watches a whole queue. Many contenders of one session share the
// watch, instead of each reading the queue. A holder learns from it that a
// contender has queued behind it.
//
// Without it, each contender reads the queue with Ahead and waits with Watch. A
// holder that wants to know reads the queue with Ahead once a second.
type QueueWatcher interface {
	// WatchQueue calls show with the places of a queue, in order: first at
	// least as new as everything that this session finished before, and again
	// after contenders have joined or left. It returns nil when show returns
	// false. Calls of show do not overlap. show does not block, and may keep
	// the slice.
	//
	// Q1: WatchQueue may skip changes, but it never misses the last one, even
	// over reconnects and compactions. It never shows an older state after a
	// newer one. W3 to W5 hold.
	WatchQueue(ctx context.Context, queue Queue, show func([]Place) bool) error
}

// Operator has calls for operators, and for resources that check tokens.
//
// Without it, Baton checks a token by a List; listing the queues and removing
// an entry are ErrInvalid.
type Operator interface {
	// Check asks whether the queue has the entry with a key and token, of any
	// session. Key and token may come from another process. It reads that one
	// entry, however long the queue is.
	//
	// K1: nil means that the entry was in the queue, with that token, at some
	// moment after the call began.
	//
	// K2: ErrGone means that the queue has no such entry: it left, was
	// forgotten, converted or deleted, its session ended, or it never existed,
	// even if key or token are malformed.
	Check(ctx context.Context, queue Queue, key string, token Token) error

	// Remove removes exactly the entry with a key and token from the queue, of
	// any session.
	//
	// X1: After nil the entry is gone, and the queue goes on: for contenders
	// that wait for it, it has left without Pass, and for its own contender it
	// has been deleted.
	//
	// X2: ErrGone means that there was no such entry, as in K2, and that
	// nothing was deleted.
	//
	// X3: Calling Remove again after an unknown outcome is safe. The second
	// call may return ErrGone.
	Remove(ctx context.Context, queue Queue, key string, token Token) error

	// Queues returns the queues that are not empty, each once and in no order.
	// It reads one after the other, so the result is no snapshot. Its requests
	// read no values, and at most one listing, or a bounded part of one.
	//
	// E1: The result has each queue that was never empty during the call, with
	// entries of any session.
	//
	// E2: The result has no queue that was empty during the whole call, even if
	// the service keeps a record, an empty directory or a marker of Pass.
	Queues(ctx context.Context) ([]Queue, error)
}

// Revoker lets clients of a foreign layout ask a holder to release.
//
// Without it, a holder only learns of contenders that queue.
type Revoker interface {
	// Revoked waits until a client has asked the contender of own to release.
	// When own is not in the queue the error is ErrGone, and in a queue without
	// such requests ErrInvalid. W3 and W4 hold.
	Revoked(ctx context.Context, queue Queue, own Place) error
}
