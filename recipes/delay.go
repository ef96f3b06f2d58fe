package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// This file implements the lock-delay. The record of the queue is a note about
// the last holder:
//
//	{token, held}          token holds, or was lost
//	{token, held, seen}    token was lost; a contender has seen that at that time
//	{token}                token has released, or never held
//
//	grant     the first in the queue reads the note. If another token is held,
//	          that holder was lost: its entry was ahead, and is not. The
//	          contender waits until the delay is over, and writes {own, held}
//	release   {own}, and then the entry leaves. If only the entry leaves, the
//	          holder was lost
//	delay     counts from the moment at which a contender first sees the loss as
//	          the first in the queue, so it is never shorter than from the loss.
//	          A contender that cannot wait so long leaves {token, held, seen}
//
// Contenders that give up add up. Those of one Queue compare the monotonic
// clock: the delay is over exactly d after the first of them. Others, perhaps
// of a process that has just begun on another machine, have only wall clocks in
// common. They rely on seen when it is clockSkew older than d. So the delay is
// over for any contender that asks d + clockSkew after the first one. If the
// clocks of two machines differ by more than clockSkew, the delay may be
// shorter by the excess; it is not longer, since a time in the future is
// replaced.

// clockSkew is by how much the wall clocks of contenders may differ.
const clockSkew = time.Minute

// note is the record of a queue with a lock-delay.
type note struct {
	Token driver.Token `json:"token"`
	Held  bool         `json:"held"`              // it has not released
	Delay int64        `json:"delay_ms"`          // how long the next contender waits if it is lost
	Seen  int64        `json:"seen_ms,omitempty"` // when its loss was first seen, in Unix time
}

func (n note) encode() []byte {
	b, _ := json.Marshal(n) // never fails for numbers
	return b
}

// readNote returns the zero note if there is none.
func (q *Queue) readNote(ctx context.Context, s *engine.Session) (note, driver.Version, error) {
	var last note
	r, err := s.Record(ctx, q.id, driver.Any)
	if err == nil && r.Version != 0 && json.Unmarshal(r.Value, &last) != nil {
		err = fmt.Errorf("%w: the record at the name is not a note of a holder: %q",
			coordinator.ErrRefused, r.Value)
	}
	return last, r.Version, err
}

// lockDelay waits if the last holder was lost, and writes its own note. If the
// contender dies after that, the next one waits as long.
func (a *attempt) lockDelay(ctx context.Context) error {
	if a.queue.delay == 0 || !a.exclusive() {
		return nil
	}
	own := note{Token: a.joined.Token, Held: true,
		Delay: int64((a.queue.delay + time.Millisecond - 1) / time.Millisecond)} // not shorter
	for {
		last, version, err := a.queue.readNote(ctx, a.session)
		if err != nil {
			return err
		}
		// written by an earlier attempt, whose reply was lost
		if last.Held && last.Token == own.Token {
			a.noted = version
			return nil
		}
		if last.Token > own.Token { // behind this contender: its entry must be gone
			if _, err := a.session.Ahead(ctx, a.queue.id, a.joined.Place); err != nil {
				return err
			}
		}
		if last.Held {
			left, err := a.left(ctx, last, version)
			switch {
			case Overtaken(ctx, err): // another client may have written meanwhile
				continue
			case err != nil:
				return ended(ctx, err)
			case left > 0 && a.Try:
				return &TakenError{Op: a.Op, Name: a.queue.name, Delay: left}
			case left > 0:
				if err := a.sleep(ctx, left); err != nil {
					return err
				}
				continue
			}
		}
		a.noted, err = a.session.SetRecord(ctx, a.queue.id, own.encode(), version)
		a.mayBeNoted = a.mayBeNoted || err == nil || coordinator.MayHaveApplied(err)
		switch {
		case err == nil:
			return nil
		case !Overtaken(ctx, err):
			return ended(ctx, err)
		}
	}
}

// vacancy is when an attempt of the Queue, as the first in the queue, has seen
// the note of a lost holder. While it is that note, no contender has held
// since, so the waits of attempts that end too early add up.
//
// After a loss of data tokens begin anew, so that another holder may have the
// token: what was written as Seen tells their notes apart.
type vacancy struct {
	mu    sync.Mutex
	lost  driver.Token
	seen  int64 // of the note, once it is known to be in the record; or 0
	since time.Time
}

func (v *vacancy) lasts(last note, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost != last.Token || v.seen != 0 && v.seen != last.Seen {
		v.lost, v.since = last.Token, now
	}
	v.seen = last.Seen
	return now.Sub(v.since)
}

// wrote notes that Seen of the note of a token was written.
func (v *vacancy) wrote(lost driver.Token, seen int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost == lost {
		v.seen = seen
	}
}

// left returns the rest of a lock-delay. The contender is first in the queue
// after it has read the note, so the note is that of a lost holder. If no
// contender has seen the loss before, left writes when it was seen.
func (a *attempt) left(
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

// sleep waits for d, or until the own entry has left the queue.
func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	a.queue.client.Log().Info("baton: the last holder was lost; waiting for the lock-delay",
		"queue", a.queue.id, "token", a.joined.Token, "delay", d)
	if !a.waited {
		a.wake()
	}
	bound, cancel := context.WithTimeout(ctx, d)
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

// clearNote writes that the grant was released. If that fails, the next
// contender waits, as after a loss.
func (g *grant) clearNote(ctx context.Context) {
	if g.noted == 0 {
		return
	}
	_, err := g.session.SetRecord(ctx, g.queue.id, note{Token: g.token}.encode(), g.noted)
	if coordinator.MayHaveApplied(err) && ctx.Err() == nil { // perhaps only a reply was lost
		last, _, failed := g.queue.readNote(ctx, g.session)
		if failed == nil && (last.Token != g.token || !last.Held) {
			return
		}
	}
	if err != nil && !errors.Is(err, coordinator.ErrStale) {
		g.queue.client.Log().Warn("baton: cannot write that the hold was released; the next holder waits for the lock-delay",
			"queue", g.queue.id, "token", g.token, "error", err)
	}
}

// leaveLater removes the entry of a failed attempt in the background, once. If
// it may have written its note, that is cleared first: nobody has held, so the
// next contender must not wait. The write may even be under way: whatever the
// note is, it is written again, so that a late write finds another version.
func (a *attempt) leaveLater() {
	if !a.queued {
		return
	}
	a.queued = false
	leave := func() { a.session.LeaveLater(a.queue.id, a.joined.Place) }
	if !a.mayBeNoted || !a.session.Go(func() { defer leave(); a.unnote(a.session.Context()) }) {
		leave()
	}
}

func (a *attempt) unnote(ctx context.Context) {
	for {
		last, version, err := a.queue.readNote(ctx, a.session)
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
