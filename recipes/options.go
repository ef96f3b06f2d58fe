package recipes

import (
	"slices"
	"time"

	"github.com/baton-go/baton/internal/engine"
)

// Option changes a default of a recipe.
type Option func(*options)

type options struct {
	identity string
	payload  []byte

	anew bool // WithoutReentry

	delayed bool // WithLockDelay was given
	delay   time.Duration

	warnAfter, maxHold time.Duration

	yields  bool // WithDeadlockError
	shares  bool // WithSharedTurns was given
	retains bool // WithRetain was given
	retain  time.Duration
}

// WithIdentity sets the name that listings, such as Contenders and `baton
// inspect`, show. The default, and that for "", is the client's identity.
func WithIdentity(id string) Option { return func(o *options) { o.identity = id } }

// WithPayload adds up to MaxPayload bytes that listings show.
func WithPayload(b []byte) Option { return func(o *options) { o.payload = slices.Clone(b) } }

// WithoutReentry makes each call join the queue, also with a context that
// carries a hold of the name: it waits until that hold is released, and gets a
// token of its own. It is for goroutines that share the context of a hold and
// must exclude each other. A caller that has the hold waits for itself, until
// its context ends.
func WithoutReentry() Option { return func(o *options) { o.anew = true } }

// MaxLockDelay is the longest lock-delay.
const MaxLockDelay = time.Minute

// WithLockDelay delays the next grant by d, 1 ms to MaxLockDelay, after a
// holder was lost: its session ended, its entry was removed, or its client was
// closed before the release. Requests that the holder had already sent can
// arrive in that time. After a release the next contender holds at once. It is
// Chubby's lock-delay (Burrows, OSDI 2006).
//
// Each holder writes a note at the name, which its release clears; the next
// contender waits if it finds one. All users of the name must set the option:
// without it the note is not read. A grant sends two more requests, a release
// one. A release without an answer may count as a loss. During the delay a Try
// call returns a [*TakenError] with the Delay, and listings already show the
// first waiter as the holder.
//
// The delay counts from the first attempt that is at the head of the queue
// after the loss, by the clock of its process, and never from before the loss.
// An attempt that ends too early notes when it was. So the delay is over for
// any process a minute after d at the latest, also if each only calls Try or
// waits for a moment. That minute is for the wall clocks of different machines:
// if they differ by more, the delay may be shorter by the excess.
func WithLockDelay(d time.Duration) Option {
	return func(o *options) { o.delayed, o.delay = true, d }
}

// WithHoldWarning logs at Warn and notifies observers (event.HeldLong), once
// per grant, when a hold has lasted for d. It finds holders that hang while
// their session lives. The default is 0: no warning.
func WithHoldWarning(d time.Duration) Option { return func(o *options) { o.warnAfter = d } }

// WithMaxHold warns after d as WithHoldWarning does, and also ends the hold's
// context, and those of later re-entries, with the cause [ErrHeldTooLong]. It
// does not release the name, since work that ignores its context may still run:
// until Release it is held, and Err returns nil. With both options the warning
// comes after the shorter time.
func WithMaxHold(d time.Duration) Option { return func(o *options) { o.maxHold = d } }

// WithDeadlockError makes a call give up that is part of a deadlock: the error
// is a [WaitError] that wraps a [*DeadlockError], so that errors.Is(err,
// ErrDeadlock) is true. Its caller must then release what it holds, for which
// the others wait. Without the option a deadlock is only reported: see package
// mutex for what a deadlock is.
//
// Of the contenders that have the option, the youngest gives up, some 11.5
// seconds after it began to wait, and no other. It is the one whose call began
// last, by the clocks of the processes. If it cannot see the deadlock, for want
// of a client of one of the services, the next youngest does 12.5 s later, and
// so on. A call that shares an entry with others of its process, by WithRetain
// or WithSharedTurns, is in no deadlock that is seen.
func WithDeadlockError() Option { return func(o *options) { o.yields = true } }

