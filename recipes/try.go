package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// holderTimeout bounds the request that reads the holder for a TakenError.
const holderTimeout = time.Second

// taken turns the ErrTaken of a Try into a TakenError. If ctx has ended, err
// may be its cause, the ErrTaken of another call.
func (a *attempt) taken(ctx context.Context, err error) error {
	_, known := err.(*TakenError) //nolint:errorlint // ours, see lockDelay
	if !a.Try || known || !errors.Is(err, coordinator.ErrTaken) || ctx.Err() != nil {
		return err
	}
	// The name of the holder is a courtesy: the call must not wait long for it.
	ask, cancel := context.WithTimeout(ctx, holderTimeout)
	defer cancel()
	e := &TakenError{Op: a.Op, Name: a.queue.name}
	// The second shows whether others wait already.
	if first, err := a.session.List(ask, a.queue.id, 2); err == nil && len(first) > 0 {
		e.Holder = a.queue.contender(first[0])
		e.Holder.Holding = true
		e.alone = len(first) == 1
	}
	return e
}

// askTime is how long a Try waits for a turn that may be idle: long enough for
// the watch of the other contender and its release.
const askTime = 100 * time.Millisecond

// mayAskIdle reports whether a Try may join although the name is taken, since
// the other contender may keep it without using it (see WithRetain) and passes
// it on if another one is in the queue. Without that, a Try would fail for as
// long as the other one keeps the name.
func (a *attempt) mayAskIdle(err error) bool {
	e, ok := err.(*TakenError) //nolint:errorlint // of this call
	return ok && a.Try && a.exclusive() && e.alone && e.Holder.Retains
}

// askIdle joins the queue as a contender that waits, for askTime at most. taken
// is the error if the other contender works.
func (a *attempt) askIdle(ctx context.Context, taken error) error {
	bound, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	// For join and wait alone: the lock-delay that follows is not waited for.
	a.Try = false
	defer func() { a.Try = true }()
	err := a.join(bound)
	if err == nil {
		err = a.wait(bound)
	}
	// Only the bound has ended the wait: the caller sees why it did not get the
	// name, and not a deadline that it has not set. win removes the entry.
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return taken
	}
	return err
}
