package recipes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// This file finds the deadlocks of which a contender of this process is a part.
// Only a contender that holds something looks: each one in a cycle does.
//
//	waits for 10 s -> search -> nothing: again after 10 s, 20 s, 40 s, …, 320 s
//	                    |
//	                    v
//	     cycle -> 0.5 s -> confirm -> report -> 1 s -> confirm -> give up
//
// It gives up only with WithDeadlockError, and 12.5 s later for each younger
// contender of the cycle that has it: if that gives up, nobody else does. It
// looks for that every 12.5 s, and then searches again at once.
//
// A search reads the queue of each hold, and no more if nobody waits there who
// holds something: 16 queues at most, 64 entries of each. After the first five
// minutes a contender searches once in 320 s, so 1,000 of them send three or
// four requests in a second, and 50 at worst. Those of one client search one
// after the other.

const (
	chainDelay   = 10 * time.Second       // of waiting, before the first search
	longestPause = 320 * time.Second      // between two searches
	confirmAfter = 500 * time.Millisecond // more than an entry outlives its call
	yieldAfter   = time.Second            // so that others can report the cycle
	// nextYields is by how much the next youngest gives up later: the youngest
	// may only just have begun to wait. It may also be blind, if it has no
	// client of a service in the cycle.
	nextYields = chainDelay + confirmAfter + 2*yieldAfter
)

// ErrDeadlock means that the caller waited for a contender that waited, perhaps
// through others, for a hold in the caller's context: see WithDeadlockError.
// Release that hold, so that the others can go on, before you try again.
var ErrDeadlock = engine.ErrDeadlock

// DeadlockError names the contenders of a deadlock: errors.Is(err, ErrDeadlock)
// is true. It is the error of a call with [WithDeadlockError], and that of an
// event.Deadlocked.
type DeadlockError struct {
	// Parties are in the order in which they wait: each for the next one, and
	// the last one for the first.
	Parties []DeadlockParty
}

// DeadlockParty is a contender of a deadlock.
type DeadlockParty struct {
	Identity string
	Service  string            // of Queue
	Queue    driver.Queue      // in which it waits
	Token    coordinator.Token // that it would have
	Holds    OuterHold         // for which the party before it waits
}

func (e *DeadlockError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v of %d contenders: ", ErrDeadlock, len(e.Parties))
	several := slices.ContainsFunc(e.Parties, func(p DeadlockParty) bool {
		return p.Service != e.Parties[0].Service
	})
	for i, p := range e.Parties {
		if i > 0 {
			text.WriteString("; ")
		}
		fmt.Fprintf(&text, "%s holds %s (token %d) and waits for %s (token %d)",
			engine.Printable(p.Identity), p.Holds.Queue, p.Holds.Token, p.Queue, p.Token)
		if several {
			text.WriteString(" of " + engine.Printable(p.Service))
		}
	}
	return text.String()
}

// Unwrap returns ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

// deadlockOf names the links of a cycle. Each waits for the one before it.
func deadlockOf(cycle []link) *DeadlockError {
	e := &DeadlockError{}
	for i := range cycle {
		w := cycle[(len(cycle)-i)%len(cycle)]
		e.Parties = append(e.Parties, DeadlockParty{Identity: w.info.Identity,
			Service: w.at.session.Client().String(), Queue: w.at.queue, Token: w.token, Holds: w.holds})
	}
	return e
}

// seekDeadlock looks for deadlocks while the contender waits with the context
// that it returns, which ends with ctx, or with a DeadlockError. It does
// nothing for a contender that holds nothing.
func (a *attempt) seekDeadlock(ctx context.Context) (context.Context, func()) {
	if n := a.info.Nest; n == nil || n.Waits == 0 {
		return ctx, func() {}
	}
	bound, cancel := context.WithCancelCause(ctx)
	d := &deadlocks{attempt: a, giveUp: cancel}
	timer := time.AfterFunc(chainDelay, func() { a.session.Go(func() { d.seek(bound) }) })
	return bound, func() { timer.Stop(); cancel(nil) }
}

// deadlocks is the search of one contender.
type deadlocks struct {
	*attempt
	giveUp   context.CancelCauseFunc
	reported string // signature of the latest
}

func (d *deadlocks) seek(ctx context.Context) {
	// The wait ends with the session by itself. This goroutine has to end by
	// then, too.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.session.Context(), cancel)()
	for pause := chainDelay; ; pause = min(2*pause, longestPause) {
		if d.once(ctx) || !slept(ctx, pause) {
			return
		}
	}
}

