package coordinatortest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// exit is a way to leave a queue by oneself: Leave or Pass, for which the same clauses hold.
type exit struct {
	verb   string
	passes bool // and whoever waits follows
	call   func(s session, ctx context.Context, queue driver.Queue, own driver.Place) error
}

var (
	leaves = exit{verb: "leave", call: session.Leave}
	passes = exit{verb: "pass", call: session.Pass, passes: true}
)

var leaveCases = join(leaves.cases(), passes.cases())

func (x exit) cases() []testCase {
	return []testCase{
		{name: "L1/after " + x.verb + " the entry is gone", body: x.removes},
		{name: "L2/a repeated " + x.verb + " deletes nothing", body: x.repeated},
		{name: "L2/a stale " + x.verb + " spares the same id joined later", body: x.stale},
		{name: "L2/a foreign " + x.verb + " deletes nothing", body: x.foreign},
		{name: "L2/" + x.verb + " of a removed entry says so", needs: []Lever{Remove}, body: x.removed},
		{name: "L3/" + x.verb + " may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: x.lostReply},
	}
}

// leave leaves in this way, which must succeed.
func (x exit) leave(e *env, s session, queue driver.Queue, own driver.Place) {
	e.ok(x.call(s, e.soon(), queue, own), x.verb)
}

// leaveUntil leaves as package coordinator does: again while the outcome is unknown.
func (x exit) leaveUntil(e *env, s session, queue driver.Queue, own driver.Place) {
	err := e.again(func(ctx context.Context) error { return x.call(s, ctx, queue, own) })
	if err != nil {
		e.is(err, x.verb+", repeated while the service is unavailable", driver.ErrGone)
	}
}

// gone checks that the exit finds no entry and that the queue keeps the given ones.
func (x exit) gone(e *env, s session, queue driver.Queue, p driver.Place, what string, keep ...string) {
	e.is(x.call(s, e.soon(), queue, p), x.verb+what, driver.ErrGone)
	e.keeps(s, queue, keep...)
}

func (x exit) contender() driver.Contender {
	c := contender()
	c.Follows = x.passes
	return c
}

// removes looks from both sides: the one who left, and the one who is next.
func (x exit) removes(e *env) {
	d := e.duelBy(x)
	x.leave(e, d.ahead, d.queue, d.first.Place)
	e.same(e.standing(d.ahead, d.queue), []string{d.second.Place.ID}, "its own session lists")
	e.fires(e.watch(d.behind, d.queue, d.first.Place), x.verb+" returned nil")
	e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{}, "ahead of the next one:")
	e.stands(d.behind, d.queue, d.second.Place.ID)
}

// repeated: the next one must not be removed in the place of the one that has left.
func (x exit) repeated(e *env) {
	d := e.duelBy(x)
	third := e.joinAs(d.ahead, d.queue, x.contender())
	x.leave(e, d.ahead, d.queue, d.first.Place)
	for range 2 {
		x.gone(e, d.ahead, d.queue, d.first.Place, " repeated", d.second.Place.ID, third.Place.ID)
	}
}

// stale: the entry of another time has the same ID, session and queue.
func (x exit) stale(e *env) {
	s, other := e.open(), e.open()
	queue, c := e.queue(), x.contender()
	keeper := e.joinAs(other, queue, x.contender()) // an empty queue might be cleaned away, and count anew
	old := e.joinAs(s, queue, c)
	e.leave(s, queue, old.Place)
	behind := e.joinAs(other, queue, x.contender())
	e.joinAs(s, queue, c)
	x.gone(e, s, queue, old.Place, " of an earlier entry of the same ID", keeper.Place.ID, behind.Place.ID, c.ID)
	e.fires(e.watch(other, queue, old.Place), "the earlier entry of the same ID had left")
}

// foreign: a place belongs to the session in it, whoever has got hold of it.
func (x exit) foreign(e *env) {
	d := e.duelBy(x)
	all := []string{d.first.Place.ID, d.second.Place.ID}
	x.gone(e, d.behind, d.queue, d.first.Place, " of a place of another session", all...)
	mixed := d.first.Place
	mixed.ID, mixed.Session = d.second.Place.ID, d.second.Place.Session
	x.gone(e, d.behind, d.queue, mixed, " with another's key and the own ID and session", all...)
	elsewhere := e.queue()
	x.gone(e, d.ahead, elsewhere, d.first.Place, " of a place of another queue")
	e.keeps(d.behind, d.queue, all...)
}

