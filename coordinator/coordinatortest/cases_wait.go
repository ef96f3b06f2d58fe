package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// wait is a call that waits for a change of a queue. The second of a pair waits
// for the first to leave, or for its value in the head or record.
type wait struct {
	name   string
	ends   string // the clause for what ends it
	others string // the clause for what does not
	over   string // the clause for its context
	lost   string // the clause for its session
	needs  []Lever
	by     entryCall // by which the first leaves
	// once waits once. passed is the result of Follow.
	once func(ctx context.Context, s session, d *pair) (passed bool, err error)
	// read reads or waits for a value and version; nil for waits without them.
	read func(context.Context, session, driver.Queue, driver.Version) (driver.Record, error)
	// change makes the change; if nil, the first leaves.
	change func(e *env, d *pair)
}

var (
	watches = wait{
		name: "Watch", ends: "W1", others: "W2", over: "W3", lost: "W4", by: leaves,
		once: func(ctx context.Context, s session, d *pair) (bool, error) {
			return false, s.Watch(ctx, d.queue, d.first.Place)
		},
	}
	follows = wait{
		name: "Follow", ends: "W1", others: "W2", over: "W3", lost: "W4",
		by: passes, needs: passes.needs,
		once: func(ctx context.Context, s session, d *pair) (bool, error) {
			return s.Follow(ctx, d.queue, d.second.Place, d.first.Place)
		},
	}
	queueWaits = wait{
		name: "WatchQueue", ends: "Q1", over: "Q1", lost: "Q1",
		by: leaves, needs: []Lever{QueueWatcher},
		once: func(ctx context.Context, s session, d *pair) (bool, error) {
			return false, s.WatchQueue(ctx, d.queue, func(places []driver.Place) bool {
				return slices.Contains(places, d.first.Place)
			})
		},
	}
	headWaits = wait{
		name: "Head", ends: "H1", others: "H2", over: "H3", lost: "H3",
		by: leaves, needs: []Lever{HeadWatcher},
		read: func(
			ctx context.Context, s session, queue driver.Queue, known driver.Version,
		) (driver.Record, error) {
			head, err := s.Head(ctx, queue, known)
			return driver.Record{Value: head.Value, Version: head.Version}, err
		},
	}
	recordWaits = wait{
		name: "Record", ends: "D1", others: "Record", over: "D2", lost: "D2", by: leaves,
		read: func(
			ctx context.Context, s session, queue driver.Queue, known driver.Version,
		) (driver.Record, error) {
			return s.Record(ctx, queue, known)
		},
		change: func(e *env, d *pair) { e.overwrite(d.ahead, d.queue, d.value()) },
	}
)

func waitCases() (all []testCase) {
	for _, x := range []wait{watches, follows, queueWaits, headWaits, recordWaits} {
		add := func(clause, claim string, body func(*env), needs ...Lever) {
			all = append(all, testCase{
				clause + "/" + x.name + ": " + claim, slices.Concat(needs, x.needs), body,
			})
		}
		for _, w := range changes {
			add(x.ends, w.what+" ends the wait",
				func(e *env) { x.waitEnds(e, x.pair(e), w) }, w.needs...)
		}
		if x.change == nil {
			for _, w := range waysOut {
				add(x.ends, w.what+" ends the wait",
					func(e *env) { x.isLeft(e, x.pair(e), w) }, w.needs...)
			}
		}
		add(x.ends, "a change during the call ends the wait", x.changeDuringCall)
		add(x.ends, "all waits end, though one was cancelled", x.allEnd)
		add(x.over, "it ends with its context's error", x.cancelled)
		add(x.over, "a cancelled wait leaves at most one watch", x.watchesGo, Watches)
		add(x.lost, "it ends when its own session is lost", x.sessionLost, Expire)
		add(x.lost, "it ends when its own session is closed", x.sessionClosed)
		add(x.lost, "a broken connection or a restart is no change", x.brokenIsNoChange, Network)
		add("W5", "a server that stops to follow the others does not hold up the wait", x.stalls, Stall)
		if x.others != "" {
			add(x.others, "other contenders end no wait", x.othersEndNoWait)
		}
	}
	return all
}

// pair returns a pair whose second knows the current state.
func (x wait) pair(e *env) *pair {
	d := e.pairOf(x.by.follows)
	if x.change != nil {
		e.overwrite(d.ahead, d.queue, "old")
	}
	x.note(e, d)
	return d
}