// once searches, and again if another contender has resolved what it found:
// this one may be in a further deadlock, in which it is the one to give up. It
// reports whether it has given up.
func (d *deadlocks) once(ctx context.Context) (over bool) {
	own := d.info.Nest
	me := link{at: site{d.session, d.queue.id}, id: d.joined.Place.ID, token: d.joined.Token, info: d.info}
	var sessions []*engine.Session
	for _, s := range append([]*engine.Session{d.session}, own.sessions...) {
		if !slices.Contains(sessions, s) {
			sessions = append(sessions, s)
		}
	}
	for ctx.Err() == nil {
		var cycle []link
		search := newSearch(sessions, chainReads)
		d.inTurn(ctx, func() { cycle = search.find(ctx, me) })
		if cycle == nil || !d.lasts(ctx, search, cycle, confirmAfter) {
			return false
		}
		found := deadlockOf(cycle)
		if is := signature(cycle); is != d.reported {
			d.reported = is
			d.report(found)
		}
		before := rank(cycle)
		if before < 0 {
			return false
		}
		if d.remains(ctx, search, cycle, before) {
			d.giveUp(found)
			return true
		}
	}
	return false
}

// remains reports whether a cycle is there still when so many others have had
// the time to give up. It asks after each of them.
func (d *deadlocks) remains(ctx context.Context, s *search, cycle []link, before int) bool {
	for range before {
		if !d.lasts(ctx, s, cycle, nextYields) {
			return false
		}
	}
	return d.lasts(ctx, s, cycle, yieldAfter)
}

// lasts reports whether a cycle is there still after a pause.
func (d *deadlocks) lasts(ctx context.Context, s *search, cycle []link, pause time.Duration) (so bool) {
	if slept(ctx, pause) {
		d.inTurn(ctx, func() { so = s.confirm(ctx, cycle) })
	}
	return so
}

// inTurn calls f, unless ctx ends first, while no other contender of the client
// sends the requests of a search.
func (d *deadlocks) inTurn(ctx context.Context, f func()) {
	done, err := d.queue.client.Search(ctx)
	if err == nil {
		defer done()
		f()
	}
}

// report logs a deadlock, and notifies the observers.
func (d *deadlocks) report(found *DeadlockError) {
	c, waited := d.queue.client, time.Since(d.since)
	c.Log().Warn("baton: deadlock: contenders wait for each other", "queue", d.queue.id, "call", d.Op,
		"token", d.joined.Token, "waited", waited, "error", found)
	c.Observe(event.Event{Kind: event.Deadlocked, Session: d.session.ID(), Op: d.Op, Queue: d.queue.id,
		Token: d.joined.Token, Duration: waited, Err: found})
}

// mostQueues is how many queues Deadlocks reads.
const mostQueues = 1000

// Deadlocks returns the deadlocks among the contenders of a client's service
// and namespace, each once: see [WithDeadlockError]. It reads the first 64
// entries of each queue, of 1,000 queues at most, and if it finds a cycle, it
// reads its queues again half a second later. It does not see cycles that also
// go through other services. For a client of a shared layout the error is
// ErrInvalid.
func Deadlocks(ctx context.Context, client *coordinator.Client) ([]*DeadlockError, error) {
	names, err := client.Queues(ctx, "")
	if err != nil {
		return nil, err
	}
	session, err := engine.Of(client).Session(ctx)
	if err != nil {
		return nil, engine.Describe(ctx, "find deadlocks", client.String(), err)
	}
	search, cycles := newSearch([]*engine.Session{session}, mostQueues), map[string][]link{}
	for _, n := range names {
		at := site{session, driver.NewQueue(n.Kind, n.Name)}
		for _, e := range search.list(ctx, at) {
			w := linkOf(at, e)
			if w.info.Nest == nil || w.info.Nest.Waits == 0 {
				continue
			}
			if cycle := search.find(ctx, w); cycle != nil {
				cycles[signature(cycle)] = cycle
			}
		}
	}
	if len(cycles) == 0 || !slept(ctx, confirmAfter) {
		return nil, context.Cause(ctx)
	}
	var found []*DeadlockError
	for _, is := range slices.Sorted(maps.Keys(cycles)) {
		if search.confirm(ctx, cycles[is]) {
			found = append(found, deadlockOf(cycles[is]))
		}
	}
	return found, context.Cause(ctx)
}

// slept waits for d, and reports whether ctx is still alive.
func slept(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
