package coordinatortest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// leavingCases check W1: each way in which a place can leave ends the wait for it.
var leavingCases = join(
	watches.told(waysOut), watches.told(waysPast), watches.toldAtOnce(), watches.toldToAll(),
	[]testCase{
		{name: "W1/a session that runs out is told", needs: []Lever{Hold}, body: runsOut},
		{name: "W1/a place that is gone already is told", body: goneAlready},
		{name: "W1/one of several places is told", body: oneOfSeveral},
	},
)

// followedCases check the same of a Follow, for a leaving that is a pass where the way of leaving is not what they check; and of one behind whom
// nobody else is.
var (
	followedCases = join(follows.told(waysOut), isPassed.told(waysPast), isPassed.toldAtOnce(), isPassed.toldToAll())
)

// wait is a way to wait for the one ahead, which leaves in one of two ways.
type wait struct {
	who, to string // what to call it in the name of a case
	by      exit
	may     bool // it may be passed to
	// call waits once; begin goes on while the service is unavailable.
	call  func(ctx context.Context, d *duel) error
	begin func(e *env, s session, d *duel) *follower
}

var (
	watches = wait{who: "watcher", by: leaves, begin: func(e *env, s session, d *duel) *follower {
		return &follower{outcome: e.watch(s, d.line, d.first.Place)}
	}, call: func(ctx context.Context, d *duel) error { return d.behind.Watch(ctx, d.line, d.first.Place) }}
	follows = wait{who: "follower", to: " to a follower", by: leaves, begin: func(e *env, s session, d *duel) *follower {
		return e.followed(s, d.line, d.second.Place, d.first.Place)
	}, call: func(ctx context.Context, d *duel) error {
		_, err := d.behind.Follow(ctx, d.line, d.second.Place, d.first.Place)
		return err
	}}
	isPassed = wait{who: follows.who, to: follows.to, by: passes, may: true, begin: follows.begin, call: follows.call}
)

// told are the cases for some ways to leave.
func (x wait) told(all []way) []testCase {
	var cases []testCase
	for _, w := range all {
		cases = append(cases, testCase{name: "W1/" + w.what + " is told" + x.to, needs: w.needs, body: x.leaving(w.happen)})
	}
	return cases
}

func (x wait) toldAtOnce() []testCase {
	return []testCase{
		{name: "W1/a leaving at the time of the call is told" + x.to, body: x.leavingAtOnce},
		{name: "W1/a leaving before the wait arrives is told" + x.to, needs: []Lever{Hold}, body: x.leavingBeforeArrival},
	}
}

func (x wait) toldToAll() []testCase {
	return []testCase{{name: "W1/every " + x.who + " of a place is told", body: x.everyWatcher}}
}

// way is something that makes the one ahead leave.
type way struct {
	what   string
	needs  []Lever
	happen func(e *env, d *duel)
}

// waysOut are those by which a place comes to leave.
var waysOut = []way{
	{what: "a leave", happen: func(e *env, d *duel) { d.out(e) }},
	{what: "a forget", happen: func(e *env, d *duel) {
		e.ok(d.ahead.Forget(e.soon(), d.line, d.first.Place.ID), "Forget")
	}},
	{what: "a close", happen: func(e *env, d *duel) { e.ok(d.ahead.Close(e.soon()), "Close") }},
	{what: "an ended session", needs: []Lever{Expire}, happen: func(e *env, d *duel) {
		e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	}},
	{what: "a removal", needs: []Lever{Remove}, happen: func(e *env, d *duel) {
		e.ok(e.svc.Remove(e.soon(), d.line, d.first.Place), "Remove of the harness")
	}},
}