// note sets known to the current version.
func (x wait) note(e *env, d *pair) {
	if x.read == nil {
		return
	}
	e.eventually(x.name+" shows what another session has done", func() bool {
		now, err := x.read(e.soon(), d.behind, d.queue, driver.Any)
		e.ok(err, x.name+" of any version")
		d.known = now.Version
		return now.Version != 0
	})
}

// alter makes the change that the wait is for, and repeats it while the service
// is unavailable.
func (x wait) alter(e *env, d *pair) {
	if x.change != nil {
		x.change(e, d)
		return
	}
	x.by.repeat(e, d.ahead, d.queue, d.first)
}

// waitOnce waits once. A spurious wake-up or an intermediate state ends it,
// too.
func (x wait) waitOnce(ctx context.Context, s session, d *pair) (err error) {
	if x.read == nil {
		_, err = x.once(ctx, s, d)
	} else {
		_, err = x.read(ctx, s, d.queue, d.known)
	}
	return err
}

func (x wait) waitFor(ctx context.Context, s session, d *pair) (passed bool, err error) {
	if x.read == nil {
		return x.once(ctx, s, d)
	}
	return false, x.reach(ctx, s, d.queue, d.known, d.value())
}

func (x wait) reach(
	ctx context.Context, s session, queue driver.Queue, known driver.Version, value string,
) error {
	for {
		got, err := x.read(ctx, s, queue, known)
		if err != nil {
			return err
		}
		if got.Version == known {
			return fmt.Errorf("%s returned the known state, version %d", x.name, known)
		}
		if string(got.Value) == value {
			return nil
		}
		known = got.Version
	}
}

type follower struct {
	*outcome
	passed bool
}

// begin starts the wait of the second of a pair.
func (x wait) begin(e *env, s session, d *pair) *follower {
	f, now := &follower{}, *d
	f.outcome = e.waits(func(ctx context.Context) (err error) {
		f.passed, err = x.waitFor(ctx, s, &now)
		return err
	})
	return f
}

// way is a way in which the change happens.
type way struct {
	what   string
	needs  []Lever
	happen func(e *env, d *pair, alter func())
}

// changes are ways in which the notification of a change can be lost.
var changes = []way{
	{what: "a change", happen: func(_ *env, _ *pair, alter func()) { alter() }},
	{what: "a change while cut off and healed", needs: []Lever{Network},
		happen: func(e *env, d *pair, alter func()) {
			cut(d.client.Link)
			alter()
			e.settle()
			d.client.Link.Heal()
		}},
	{what: "a change while disconnected", needs: []Lever{Network},
		happen: func(e *env, d *pair, alter func()) {
			cut(d.client.Link)
			d.client.Link.Reset() // loses the notification
			alter()
			e.settle()
			resetAndHeal(d.client.Link)
		}},
	{what: "a change after a reconnect", needs: []Lever{Network},
		happen: func(e *env, d *pair, alter func()) {
			d.client.Link.Reset()
			e.settle()
			alter()
		}},
	{what: "a change after a restart", needs: []Lever{Restart},
		happen: func(e *env, _ *pair, alter func()) {
			e.restart()
			alter()
		}},
	{what: "a change that was compacted away", needs: []Lever{Network, Compact},
		happen: func(e *env, d *pair, alter func()) {
			cut(d.client.Link)
			alter()
			for range 5 { // history to forget
				e.leave(d.ahead, d.queue, e.joinPair(d.ahead, d.queue, d.follow).Place)
			}
			e.compact()
			resetAndHeal(d.client.Link) // the wait resumes at a compacted revision
		}},
}

// waysOut are ways in which the first of a pair leaves.
var waysOut = []way{
	{what: "a leave",
		happen: func(e *env, d *pair, _ func()) { e.leave(d.ahead, d.queue, d.first.Place) }},
	{what: "a forget",
		happen: func(e *env, d *pair, _ func()) { e.forget(d.ahead, d.queue, d.first.Place.ID) }},
	{what: "a close", happen: func(e *env, d *pair, _ func()) { e.closes(d.ahead) }},
	{what: "an ended session", needs: []Lever{Expire},
		happen: func(e *env, d *pair, _ func()) { e.expire(d.ahead) }},
	{what: "a deletion", needs: []Lever{Remove}, happen: func(e *env, d *pair, _ func()) {
		e.delete(d.queue, d.first.Place)
	}},
	{what: "a removal", needs: removes.needs, happen: func(e *env, d *pair, _ func()) {
		removes.must(e, e.open(), d.queue, d.first)
	}},
}