// removed: an operator was faster. The holder must hear that it held nothing any more.
func (x exit) removed(e *env) {
	d := e.duelBy(x)
	e.ok(e.svc.Remove(e.soon(), d.queue, d.first.Place), "Remove of the harness")
	x.gone(e, d.ahead, d.queue, d.first.Place, " of a removed entry", d.second.Place.ID)
}

// lostReply: before the call is repeated somebody else has joined the queue.
func (x exit) lostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue := e.queue()
	own := e.joinAs(s, queue, x.contender())
	e.stands(seer, queue, own.Place.ID)
	e.lostReply(c,
		func(ctx context.Context) error { return x.call(s, ctx, queue, own.Place) },
		func() bool { return len(e.list(seer, queue)) == 0 })
	next := e.joinAs(seer, queue, x.contender())
	x.leaveUntil(e, s, queue, own.Place)
	e.keeps(seer, queue, next.Place.ID)
}

// leavingCases check W1: each way in which a place can leave ends the wait for it.
var leavingCases = join(
	watches.told(waysOut), watches.told(waysPast), watches.toldAtOnce(), watches.toldToAll(),
	[]testCase{
		{name: "W1/a session that runs out is told", needs: []Lever{Hold}, body: runsOut},
		{name: "W1/a place that is gone already is told", body: goneAlready},
		{name: "W1/one of several places is told", body: oneOfSeveral},
	},
)

// followedCases check the same of a Follow, for a leaving that is a pass where
// the way of leaving is not what they check; and of one behind whom nobody else
// is.
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
		return &follower{outcome: e.watch(s, d.queue, d.first.Place)}
	}, call: func(ctx context.Context, d *duel) error { return d.behind.Watch(ctx, d.queue, d.first.Place) }}
	follows = wait{who: "follower", to: " to a follower", by: leaves, begin: func(e *env, s session, d *duel) *follower {
		return e.followed(s, d.queue, d.second.Place, d.first.Place)
	}, call: func(ctx context.Context, d *duel) error {
		_, err := d.behind.Follow(ctx, d.queue, d.second.Place, d.first.Place)
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
		e.ok(d.ahead.Forget(e.soon(), d.queue, d.first.Place.ID), "Forget")
	}},
	{what: "a close", happen: func(e *env, d *duel) { e.ok(d.ahead.Close(e.soon()), "Close") }},
	{what: "an ended session", needs: []Lever{Expire}, happen: func(e *env, d *duel) {
		e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	}},
	{what: "a removal", needs: []Lever{Remove}, happen: func(e *env, d *duel) {
		e.ok(e.svc.Remove(e.soon(), d.queue, d.first.Place), "Remove of the harness")
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
		d.by.leaveUntil(e, d.ahead, d.queue, d.first.Place)
	}},
	{what: "a leaving that was compacted away", needs: []Lever{Hold, Reset, Compact}, happen: func(e *env, d *duel) {
		d.cut()
		d.out(e)
		for range 5 { // history to forget
			e.leave(d.ahead, d.queue, e.joinAs(d.ahead, d.queue, d.by.contender()).Place)
		}
		e.ok(e.svc.Compact(e.soon()), "Compact of the harness")
		d.client.Link.Reset() // to resume, the watch must ask for what is forgotten
		d.client.Link.Heal()
	}},
}

// duel is one contender that waits for another, each on a client of its own.
type duel struct {
	queue         driver.Queue
	ahead, behind session
	first, second driver.Joined
	client        Client // of the one behind
	by            exit   // by which the one ahead leaves
}

func (e *env) duel() *duel { return e.duelBy(leaves) }

func (e *env) duelBy(by exit) *duel {
	d := &duel{queue: e.queue(), ahead: e.open(), client: e.connect(), by: by}
	d.behind = e.openOn(d.client)
	d.first = e.joinAs(d.ahead, d.queue, by.contender())
	d.second = e.joinAs(d.behind, d.queue, by.contender())
	return d
}

// out makes the one ahead leave.
func (d *duel) out(e *env) { d.by.leave(e, d.ahead, d.queue, d.first.Place) }

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
		e.stands(d.behind, d.queue, d.second.Place.ID)
	}
}

// runsOut: nobody deletes the entry; the service ends the session by its own clock.
func runsOut(e *env) {
	queue, c, behind := e.queue(), e.connect(), e.open()
	s := e.openUntended(c)
	first := e.join(s, queue)
	e.join(behind, queue)
	w := e.watch(behind, queue, first.Place)
	c.Link.HoldRequests() // also silences clients that ping on their own
	c.Link.HoldReplies()
	if err := e.ends(w, e.TTL+e.Patience, "Watch of a session that runs out"); err != nil {
		e.fail("nil", "Watch of a session that ran out: %v", err)
	}
}

