package coordinatortest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// leavingCases check W1: each way in which a place can leave ends the wait for it.
var leavingCases = []testCase{
	{name: "W1/a leave is told", body: leaving(func(e *env, d *duel) {
		e.leave(d.ahead, d.line, d.first.Place)
	})},
	{name: "W1/a forget is told", body: leaving(func(e *env, d *duel) {
		e.ok(d.ahead.Forget(e.soon(), d.line, d.first.Place.ID), "Forget")
	})},
	{name: "W1/a close is told", body: leaving(func(e *env, d *duel) {
		e.ok(d.ahead.Close(e.soon()), "Close")
	})},
	{name: "W1/an ended session is told", needs: []Lever{Expire}, body: leaving(func(e *env, d *duel) {
		e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	})},
	{name: "W1/a removal is told", needs: []Lever{Remove}, body: leaving(func(e *env, d *duel) {
		e.ok(e.svc.Remove(e.soon(), d.line, d.first.Place), "Remove of the harness")
	})},
	{name: "W1/a session that runs out is told", needs: []Lever{Hold}, body: runsOut},
	{name: "W1/a place that is gone already is told", body: goneAlready},
	{name: "W1/a leaving at the time of the call is told", body: leavingAtOnce},
	{name: "W1/one of several places is told", body: oneOfSeveral},
	{name: "W1/every watcher of a place is told", body: everyWatcher},
	{name: "W1/a leaving while cut off is told after healing", needs: []Lever{Hold}, body: leaving(func(e *env, d *duel) {
		d.cut()
		e.leave(d.ahead, d.line, d.first.Place)
		e.settle()
		d.client.Link.Heal()
	})},
	{name: "W1/a leaving before the watch arrives is told", needs: []Lever{Hold}, body: leavingBeforeArrival},
	{name: "W1/a leaving while disconnected is told", needs: []Lever{Hold, Reset}, body: leaving(func(e *env, d *duel) {
		d.cut()
		d.client.Link.Reset() // what the service sends is lost for good
		e.leave(d.ahead, d.line, d.first.Place)
		e.settle()
		d.client.Link.Reset()
		d.client.Link.Heal()
	})},
	{name: "W1/a leaving after a reconnect is told", needs: []Lever{Reset}, body: leaving(func(e *env, d *duel) {
		d.client.Link.Reset()
		e.settle()
		e.leave(d.ahead, d.line, d.first.Place)
	})},
	{name: "W1/a leaving after a restart is told", needs: []Lever{Restart}, body: leaving(func(e *env, d *duel) {
		e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
		e.leaveUntil(d.ahead, d.line, d.first.Place)
	})},
	{name: "W1/a leaving that was compacted away is told", needs: []Lever{Hold, Reset, Compact}, body: leaving(func(e *env, d *duel) {
		d.cut()
		e.leave(d.ahead, d.line, d.first.Place)
		for range 5 { // history to forget
			e.leave(d.ahead, d.line, e.join(d.ahead, d.line).Place)
		}
		e.ok(e.svc.Compact(e.soon()), "Compact of the harness")
		d.client.Link.Reset() // to resume, the watch must ask for what is forgotten
		d.client.Link.Heal()
	})},
}

// duel is one contender that waits for another, each on a client of its own.
type duel struct {
	line          driver.Line
	ahead, behind driver.Session
	first, second driver.Joined
	client        Client // of the one behind
}

func (e *env) duel() *duel {
	d := &duel{line: e.line(), ahead: e.open(), client: e.connect()}
	d.behind = e.openOn(d.client)
	d.first = e.join(d.ahead, d.line)
	d.second = e.join(d.behind, d.line)
	return d
}

func (d *duel) cut() {
	d.client.Link.HoldRequests()
	d.client.Link.HoldReplies()
}

// leaving watches the one ahead while something makes it leave.
func leaving(happen func(e *env, d *duel)) func(e *env) {
	return func(e *env) {
		d := e.duel()
		w := e.watch(d.behind, d.line, d.first.Place)
		e.quiet(w, "nothing")
		happen(e, d)
		e.fires(w, "the one ahead left")
		e.stands(d.behind, d.line, d.second.Place.ID)
	}
}

// leaveUntil leaves as package coordinator does: again while the outcome is unknown.
func (e *env) leaveUntil(s driver.Session, line driver.Line, p driver.Place) {
	err := e.again(func(ctx context.Context) error { return s.Leave(ctx, line, p) })
	if err != nil {
		e.is(err, "Leave, repeated while the service is unavailable", driver.ErrGone)
	}
}

// runsOut: nobody deletes the entry; the service ends the session by its own clock.
func runsOut(e *env) {
	line, c, behind := e.line(), e.connect(), e.open()
	s := e.openUntended(c)
	first := e.join(s, line)
	e.join(behind, line)
	w := e.watch(behind, line, first.Place)
	c.Link.HoldRequests() // also silences clients that ping on their own
	c.Link.HoldReplies()
	if err := e.ends(w, e.TTL+e.Patience, "Watch of a session that runs out"); err != nil {
		e.fail("nil", "Watch of a session that ran out: %v", err)
	}
}

// goneAlready: a watch that hears only of what comes after it would wait for ever.
func goneAlready(e *env) {
	d := e.duel()
	third := e.join(d.ahead, d.line)
	e.leave(d.ahead, d.line, d.first.Place)
	e.fires(e.watch(d.behind, d.line, d.first.Place), "the place had left")
	e.fires(e.watch(d.behind, d.line, third.Place, d.first.Place), "one of the places had left")
	e.ok(d.ahead.Close(e.soon()), "Close")
	e.fires(e.watch(d.behind, d.line, third.Place), "the session of the place had ended")
}

// leavingAtOnce meets the moment between looking and watching, over and over.
func leavingAtOnce(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	for range 40 {
		first := e.join(a, line)
		w := e.start(func() error { return b.Watch(e.soon(), line, first.Place) })
		time.Sleep(time.Duration(rand.Int64N(int64(e.Settle / 50))))
		e.leave(a, line, first.Place)
		e.fires(w, "a leaving at the same time")
	}
}

// oneOfSeveral: a semaphore's first waiter watches all holders, who leave in any order.
func oneOfSeveral(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	var places []driver.Place
	for range 4 {
		places = append(places, e.join(a, line).Place)
	}
	e.join(b, line)
	for _, i := range []int{3, 0, 1} { // the last, the first, one in between
		w := e.watch(b, line, places...)
		e.quiet(w, "nothing")
		e.leave(a, line, places[i])
		e.fires(w, "one of several left")
		places = append(places[:i:i], places[i+1:]...)
	}
}

// everyWatcher: readers behind one writer all wait for the same place, also over one
// connection.
func everyWatcher(e *env) {
	d := e.duel()
	shared := e.openOn(d.client)
	var all []*outcome
	for _, s := range []driver.Session{d.behind, d.behind, shared, e.open()} {
		all = append(all, e.watch(s, d.line, d.first.Place))
	}
	e.leave(d.ahead, d.line, d.first.Place)
	for _, w := range all {
		e.fires(w, "the one ahead left")
	}
}

// leavingBeforeArrival: for the client the place was there when it called; for the service
// it never was.
func leavingBeforeArrival(e *env) {
	d := e.duel()
	d.client.Link.HoldRequests()
	w := e.watch(d.behind, d.line, d.first.Place)
	e.leave(d.ahead, d.line, d.first.Place)
	d.client.Link.Heal()
	e.fires(w, "the one ahead had left before the service heard of it")
}