// changedCases: a converted and written entry may not be bound to its session
// any more.
func changedCases() (all []testCase) {
	for _, w := range waysOut {
		all = append(all, testCase{
			name:  "W1/" + w.what + " of a converted and written entry ends the wait",
			needs: slices.Concat(w.needs, []Lever{Converter, Writer}),
			body: func(e *env) {
				d := watches.pair(e)
				d.first = e.convert(d.ahead, d.queue, d.first, "r", "converted")
				e.write(d.ahead, d.queue, d.first.Place, "written")
				// To a view before the conversion the new place is missing.
				e.shows(d.behind, d.queue, 0, d.first, "written")
				watches.isLeft(e, d, w)
			},
		})
	}
	return all
}

func (x wait) waitEnds(e *env, d *pair, w way) *follower {
	f := x.begin(e, d.behind, d)
	e.stillWaits(f.outcome, "nothing")
	w.happen(e, d, func() { x.alter(e, d) })
	e.fires(f.outcome, w.what)
	return f
}

// isLeft waits while the first leaves in a way that is no pass.
func (x wait) isLeft(e *env, d *pair, w way) {
	if x.waitEnds(e, d, w).passed {
		e.fail("passed is false", "Follow after %s: passed", w.what)
	}
	if x.ends == watches.ends { // the view is as new as what Watch has returned
		e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{}, "ahead after "+w.what)
	}
	e.awaitQueue(d.behind, d.queue, d.second.Place.ID)
}

// changeDuringCall changes the state between a driver's read and its watch, and
// then before the request arrives: the service never had the known state
// during the wait.
func (x wait) changeDuringCall(e *env) {
	d := x.pair(e)
	for range 30 {
		o := e.start(func() error { return errOf(x.waitFor(e.soon(), d.behind, d)) })
		e.jitter(e.Settle / 50)
		x.alter(e, d)
		e.fires(o, "a change at the same time")
		// The second becomes the first.
		x.by.repeat(e, d.ahead, d.queue, d.first)
		d.ahead, d.behind, d.first = d.behind, d.ahead, d.second
		d.second = e.joinPair(d.behind, d.queue, x.by.follows)
		x.note(e, d)
	}
	if e.has(Network) {
		e.leave(d.behind, d.queue, d.second.Place)
		d.client = e.connect()
		d.behind = e.openOn(d.client)
		d.second = e.joinPair(d.behind, d.queue, x.by.follows)
		x.note(e, d)
		d.client.Link.HoldRequests()
		f := x.begin(e, d.behind, d)
		x.alter(e, d)
		d.client.Link.Heal()
		e.fires(f.outcome, "a change before the request arrived")
	}
}

// allEnd: several readers wait for one writer. Those of one client may share a
// watch.
func (x wait) allEnd(e *env) {
	d := x.pair(e)
	ctx, cancel := context.WithCancel(e.ctx)
	given := e.start(func() error { return x.waitOnce(ctx, d.behind, d) })
	e.settle()
	var all []*follower
	now := *d // waits with another place, for the value of the second of d
	for _, s := range []session{d.behind, d.behind, e.openOn(d.client), e.open()} {
		if x.by.follows {
			now.second = e.joinPair(s, d.queue, true)
		}
		all = append(all, x.begin(e, s, &now))
	}
	cancel()
	e.is(e.ends(given, e.Patience, "a cancelled wait"), "a cancelled wait", context.Canceled)
	for _, f := range all {
		e.stillWaits(f.outcome, "another was cancelled")
	}
	x.alter(e, d)
	for _, f := range all {
		e.fires(f.outcome, "a change")
	}
}

func (x wait) cancelled(e *env) {
	d := x.pair(e)
	ctx, cancel := context.WithCancel(e.ctx)
	o := e.start(func() error { return x.waitOnce(ctx, d.behind, d) })
	e.settle()
	cancel()
	e.is(e.ends(o, e.Patience, "a cancelled wait"), "a cancelled wait", context.Canceled)

	short := e.in(e.Settle)
	o = e.start(func() error { return x.waitOnce(short, d.behind, d) })
	err := e.ends(o, e.Settle+e.Patience, "a wait that timed out")
	e.is(err, "a wait that timed out", context.DeadlineExceeded)

	err = x.waitOnce(ctx, d.behind, d)
	e.is(err, "a wait whose context has ended", context.Canceled)

	f := x.begin(e, d.behind, d)
	e.stillWaits(f.outcome, "earlier waits were cancelled")
	x.alter(e, d)
	e.fires(f.outcome, "a change")
}

