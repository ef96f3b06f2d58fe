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

	delayed bool // WithLockDelay was given
	delay   time.Duration

	warnAfter, maxHold time.Duration
}

// WithIdentity sets who holds or waits in listings: the client's identity by
// default, and for an empty one.
func WithIdentity(id string) Option { return func(o *options) { o.identity = id } }

// WithPayload adds up to MaxPayload bytes to what listings show of the holder
// or waiter.
func WithPayload(b []byte) Option { return func(o *options) { o.payload = slices.Clone(b) } }

// MaxLockDelay is the longest lock-delay.
const MaxLockDelay = time.Minute

// WithLockDelay keeps the name free for d, 1 ms to MaxLockDelay, after a holder
// was lost: its session ended, its entry was removed, or its client was closed.
// Requests that the holder had already sent can arrive meanwhile. After a
// release the next contender holds at once. It is Chubby's lock-delay (Burrows,
// OSDI 2006).
//
// Each holder leaves a note at the name, which its release takes back; the next
// contender waits if it finds one. All users of the name give the option, for
// without it the note is not read. A grant costs two requests more, a release
// one. A release that had no answer may count as a loss. A Try during the wait
// is a [*TakenError] with the Delay.
func WithLockDelay(d time.Duration) Option {
	return func(o *options) { o.delayed, o.delay = true, d }
}

// RefuseLockDelay returns an error if the queue has a lock-delay: for recipes,
// of the given name, whose holders do not exclude each other.
func RefuseLockDelay(l *Queue, recipe string) error {
	if l.delay == 0 {
		return nil
	}
	return engine.Invalid("lock-delay %v for %s %q: only a mutex and an election have one",
		l.delay, recipe, l.name)
}

// WithHoldWarning logs at Warn and notifies observers (event.HeldLong), once
// for each grant, when a hold has lasted for d: a holder that hangs while its
// session lives keeps all others out, and only the time shows it. Zero is the
// default: no warning.
func WithHoldWarning(d time.Duration) Option { return func(o *options) { o.warnAfter = d } }

// WithMaxHold is WithHoldWarning, and also ends the hold's context, with
// [ErrHeldTooLong] as the cause, so that work that heeds its context stops. It
// does not release the name, since work that does not heed it may still run.
// Contexts of later re-entries have ended from the beginning. With both options
// the warning comes after the shorter time.
func WithMaxHold(d time.Duration) Option { return func(o *options) { o.maxHold = d } }

func (o *options) check(name string) error {
	short := func(d time.Duration) bool { return d < 0 || d > 0 && d < time.Millisecond }
	switch {
	case len(o.payload) > MaxPayload:
		return engine.Invalid("payload has %d bytes; at most %d are allowed",
			len(o.payload), MaxPayload)
	case o.delayed && (o.delay < time.Millisecond || o.delay > MaxLockDelay):
		return engine.Invalid("lock-delay %v for %q: want 1ms to %v", o.delay, name, MaxLockDelay)
	case short(o.warnAfter):
		return engine.Invalid("hold warning after %v for %q: want 0 for none, or at least 1ms",
			o.warnAfter, name)
	case short(o.maxHold):
		return engine.Invalid("longest hold %v for %q: want 0 for none, or at least 1ms",
			o.maxHold, name)
	}
	return engine.CheckIdentity(o.identity)
}
