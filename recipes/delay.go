package recipes

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// The contender is admitted when it comes here, but is not a holder yet: it
// reads the note, waits if need be, and writes its own. See note.go for what
// the note says, and for why the delay is over in the end.

// lockDelay waits if the last holder was lost, and writes its own note. If the
// contender dies after that, the next one waits as long.
func (a *attempt) lockDelay(ctx context.Context) error {
	if a.queue.delay == 0 || !a.exclusive() {
		return nil
	}
	own := note{Token: a.joined.Token, Held: true,
		Delay: int64((a.queue.delay + time.Millisecond - 1) / time.Millisecond)} // not shorter
	for {
		last, version, err := readNote(ctx, a.session, a.queue.id)
		if err != nil {
			return err
		}
		// Written by this contender, in an earlier round whose reply was lost.
		if last.Held && last.Token == own.Token {
			a.noted = version
			return nil
		}
		// A contender behind this one writes only once it is first: then the
		// own entry is gone, and Ahead returns that.
		if last.Token > own.Token {
			if _, err := a.session.Ahead(ctx, a.queue.id, a.joined.Place); err != nil {
				return err
			}
		}
		if last.Held {
			left, err := a.delayLeft(ctx, last, version)
			switch {
			case Overtaken(ctx, err): // another client may have written meanwhile
				continue
			case err != nil:
				return causeIfStale(ctx, err)
			case left > 0 && a.Try:
				return &TakenError{Op: a.Op, Name: a.queue.name, Delay: left}
			case left > 0:
				if err := a.sleep(ctx, left); err != nil {
					return err
				}
				continue // it may have been removed meanwhile, or be early
			}
		}
		// With the version that was read: if this entry was removed, and
		// another contender is first by now, the write fails.
		a.noted, err = a.session.SetRecord(ctx, a.queue.id, own.encode(), version)
		a.mayBeNoted = a.mayBeNoted || err == nil || coordinator.MayHaveApplied(err)
		switch {
		case err == nil:
			return nil
		case !Overtaken(ctx, err):
			return causeIfStale(ctx, err)
		}
	}
}

// delayLeft returns the rest of a lock-delay. The contender is first in the
// queue after it has read the note, so the note is that of a lost holder. If no
// contender has seen the loss before, delayLeft writes when it was seen.
func (a *attempt) delayLeft(
	ctx context.Context, last note, version driver.Version,
) (time.Duration, error) {
	delay := min(time.Duration(last.Delay)*time.Millisecond, MaxLockDelay)
	view, err := a.session.Ahead(ctx, a.queue.id, a.joined.Place)
	if err != nil {
		return 0, err
	}
	if len(view.Ahead) > 0 { // cannot happen; never hold in this case
		return delay, nil
	}
	// After the view: it confirms that the note's holder is gone, so the delay
	// never counts from a moment at which it may still have held.
	now := time.Now()
	left, seen := delay-a.queue.vacancy.lasts(last, now), time.UnixMilli(last.Seen)
	switch {
	case left <= 0:
		return left, nil
	case last.Seen == 0 || seen.Sub(now) > clockSkew: // or by a clock that is wrong
		last.Seen = now.UnixMilli()
		if _, err = a.session.SetRecord(ctx, a.queue.id, last.encode(), version); err == nil {
			a.queue.vacancy.wrote(last.Token, last.Seen)
		}
		return left, err
	}
	return min(left, delay+clockSkew-now.Sub(seen)), nil // by the wall clock, as seen has no other
}

// sleep waits for the time left, or until the own entry has left the queue.
func (a *attempt) sleep(ctx context.Context, left time.Duration) error {
	a.queue.client.Log().Info("baton: the last holder was lost; waiting for the lock-delay",
		"queue", a.queue.id, "token", a.joined.Token, "delay", left)
	if !a.waited {
		a.noteWake()
		a.since = a.woken
	}
	// Await and not a timer: the own entry may be removed during the delay, and
	// then others are first.
	bound, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if a.session.Await(bound, a.queue.id, a.joined.Place) == nil {
		return nil // the next read says why its entry is gone
	}
	select { // the watch may be refused
	case <-bound.Done():
	case <-a.session.Context().Done():
		return context.Cause(a.session.Context())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// leaveLater removes the entry of a failed attempt in the background, once. If
// it may have written its note, that is cleared first: nobody has held, so the
// next contender must not wait. The write may even be under way: whatever the
// note is, it is written again, so that a late write finds another version.
func (a *attempt) leaveLater() {
	if !a.mustLeave {
		return
	}
	a.mustLeave = false
	// In this order: while the entry is first, no other contender reads the
	// note.
	leave := func() { a.session.LeaveLater(a.queue.id, a.joined.Place) }
	if !a.mayBeNoted || !a.session.Go(func() { defer leave(); a.unnote(a.session.Context()) }) {
		leave()
	}
}

// unnote writes that the contender has never held, until the record cannot have
// its note any more.
func (a *attempt) unnote(ctx context.Context) {
	for {
		last, version, err := readNote(ctx, a.session, a.queue.id)
		switch {
		case err != nil || last.Token > a.joined.Token:
			return
		case last.Token == a.joined.Token, version == 0:
			last = note{Token: a.joined.Token}
		}
		_, err = a.session.SetRecord(ctx, a.queue.id, last.encode(), version)
		if !Overtaken(ctx, err) {
			return
		}
	}
}