// goneAlready: a watch that hears only of what comes after it would wait for ever.
func goneAlready(e *env) {
	d := e.duel()
	third := e.join(d.ahead, d.queue)
	e.leave(d.ahead, d.queue, d.first.Place)
	e.fires(e.watch(d.behind, d.queue, d.first.Place), "the place had left")
	e.fires(e.watch(d.behind, d.queue, third.Place, d.first.Place), "one of the places had left")
	e.ok(d.ahead.Close(e.soon()), "Close")
	e.fires(e.watch(d.behind, d.queue, third.Place), "the session of the place had ended")
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
		d.first, d.second = d.second, e.joinAs(d.behind, d.queue, x.by.contender())
	}
}

// oneOfSeveral: a semaphore's first waiter watches all holders, who leave in any order.
func oneOfSeveral(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	var places []driver.Place
	for range 4 {
		places = append(places, e.join(a, queue).Place)
	}
	e.join(b, queue)
	for _, i := range []int{3, 0, 1} { // the last, the first, one in between
		w := e.watch(b, queue, places...)
		e.quiet(w, "nothing")
		e.leave(a, queue, places[i])
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
		d.second = e.joinAs(s, d.queue, x.by.contender())
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

var forgetCases = []testCase{
	{name: "F1/forget removes the entry", body: forgetRemoves},
	{name: "F1/forgetting what never joined is no error", body: forgetUnknown},
	{name: "F1/forget after a lost reply leaves nothing", needs: []Lever{Hold, Reset}, body: forgetLostReply},
	{name: "F1/forget beats a join under way", needs: []Lever{Hold, Strand}, body: forgetBeatsJoin},
	{name: "F2/others keep their places", body: forgetSparesOthers},
}

// forgetRemoves: a Join whose reply came is forgotten as one whose reply did not.
func forgetRemoves(e *env) {
	d := e.duel()
	for range 2 { // forgetting again is no error either
		e.ok(d.ahead.Forget(e.soon(), d.queue, d.first.Place.ID), "Forget")
		e.same(e.standing(d.ahead, d.queue), []string{d.second.Place.ID}, "its own session lists")
	}
	e.stands(d.behind, d.queue, d.second.Place.ID)
}

// forgetUnknown: package coordinator forgets whenever it does not know, so most often there
// is nothing.
func forgetUnknown(e *env) {
	s := e.open()
	e.ok(s.Forget(e.soon(), e.queue(), newID()), "Forget in a queue that nobody joined")
	queue := e.queue()
	own := e.join(s, queue)
	e.ok(s.Forget(e.soon(), queue, newID()), "Forget of an ID that never joined")
	e.keeps(s, queue, own.Place.ID)
}

func (e *env) forgetUntil(s session, queue driver.Queue, id string) {
	e.ok(e.again(func(ctx context.Context) error { return s.Forget(ctx, queue, id) }),
		"Forget, repeated while the service is unavailable")
}

// forgetLostReply: the entry is one of which the client never heard.
func forgetLostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue, x := e.queue(), contender()
	stays := e.lostJoin(c, s, seer, queue, x)
	e.forgetUntil(s, queue, x.ID)
	e.keeps(seer, queue, stays)
}

// forgetBeatsJoin: the Join's bytes reach the service after the Forget was acknowledged.
func forgetBeatsJoin(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue, x := e.queue(), contender()
	stays := e.join(s, queue)
	e.acquaint(s, queue)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, queue, x); return err })
	e.forgetUntil(s, queue, x.ID)
	c.Link.Deliver()
	e.keeps(seer, queue, stays.Place.ID)
	next := e.joinUntil(s, queue, contender()) // the session can still join
	e.stands(seer, queue, stays.Place.ID, next.Place.ID)
}

// forgetSparesOthers: contenders of one session are strangers to each other.
func forgetSparesOthers(e *env) {
	d := e.duel()
	third, fourth := e.join(d.ahead, d.queue), e.join(d.ahead, d.queue)
	elsewhere := e.queue()
	other := e.join(d.ahead, elsewhere)
	e.ok(d.ahead.Forget(e.soon(), d.queue, third.Place.ID), "Forget")
	e.keeps(d.ahead, d.queue, d.first.Place.ID, d.second.Place.ID, fourth.Place.ID)
	e.keeps(d.ahead, elsewhere, other.Place.ID)
	// Another session's contender is not this session's to forget.
	_ = d.ahead.Forget(e.soon(), d.queue, d.second.Place.ID)
	e.keeps(d.behind, d.queue, d.first.Place.ID, d.second.Place.ID, fourth.Place.ID)
}

