package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// waitCases check how a wait ends that saw no change.
func (x subject) waitCases(clause string) []testCase {
	return []testCase{
		{name: clause + "/a wait ends with its context's error", body: x.cancelled},
		{name: clause + "/a wait that was given up leaves at most one watch", needs: []Lever{Watches}, body: x.watchesGo},
		{name: clause + "/a wait for what is not there leaves at most one watch", needs: []Lever{Watches}, body: x.watchesOfNothingGo},
		{name: clause + "/a wait ends when its own session is lost", needs: []Lever{Expire}, body: x.sessionLost},
		{name: clause + "/a wait ends when its own session is closed", body: x.sessionClosed},
		{name: clause + "/a broken connection is no change", needs: []Lever{Reset}, body: x.resetIsNoChange},
	}
}

// cancelled: observers tell a change from their own timeout by this error.
func (x subject) cancelled(e *env) {
	d, known := x.duel(e)
	what := x.call + " with a cancelled context"
	ctx, cancel := context.WithCancel(e.ctx)
	o := e.start(func() error { _, err := x.read(ctx, d.behind, d.line, known); return err })
	e.settle()
	cancel()
	e.is(e.ends(o, e.Patience, what), what, context.Canceled)

	what = x.call + " that timed out"
	ctx = e.in(e.Settle)
	o = e.start(func() error { _, err := x.read(ctx, d.behind, d.line, known); return err })
	e.is(e.ends(o, e.Settle+e.Patience, what), what, context.DeadlineExceeded)

	// All is as it was, and can be waited for again.
	o = x.reach(e, d.behind, d.line, known, "new")
	e.settle()
	e.waiting(o, x.call, "earlier waits were given up")
	x.change(e, d, "new")
	e.reached(o, x.call, "a change")
}

// giveUp waits and gives up, time and again, and checks what that leaves.
func (x subject) giveUp(e *env, c Client, s session, line driver.Line, known driver.Version) (before int) {
	before = e.watches()
	for i := range 10 {
		// Every second one is given up before the client can know that the service has it.
		slow := i%2 == 1 && e.has(Hold)
		if slow {
			c.Link.HoldReplies()
		}
		_, err := x.read(e.in(e.Settle/10), s, line, known)
		e.is(err, x.call+" that timed out", context.DeadlineExceeded)
		if slow {
			c.Link.Heal()
			time.Sleep(e.Settle / 10) // for what was held
		}
	}
	e.eventually(fmt.Sprintf("at most one watch more than the %d before", before), func() bool {
		return e.watches() <= before+1
	})
	return before
}

// watchesGo: observers that time out and come back must not add up at the service.
func (x subject) watchesGo(e *env) {
	d, known := x.duel(e)
	before := x.giveUp(e, d.client, d.behind, d.line, known)
	x.change(e, d, "new")
	e.eventually(fmt.Sprintf("%d watches, as before, after the change", before), func() bool {
		return e.watches() <= before
	})
}

// watchesOfNothingGo: the watch of what is not there goes when it comes.
func (x subject) watchesOfNothingGo(e *env) {
	d := e.duel()
	d.line = e.line() // of nobody
	before := x.giveUp(e, d.client, d.behind, d.line, 0)
	d.first = e.join(d.ahead, d.line)
	x.change(e, d, "new")
	e.leave(d.ahead, d.line, d.first.Place) // and so do the watches of those who come and go
	e.eventually(fmt.Sprintf("%d watches, as before, after the line has come and gone", before), func() bool {
		return e.watches() <= before
	})
}

// sessionLost: the service says so at the latest in answer to the next renewal.
func (x subject) sessionLost(e *env) {
	d, known := x.duel(e)
	o := x.reach(e, d.behind, d.line, known, "new")
	e.settle()
	e.ok(e.svc.Expire(e.soon(), d.behind), "Expire of the harness")
	what := x.call + " on a session that ended"
	e.is(e.ends(o, e.TTL/3+e.Patience, what), what, driver.ErrSessionLost)
}

// sessionClosed: the end of the own session must not read as a change.
func (x subject) sessionClosed(e *env) {
	d, known := x.duel(e)
	o := e.start(func() error { _, err := x.read(e.ctx, d.behind, d.line, known); return err })
	e.settle()
	e.ok(d.behind.Close(e.soon()), "Close")
	what := x.call + " on a session that was closed"
	if err := e.ends(o, e.Patience, what); err == nil || errors.Is(err, driver.ErrGone) {
		e.fail("ErrSessionLost", "%s: %v", what, err)
	}
}

// resetIsNoChange waits without repeating: the wait may go on or say ErrUnavailable, but it must not say that
// something has changed.
func (x subject) resetIsNoChange(e *env) {
	d, known := x.duel(e)
	o := e.start(func() error { _, err := x.read(e.ctx, d.behind, d.line, known); return err })
	e.settle()
	d.client.Link.Reset()
	e.settle()
	select {
	case <-o.done:
		e.is(o.err, x.call+" after a broken connection", driver.ErrUnavailable)
	default:
	}
}