// cancelWaits waits and times out several times: watches must not add up at the
// service.
func (x wait) cancelWaits(e *env, d *pair) (before int) {
	before = e.watches()
	for i := range 10 {
		// Every second one times out before its reply.
		slow := i%2 == 1 && e.has(Network)
		if slow {
			d.client.Link.HoldReplies()
		}
		err := x.waitOnce(e.in(e.Settle/10), d.behind, d)
		e.is(err, "a wait that timed out", context.DeadlineExceeded)
		if slow {
			d.client.Link.Heal()
			sleep(e.ctx, e.Settle/10) // for the held replies
		}
	}
	e.fewWatches(before+1, "after cancelled waits")
	return before
}

func (x wait) watchesGo(e *env) {
	d := x.pair(e)
	before := x.cancelWaits(e, d)
	x.alter(e, d)
	left := before
	if x.by.follows {
		left++ // the second may watch a marker
	}
	e.fewWatches(left, "after the change")
	// Some services accept watches of entries that do not exist.
	e.fires(x.begin(e, d.behind, d).outcome, "a change before")
	x.by.must(e, d.behind, d.queue, d.second)
	x.changeLast(e, d)
	e.fewWatches(before, "after all have left")
}

// changeLast changes a record once more, which ends the watches on it.
func (x wait) changeLast(e *env, d *pair) {
	if x.change != nil {
		e.overwrite(d.ahead, d.queue, "last")
	}
}

// sessionLost: the client knows at the latest after the next renewal.
func (x wait) sessionLost(e *env) {
	d := x.pair(e)
	f := x.begin(e, d.behind, d)
	e.expire(d.behind)
	err := e.ends(f.outcome, e.TTL/3+e.Patience, "a wait on a session that ended")
	wanted := []error{driver.ErrSessionLost}
	if x.by.follows { // its own place has left
		wanted = append(wanted, driver.ErrGone)
	}
	e.is(err, "a wait on a session that ended", wanted...)
}

// sessionClosed: the end of the wait's own session is no change.
func (x wait) sessionClosed(e *env) {
	d := x.pair(e)
	o := e.start(func() error { return x.waitOnce(e.ctx, d.behind, d) })
	e.settle()
	e.ok(d.behind.Close(e.soon()), "Close")
	err := e.ends(o, e.Patience, "a wait on a session that was closed")
	if err == nil || errors.Is(err, driver.ErrGone) && !x.by.follows {
		e.fail("ErrSessionLost", "a wait on a session that was closed: %v", err)
	}
}

// brokenIsNoChange: the wait may go on or return ErrUnavailable, but not nil.
func (x wait) brokenIsNoChange(e *env) {
	d := x.pair(e)
	breaks := []func(){d.client.Link.Reset}
	if e.has(Restart) {
		breaks = append(breaks, e.restart)
	}
	for _, happen := range breaks {
		e.ok(e.again(d.behind.Renew), "Renew")
		o := e.start(func() error { return x.waitOnce(e.ctx, d.behind, d) })
		e.settle()
		happen()
		e.settle()
		if o.ended() {
			e.is(o.err, "a wait when the connection broke", driver.ErrUnavailable)
		}
	}
	x.by.repeat(e, d.ahead, d.queue, d.first) // the session is alive
}

// stalls has one wait from before and one that begins later.
func (x wait) stalls(e *env) {
	d := x.pair(e)
	before := x.begin(e, d.behind, d)
	defer e.stall(d.client)()
	after := x.begin(e, d.behind, d)
	x.alter(e, d)
	for _, f := range []*follower{before, after} {
		e.ok(e.ends(f.outcome, 2*e.TTL+e.Patience, "a wait at a server that stalls"),
			"a wait at a server that stalls")
	}
}

// othersEndNoWait also counts notifications, which a driver can hide from its
// caller.
func (x wait) othersEndNoWait(e *env) {
	d := x.pair(e)
	f := x.begin(e, d.behind, d)
	also := e.open()
	if e.has(Events) {
		before := d.client.Events()
		e.othersJoinAndLeave(d, also) // other clients only: a client may watch its own entries
		e.settle()
		if n := d.client.Events() - before; n != 0 {
			e.fail("no notification", "%d notifications while others joined and left", n)
		}
	}
	e.othersJoinAndLeave(d, d.behind)
	e.stillWaits(f.outcome, "others joined and left")
	x.alter(e, d)
	e.fires(f.outcome, "a change")
}