// WithSharedTurns makes concurrent calls of Acquire on this Queue hold one
// entry together if their requests have Shares: readers. The first of them
// joins the queue. Those that come while it waits or holds need no request, and
// the last that releases removes the entry. It is for names that many
// goroutines of a process read at the same time. The default is an entry for
// each.
//
// A contender that the readers keep out is never starved: once it is seen,
// calls that come later share another entry, which is queued behind it. A
// contender of the same Queue is seen at its call, or if the entry of the
// readers is on its way then, when both have joined; others by a watch, which
// begins when a second call waits for the turn or gets it. So another process
// is overtaken only by calls that came before the watch has shown it: by the
// one that begins the watch, and those that come in the round trip that it
// takes.
//
// All holds of a turn have the same token and the same entry. A call may get a
// token that was granted before it began, also if another process has got a
// greater one since. What an operator does to the entry happens to all of them.
// A sequencer is valid until the last of them is released. Convert and Write
// return ErrInvalid.
//
// It has no effect on a service that cannot watch a queue, such as a database,
// Redis, or the layout of another client, and on requests with a payload of
// their own. NewQueue returns ErrInvalid for a queue with WithRetain.
func WithSharedTurns() Option { return func(o *options) { o.shares = true } }

// MaxRetain is the longest time for WithRetain.
const MaxRetain = time.Hour

// WithRetain keeps the turn of an exclusive contender for up to d, 1 ms to
// MaxRetain, after its release, until another contender queues behind it. While
// the turn is kept, Acquire on this Queue needs no request, and concurrent
// callers get the turn one after the other, in their order, without the
// service. It is for names that one process locks again and again. The default
// is not to keep it.
//
// The turn is passed on as soon as a watch shows another contender. Callers
// that wait for the turn at that moment are served first, for 10 ms or two
// holds, the longer of the two; the others join the queue again, in their
// order. A turn that was asked for before a second caller had it is a waste:
// then the name is not kept for 30 seconds, and each time twice as long, up to
// 8 minutes.
//
// All holds of a turn have the same token, which orders the turns of processes.
// The process orders its own work. A resource that refuses tokens smaller than
// the greatest it has seen does not tell two holds of a turn apart.
//
// The price: if the process is killed or stopped, an idle turn keeps the name
// for the TTL, as a hold does. A Try call of another Queue asks for a turn that
// may be idle, and waits for up to 100 ms. Listings show the contender as
// Retains. With a lock-delay the next grant is delayed after the loss of an
// idle turn, too: its note says that it was held.
//
// It has no effect on a service that cannot watch a queue, and on requests with
// a rule, terms, a payload of their own or a Lesser mode. A turn whose entry
// was converted or written is not kept. NewQueue returns ErrInvalid for a queue
// that is shared with other clients.
func WithRetain(d time.Duration) Option {
	return func(o *options) { o.retains, o.retain = true, d }
}

func (o *options) check(name string) error {
	short := func(d time.Duration) bool { return d < 0 || d > 0 && d < time.Millisecond }
	switch {
	case len(o.payload) > MaxPayload:
		return engine.Invalid("payload has %d bytes; at most %d are allowed",
			len(o.payload), MaxPayload)
	case o.delayed && (o.delay < time.Millisecond || o.delay > MaxLockDelay):
		return engine.Invalid("lock-delay %v for %q: want 1ms to %v", o.delay, name, MaxLockDelay)
	case o.retains && (o.retain < time.Millisecond || o.retain > MaxRetain):
		return engine.Invalid("retention of %v for %q: want 1ms to %v", o.retain, name, MaxRetain)
	case short(o.warnAfter):
		return engine.Invalid("hold warning after %v for %q: want 0 for none, or at least 1ms",
			o.warnAfter, name)
	case short(o.maxHold):
		return engine.Invalid("longest hold %v for %q: want 0 for none, or at least 1ms",
			o.maxHold, name)
	}
	return engine.CheckIdentity(o.identity)
}
