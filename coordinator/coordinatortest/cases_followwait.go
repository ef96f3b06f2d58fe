package coordinatortest

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// followWaitCases check of a Follow what W2 to W4 say of a Watch.
var followWaitCases = []testCase{
	{name: "W2/others who come and go do not even notify a follower", needs: []Lever{Events}, body: othersNotFollowed},
	{name: "W2/a pass notifies whoever follows and nobody else", needs: []Lever{Events}, body: passNotifiesOne},
	{name: "W2/a broken connection is no leaving to a follower", needs: []Lever{Reset}, body: notLeft(func(e *env, d *duel) {
		d.client.Link.Reset()
	})},
	{name: "W2/a restart is no leaving to a follower", needs: []Lever{Restart}, body: notLeft(func(e *env, _ *duel) {
		e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
	})},
	{name: "W3/a follow ends with its context's error", body: followCancelled},
	{name: "W3/a follow that was given up leaves at most one watch for each place", needs: []Lever{Watches}, body: followsGo},
	{name: "W4/a follow ends when its own session is lost", needs: []Lever{Expire}, body: followOfLost},
	{name: "W4/a follow ends when its own session is closed", body: followOfClosed},
}

func othersNotFollowed(e *env) {
	d := e.duelBy(passes)
	f := e.followed(d.behind, d.line, d.second.Place, d.first.Place)
	before := d.client.Events()
	e.comeAndGo(d, e.open())
	e.settle()
	if n := d.client.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications of a follower while others came and went", n)
	}
	d.out(e)
	e.told(f, "the one it waits for passed", true)
}

// passNotifiesOne counts on the clients of those who are further behind.
func passNotifiesOne(e *env) {
	line := e.line()
	var clients [4]Client
	var all [4]session
	var places [4]driver.Joined
	var running [4]*follower
	for i := range all {
		clients[i] = e.connect()
		all[i] = e.openOn(clients[i])
		if places[i] = e.joinBehind(all[i], line); i > 0 {
			running[i] = e.followed(all[i], line, places[i].Place, places[i-1].Place)
		}
	}
	for i := range all {
		var before [4]int
		for k := range all {
			before[k] = clients[k].Events()
		}
		passes.leave(e, all[i], line, places[i].Place)
		if i+1 < len(all) {
			e.told(running[i+1], "the one ahead passed", true)
		}
		e.settle()
		for k := i + 2; k < len(all); k++ {
			if n := clients[k].Events() - before[k]; n != 0 {
				e.fail("no notification", "%d notifications of number %d in line when number %d passed", n, k+1, i+1)
			}
		}
	}
	e.alone(line)
}

// notLeft follows without repeating: the wait may go on or say ErrUnavailable, but nobody has left.
func notLeft(happen func(e *env, d *duel)) func(e *env) {
	return func(e *env) {
		d := e.duelBy(passes)
		o := e.start(func() error { return isPassed.call(e.ctx, d) })
		e.settle()
		happen(e, d)
		e.noLeaving(o, "the connection broke")
		passes.leaveUntil(e, d.ahead, d.line, d.first.Place)
	}
}

func followCancelled(e *env) {
	d := e.duelBy(passes)
	ctx, cancel := context.WithCancel(e.ctx)
	o := e.start(func() error { return isPassed.call(ctx, d) })
	e.settle()
	cancel()
	e.is(e.ends(o, e.Patience, "Follow with a cancelled context"), "Follow with a cancelled context", context.Canceled)

	ctx = e.in(e.Settle)
	o = e.start(func() error { return isPassed.call(ctx, d) })
	err := e.ends(o, e.Settle+e.Patience, "Follow that timed out")
	e.is(err, "Follow that timed out", context.DeadlineExceeded)

	// The line is as it was, and can be waited for again.
	f := e.followed(d.behind, d.line, d.second.Place, d.first.Place)
	e.quiet(f.outcome, "earlier ones were given up")
	d.out(e)
	e.told(f, "the one ahead passed", true)
}

func followsGo(e *env) {
	d := e.duelBy(passes)
	before := e.watches()
	for i := range 8 {
		// Every second one is given up before the client can know that the service has it.
		slow, patience := i%2 == 1 && e.has(Hold), e.Settle/10
		if slow {
			d.client.Link.HoldReplies()
		}
		e.is(isPassed.call(e.in(patience), d), "Follow that timed out", context.DeadlineExceeded)
		if slow {
			d.client.Link.Heal()
			time.Sleep(e.Settle / 10) // for what was held
		}
	}
	e.eventually(fmt.Sprintf("at most one watch more than the %d before", before), func() bool {
		return e.watches() <= before+1
	})
	d.out(e)
	e.eventually(fmt.Sprintf("at most one watch more than the %d before, once the one ahead has passed", before), func() bool {
		return e.watches() <= before+1
	})
	f := e.followed(d.behind, d.line, d.second.Place, d.first.Place)
	e.told(f, "the one ahead had passed", true)
	passes.leave(e, d.behind, d.line, d.second.Place)
	e.eventually(fmt.Sprintf("%d watches, as before, once both have passed", before), func() bool {
		return e.watches() <= before
	})
}

// followOfLost: the service says so at the latest in answer to the next renewal.
func followOfLost(e *env) {
	d := e.duelBy(passes)
	f := e.followed(d.behind, d.line, d.second.Place, d.first.Place)
	e.ok(e.svc.Expire(e.soon(), d.behind), "Expire of the harness")
	err := e.ends(f.outcome, e.TTL/3+e.Patience, "Follow on a session that ended")
	e.is(err, "Follow on a session that ended", driver.ErrSessionLost, driver.ErrGone)
}

// followOfClosed: the end of the own session must not read as the leaving of another.
func followOfClosed(e *env) {
	d := e.duelBy(passes)
	o := e.start(func() error { return isPassed.call(e.ctx, d) })
	e.settle()
	e.ok(d.behind.Close(e.soon()), "Close")
	if err := e.ends(o, e.Patience, "Follow on a session that was closed"); err == nil {
		e.fail("ErrSessionLost", "Follow on a session that was closed: %v", err)
	}
}