// othersJoinAndLeave does all that is no leaving of the pair.
func (e *env) othersJoinAndLeave(d *pair, also session) {
	for range 3 {
		third := e.joinPair(d.ahead, d.queue, d.follow)
		fourth := e.joinPair(also, d.queue, d.follow)
		sleep(e.ctx, e.Settle/20) // time for a watch of the whole queue
		e.leave(d.ahead, d.queue, third.Place)
		e.forget(also, d.queue, fourth.Place.ID)
		passing := e.open()
		e.joinPair(passing, d.queue, d.follow)
		e.closes(passing)
		e.ok(d.ahead.Renew(e.soon()), "Renew")
		e.refuse(d.ahead, d.queue)
		e.refuse(also, d.queue)
	}
}

var watchCases = []testCase{
	{"W1/a session that expires ends the wait", []Lever{Network}, runsOut},
	{"W1/a place that has left before ends the wait", nil, goneAlready},
	{"W1/only a leaving of one of several places ends the wait", nil, oneOfSeveral},
	{"W2/changes of others end no wait", []Lever{Converter, Writer, HeadWatcher}, othersChange},
}

func runsOut(e *env) {
	queue, c, behind := e.queue(), e.connect(), e.open()
	first := e.join(e.openUnrenewed(c), queue)
	e.join(behind, queue)
	w := e.watch(behind, queue, first.Place)
	cut(c.Link) // also stops clients that ping on their own
	e.ok(e.ends(w, e.TTL+e.Patience, "Watch of a session that expires"),
		"Watch of a session that has expired")
}

// goneAlready: a watch of later changes alone would wait for ever.
func goneAlready(e *env) {
	d, c := e.pair(), contender()
	third := e.joinAs(d.ahead, d.queue, c)
	e.leave(d.ahead, d.queue, d.first.Place)
	e.fires(e.watch(d.behind, d.queue, d.first.Place), "the place had left")
	e.fires(e.watch(d.behind, d.queue, third.Place, d.first.Place), "a place had left")
	e.leave(d.ahead, d.queue, third.Place)
	e.joinAs(d.ahead, d.queue, c)
	e.fires(e.watch(d.behind, d.queue, third.Place), "the earlier entry of the same ID had left")
	last := e.join(d.ahead, d.queue)
	e.closes(d.ahead)
	e.fires(e.watch(d.behind, d.queue, last.Place), "the session of the place had ended")
}

// oneOfSeveral: a semaphore's first waiter watches all holders, which leave in
// any order.
func oneOfSeveral(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	other := e.join(a, queue)
	var places []driver.Place
	for range 4 {
		places = append(places, e.join(a, queue).Place)
	}
	e.join(b, queue)
	w := e.watch(b, queue, places...)
	e.leave(a, queue, other.Place)     // ahead, but not watched
	for _, i := range []int{3, 0, 1} { // the last, the first, one in between
		e.stillWaits(w, "nothing to its places")
		e.leave(a, queue, places[i])
		e.fires(w, "one of several left")
		places = append(places[:i:i], places[i+1:]...)
		w = e.watch(b, queue, places...)
	}
}

// othersChange: a write is no leaving, and a conversion is the leaving of the
// converted place only. Head waits for changes of the first entry only.
func othersChange(e *env) {
	q := e.trio()
	head := func(known driver.Version, value string) *outcome {
		return e.waits(func(ctx context.Context) error {
			return headWaits.reach(ctx, q.behind, q.queue, known, value)
		})
	}
	h := head(e.head(q.behind, q.queue).Version, "new")
	w, f := e.watch(q.behind, q.queue, q.own.Place), e.watch(q.behind, q.queue, q.first.Place)
	e.write(q.s, q.queue, q.own.Place, "written")
	for _, mode := range []string{"r", "x"} {
		q.last = e.convert(q.behind, q.queue, q.last, mode, "converted")
	}
	e.write(q.behind, q.queue, q.last.Place, "written")
	e.overwrite(q.ahead, q.queue, "record")
	e.stillWaits(w, "conversions and writes of others, and a record")
	e.stillWaits(h, "conversions and writes of others, and a record")
	e.write(q.ahead, q.queue, q.first.Place, "new")
	e.fires(h, "a write of the first")
	e.stillWaits(f, "a write of the first")
	h = head(e.head(q.behind, q.queue).Version, "converted")
	q.first = e.convert(q.ahead, q.queue, q.first, "r", "converted")
	e.fires(h, "a conversion of the first")
	e.fires(f, "a conversion of the first")
	e.leave(q.ahead, q.queue, q.first.Place)
	e.stillWaits(w, "the first left")
	e.leave(q.s, q.queue, q.own.Place)
	e.fires(w, "its place left")
}
