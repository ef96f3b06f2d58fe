package driver

import "context"

// Capabilities are the operations that a session offers beyond the core. A nil
// field is a capability that the session does not have. The comment of each one
// says what Baton does without it.
//
// A session returns them from a method, so that a wrapper which embeds a
// Session keeps them, and can replace one.
type Capabilities struct {
	Handoff      Handoff
	Converter    Converter
	Writer       Writer
	HeadWatcher  HeadWatcher
	QueueWatcher QueueWatcher
	Operator     Operator
	Revoker      Revoker

	// ReuseIDs asks Baton to use the ID of a contender again on the same
	// session, once the contender has left or was refused and all requests for
	// it were answered. It is for services that keep each name that was ever
	// used and pay for it when they read a queue. Without it, every contender
	// has a new ID.
	ReuseIDs bool
}

// Handoff lets a release admit the successor without another read.
//
// Without it, Joined.Nearest is zero, and Baton waits with Watch, releases with
// Leave, and reads the queue after each wake-up.
type Handoff interface {
	// Follow is Watch of the one place directly ahead, by a contender that
	// waits for it alone. W1 to W4 hold for it.
	//
	// N1: passed is true only if the place left by Pass. False says nothing.
	Follow(ctx context.Context, queue Queue, own, ahead Place) (passed bool, err error)

	// Pass is Leave of an entry that is the first in its queue and excludes all
	// others. It notifies the contender that follows the entry. The clauses of
	// Leave hold for it.
	//
	// N3: What it leaves at the service is no contender: to all calls the queue
	// is as if it were not there. It goes with this session at the latest, and
	// when it is of no more use.
	Pass(ctx context.Context, queue Queue, own Place) error
}

// Converter changes the mode of an entry in place.
//
// Without it, a write lock cannot be downgraded, nor can a part of a permit be
// released: both are ErrInvalid. The contenders of a semaphore then wait by
// reading the queue after each change, and after a change of the limit until
// those admitted by the old one have left.
type Converter interface {
	// Convert gives the place of own to an entry with another mode and a new
	// value. own is what Join returned, with the place that an earlier Convert
	// returned, if there was one.
	//
	// M1: It happens in one step. ID, session, token and place in the queue
	// stay. A view shows the old entry or the new one, never both and never
	// neither.
	//
	// M2: To Watch, the old place has left.
	//
	// M3: When own is not in the queue the error is ErrGone, and nothing is
	// made. Calling again with the same arguments after an unknown outcome is
	// safe: it returns the new place. A mode that own has already is
	// ErrInvalid.
	//
	// M4: A conversion that is late makes nothing once the contender has left
	// or was forgotten.
	Convert(ctx context.Context, queue Queue, own Joined, mode string, value []byte) (Place, error)
}

// Writer changes the value of an entry.
//
// Without it, Proclaim and other changes of a payload are ErrInvalid.
type Writer interface {
	// Write changes the value of own's entry. Nobody who waits with Watch is
	// woken.
	//
	// P1: After nil, List and Head show the value, and no Write of this entry
	// that was called before is applied any more. Calls for one entry do not
	// overlap.
	//
	// P2: When own is not in the queue the error is ErrGone, and nothing is
	// made, also later.
	Write(ctx context.Context, queue Queue, own Place, value []byte) error
}

// HeadWatcher follows the first entry of a queue.
//
// Without it, Baton reads the first entry once a second, and when Watch says
// that it has left.
type HeadWatcher interface {
	// Head waits until the first entry of the queue is in another state than
	// known, and returns it. It returns at once if known is Any.
	//
	// H1: The state is at least as new as everything that this session finished
	// before, and as what Head returned before. Of several changes in a row all
	// but the last may be skipped; the last is never missed, even over
	// reconnects and compactions.
	//
	// H2: It waits for the first entry alone: the comings, goings and writes of
	// others wake nobody. While the queue is empty it waits for somebody to
	// join.
	//
	// H3: D2 and W4 hold for it.
	Head(ctx context.Context, queue Queue, known Version) (Head, error)
}

// QueueWatcher watches a whole queue. Many contenders of one session share the
// watch, instead of each reading the queue.
//
// Without it, each contender reads the queue with Ahead and waits with Watch.
type QueueWatcher interface {
	// WatchQueue shows the places of a queue, in order: first as new as
	// everything that this session finished before, and again when somebody has
	// joined or left. It goes on until show returns false, and then returns
	// nil. show is called by one goroutine at a time, does not block, and may
	// keep the slice.
	//
	// Q1: Of several changes in a row all but the last may be skipped. The last
	// is never missed, even over reconnects and compactions, and nothing that
	// is older than what was shown before is shown after it. W3 and W4 hold for
	// it.
	WatchQueue(ctx context.Context, queue Queue, show func([]Place) bool) error
}

// Operator is for people and for resources that check tokens.
//
// Without it, a token is checked by a List, and to list the queues or to remove
// an entry is ErrInvalid.
type Operator interface {
	// Check asks whether the entry with a key stands in the queue with a token,
	// whatever session it belongs to. Key and token may come from another
	// process. It reads that one entry, however long the queue is.
	//
	// K1: nil means that the entry stood in the queue, with that token, at some
	// moment after the call began.
	//
	// K2: ErrGone means that it did not: it was left, forgotten, converted or
	// deleted, its session ended, or no entry of this queue ever had that key
	// and token, however odd they are.
	Check(ctx context.Context, queue Queue, key string, token Token) error

	// Remove removes exactly the entry with a key and token from the queue,
	// whatever session it belongs to.
	//
	// X1: After nil the entry is gone, and the queue goes on: whoever waits for
	// it hears of a leaving that is no Pass, and to its own contender it is an
	// entry that somebody else has removed.
	//
	// X2: ErrGone means that there was no such entry, as in K2, and that
	// nothing was deleted.
	//
	// X3: Calling Remove again after an unknown outcome is safe; the second
	// call may say ErrGone.
	Remove(ctx context.Context, queue Queue, key string, token Token) error

	// Queues returns the queues in which somebody stands, each once and in no
	// order. It reads them one after the other, and so shows several moments.
	// No request reads values, or more than one listing or a bounded part of
	// one.
	//
	// E1: A queue in which somebody stood during all of the call is there,
	// whatever session that is of.
	//
	// E2: A queue in which nobody stood at any moment of the call is not there,
	// whatever the service keeps of it: a record, an empty place, what was left
	// by Pass.
	Queues(ctx context.Context) ([]Queue, error)
}

// Revoker lets other clients of a foreign layout ask a holder to give up.
//
// Without it, waiting for such a request is ErrInvalid.
type Revoker interface {
	// Revoked waits until somebody has asked the contender of own to give up.
	// When own is not in the queue the error is ErrGone, and in a queue without
	// such requests ErrInvalid. W3 and W4 hold for it.
	Revoked(ctx context.Context, queue Queue, own Place) error
}