// lateConvertCases: the connection breaks while a Convert is on it, and its
// bytes come to the service after something else has happened to the contender.
var lateConvertCases = []testCase{
	{name: "M4/forget beats a conversion under way", needs: []Lever{Hold, Strand}, body: lateRequest((*late).convert, (*late).forget)},
	{name: "M4/leave beats a conversion under way", needs: []Lever{Hold, Strand}, body: lateRequest((*late).convert, (*late).leave)},
	{name: "M4/forget beats a conversion that was given up while cut off", needs: []Lever{Hold, Reset}, body: conversionCutOff},
	{name: "M3/a conversion under way of a removed entry makes nothing", needs: []Lever{Hold, Strand, Remove},
		body: lateRequest((*late).convert, (*late).remove)},
	{name: "M3/a late conversion does not undo a later one", needs: []Lever{Hold, Strand}, body: conversionOvertaken},
	{name: "M4/a late conversion spares the same id joined later", needs: []Lever{Hold, Strand}, body: lateConversionSpares},
	{name: "C1/requests under way are not applied after close", needs: []Lever{Hold, Strand}, body: closeBeatsAll},
}

// lateWriteCases are the same for Write.
var lateWriteCases = []testCase{
	{name: "P1/a late write does not overwrite a later one", needs: []Lever{Hold, Strand}, body: writeOvertaken},
	{name: "P1/a write that was given up while cut off does not overwrite a later one", needs: []Lever{Hold, Reset}, body: writeCutOff},
	{name: "P2/a late write brings nobody back who has left", needs: []Lever{Hold, Strand}, body: lateRequest((*late).write, (*late).leave)},
	{name: "P2/a late write brings nobody back who was forgotten", needs: []Lever{Hold, Strand}, body: lateRequest((*late).write, (*late).forget)},
	{name: "P2/a late write spares the same id joined later", needs: []Lever{Hold, Strand}, body: lateWriteSpares},
	{name: "P2/a late write does not change the converted entry", needs: []Lever{Hold, Strand}, body: lateWriteConverted},
}

// late is a contender behind another session's, on a client whose requests can be made late.
type late struct {
	*env
	client  Client
	s, seer session
	queue   driver.Queue
	stays   driver.Joined // the other's
	own     driver.Joined
}

func (e *env) late() *late {
	l := &late{env: e, client: e.connect(), seer: e.open(), queue: e.queue()}
	l.s = e.openOn(l.client)
	l.stays, l.own = e.join(l.seer, l.queue), e.join(l.s, l.queue)
	e.stands(l.seer, l.queue, l.stays.Place.ID, l.own.Place.ID)
	return l
}

func (l *late) convert(ctx context.Context) error {
	_, err := l.s.Convert(ctx, l.queue, l.own, "r", []byte("late"))
	return err
}

func (l *late) write(ctx context.Context) error {
	return l.s.Write(ctx, l.queue, l.own.Place, []byte("late"))
}

func (l *late) forget() { l.forgetUntil(l.s, l.queue, l.own.Place.ID) }
func (l *late) leave()  { leaves.leaveUntil(l.env, l.s, l.queue, l.own.Place) }
func (l *late) remove() { l.ok(l.svc.Remove(l.soon(), l.queue, l.own.Place), "Remove of the harness") }

// cutOff makes a call that its caller gives up while nothing passes, and breaks
// the connection. The client may have the request still, to send it on the next
// one.
func (l *late) cutOff(call func(ctx context.Context) error) {
	l.client.Link.HoldRequests()
	l.client.Link.HoldReplies()
	o := l.start(func() error { return call(l.in(l.Settle)) })
	if l.ends(o, l.Settle+l.Patience, "a call while cut off") == nil {
		l.fail("an error", "a call succeeded while nothing passed")
	}
	l.client.Link.Reset()
	l.client.Link.Heal()
}

// nothing lets what is under way arrive, when the contender is not in the queue any more.
func (l *late) nothing() {
	l.stands(l.seer, l.queue, l.stays.Place.ID)
	l.client.Link.Deliver()
	l.keeps(l.seer, l.queue, l.stays.Place.ID)
	next := l.joinUntil(l.s, l.queue, contender()) // the session can still join
	l.stands(l.seer, l.queue, l.stays.Place.ID, next.Place.ID)
}