// waysPast are those by which word of it can get lost.
var waysPast = []way{
	{what: "a leaving while cut off and healed", needs: []Lever{Hold}, happen: func(e *env, d *duel) {
		d.cut()
		d.out(e)
		e.settle()
		d.client.Link.Heal()
	}},
	{what: "a leaving while disconnected", needs: []Lever{Hold, Reset}, happen: func(e *env, d *duel) {
		d.cut()
		d.client.Link.Reset() // what the service sends is lost for good
		d.out(e)
		e.settle()
		d.client.Link.Reset()
		d.client.Link.Heal()
	}},
	{what: "a leaving after a reconnect", needs: []Lever{Reset}, happen: func(e *env, d *duel) {
		d.client.Link.Reset()
		e.settle()
		d.out(e)
	}},
	{what: "a leaving after a restart", needs: []Lever{Restart}, happen: func(e *env, d *duel) {
		e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
		d.by.leaveUntil(e, d.ahead, d.line, d.first.Place)
	}},
	{what: "a leaving that was compacted away", needs: []Lever{Hold, Reset, Compact}, happen: func(e *env, d *duel) {
		d.cut()
		d.out(e)
		for range 5 { // history to forget
			e.leave(d.ahead, d.line, e.joinAs(d.ahead, d.line, d.by.contender()).Place)
		}
		e.ok(e.svc.Compact(e.soon()), "Compact of the harness")
		d.client.Link.Reset() // to resume, the watch must ask for what is forgotten
		d.client.Link.Heal()
	}},
}

// duel is one contender that waits for another, each on a client of its own.
type duel struct {
	line          driver.Line
	ahead, behind session
	first, second driver.Joined
	client        Client // of the one behind
	by            exit   // by which the one ahead leaves
}

func (e *env) duel() *duel { return e.duelBy(leaves) }

func (e *env) duelBy(by exit) *duel {
	d := &duel{line: e.line(), ahead: e.open(), client: e.connect(), by: by}
	d.behind = e.openOn(d.client)
	d.first = e.joinAs(d.ahead, d.line, by.contender())
	d.second = e.joinAs(d.behind, d.line, by.contender())
	return d
}

// out makes the one ahead leave.
func (d *duel) out(e *env) { d.by.leave(e, d.ahead, d.line, d.first.Place) }

func (d *duel) cut() {
	d.client.Link.HoldRequests()
	d.client.Link.HoldReplies()
}

// leaving waits for the one ahead while something makes it leave.
func (x wait) leaving(happen func(e *env, d *duel)) func(e *env) {
	return func(e *env) {
		d := e.duelBy(x.by)
		f := x.begin(e, d.behind, d)
		e.quiet(f.outcome, "nothing")
		happen(e, d)
		e.told(f, "the one ahead left", x.may)
		e.stands(d.behind, d.line, d.second.Place.ID)
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
func (x wait) leavingAtOnce(e *env) {
	d := e.duelBy(x.by)
	for range 40 {
		waits := e.start(func() error { return x.call(e.soon(), d) })
		time.Sleep(time.Duration(rand.Int64N(int64(e.Settle / 50))))
		d.out(e)
		e.fires(waits, "a leaving at the same time")
		// The one behind is the one ahead from now on.
		d.ahead, d.behind = d.behind, d.ahead
		d.first, d.second = d.second, e.joinAs(d.behind, d.line, x.by.contender())
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
func (x wait) everyWatcher(e *env) {
	d := e.duelBy(x.by)
	shared := e.openOn(d.client)
	var all []*follower
	for _, s := range []session{d.behind, d.behind, shared, e.open()} {
		d.second = e.joinAs(s, d.line, x.by.contender())
		all = append(all, x.begin(e, s, d))
	}
	d.out(e)
	for _, f := range all {
		e.told(f, "the one ahead left", x.may)
	}
}

// leavingBeforeArrival: for the client the place was there when it called; for the service
// it never was.
func (x wait) leavingBeforeArrival(e *env) {
	d := e.duelBy(x.by)
	d.client.Link.HoldRequests()
	f := x.begin(e, d.behind, d)
	d.out(e)
	d.client.Link.Heal()
	e.told(f, "the one ahead had left before the service heard of it", x.may)
}