// lateRequest: an entry of one who has left belongs to nobody who would remove
// it. A late conversion makes one, and so does a late write that makes what is
// not there.
func lateRequest(request func(*late, context.Context) error, gone func(l *late)) func(e *env) {
	return func(e *env) {
		l := e.late()
		e.strand(l.client, func(ctx context.Context) error { return request(l, ctx) })
		gone(l)
		l.nothing()
	}
}

func conversionCutOff(e *env) {
	l := e.late()
	l.cutOff(l.convert)
	l.forget()
	l.nothing()
}

// conversionOvertaken: the Convert was repeated, and the contender has gone on
// and back to its first mode: to the late request all looks as it did when it
// was sent, but for the key.
func conversionOvertaken(e *env) {
	l := e.late()
	e.strand(l.client, l.convert)
	own := e.convertUntil(l.s, l.queue, l.own, "r", "repeated")
	own = e.convert(l.s, l.queue, own, "x", "later")
	l.client.Link.Deliver()
	e.keeps(l.seer, l.queue, l.stays.Place.ID, own.Place.ID)
	e.showsNow(l.s, l.queue, 1, own, "later")
	e.shows(l.seer, l.queue, own, "later")
}

// lateConversionSpares: the ID stands again, for another attempt.
func lateConversionSpares(e *env) {
	l := e.late()
	e.strand(l.client, l.convert)
	l.forget()
	c := contender()
	c.ID, c.Value = l.own.Place.ID, []byte("another time")
	own := e.joinUntil(l.s, l.queue, c)
	l.client.Link.Deliver()
	e.keeps(l.seer, l.queue, l.stays.Place.ID, own.Place.ID)
	e.showsNow(l.s, l.queue, 1, own, "another time")
}

// closeBeatsAll: the record outlives the session, but the session's requests must not.
func closeBeatsAll(e *env) {
	l := e.late()
	writer := e.join(l.s, l.queue)
	known := e.setRecord(l.seer, l.queue, "before", 0) // one that is there: to make the first may take more requests
	e.strand(l.client, l.convert,
		func(ctx context.Context) error { return l.s.Write(ctx, l.queue, writer.Place, []byte("late")) },
		func(ctx context.Context) error {
			_, err := l.s.SetRecord(ctx, l.queue, []byte("late"), known)
			return err
		})
	e.ok(e.again(l.s.Close), "Close")
	l.client.Link.Deliver()
	e.keeps(l.seer, l.queue, l.stays.Place.ID)
	if got := e.record(l.seer, l.queue); got.Version != known {
		e.fail("the record that was there", "a SetRecord that was under way when its session was closed has written %q", got.Value)
	}
}

// writeOvertaken: the late value is older than the one that everybody has seen.
func writeOvertaken(e *env) {
	l := e.late()
	e.strand(l.client, l.write)
	e.writeUntil(l.s, l.queue, l.own.Place, "later")
	e.shows(l.seer, l.queue, l.own, "later")
	l.client.Link.Deliver()
	e.settle()
	e.showsNow(l.s, l.queue, 1, l.own, "later")
	e.shows(l.seer, l.queue, l.own, "later")
}

func writeCutOff(e *env) {
	l := e.late()
	l.cutOff(l.write)
	e.writeUntil(l.s, l.queue, l.own.Place, "later")
	e.settle()
	e.showsNow(l.s, l.queue, 1, l.own, "later")
	e.shows(l.seer, l.queue, l.own, "later")
}

// lateWriteSpares: the ID stands again, for another attempt with another value.
func lateWriteSpares(e *env) {
	l := e.late()
	e.strand(l.client, l.write)
	l.leave()
	c := contender()
	c.ID, c.Value = l.own.Place.ID, []byte("another time")
	own := e.joinUntil(l.s, l.queue, c)
	l.client.Link.Deliver()
	e.settle()
	e.showsNow(l.s, l.queue, 1, own, "another time")
	e.shows(l.seer, l.queue, own, "another time")
}

// lateWriteConverted: the conversion came with a value of its own, which is the later one.
func lateWriteConverted(e *env) {
	l := e.late()
	e.strand(l.client, l.write)
	own := e.convertUntil(l.s, l.queue, l.own, "r", "converted")
	l.client.Link.Deliver()
	e.settle()
	e.showsNow(l.s, l.queue, 1, own, "converted")
	e.shows(l.seer, l.queue, own, "converted")
}
