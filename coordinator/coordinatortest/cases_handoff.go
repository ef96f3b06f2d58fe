package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var followCases = []testCase{
	{name: "J8/nearest is who joined before", body: nearestJoined},
	{name: "J8/nearest of one who asks for more is who joined before", body: nearestAsked},
	{name: "J8/nearest of one who joins again is who joined before", body: nearestAgain},
	{name: "N1/only a pass passes", body: onlyPassPasses},
	{name: "N1/a pass before the follow", body: passBefore},
	{name: "N1/a conversion is no pass", body: conversionIsNoPass},
	{name: "N1/an earlier pass of the same session is no pass", body: earlierPass},
	{name: "N1/a pass of nothing is no pass", needs: []Lever{Remove}, body: passOfNothing},
	{name: "N3/what a pass leaves is no contender", body: passLeavesNothing},
	{name: "N3/what a pass leaves goes unheard", needs: []Lever{Events}, body: passGoesUnheard},
	{name: "L3/a pass whose reply was lost passes on", needs: []Lever{Hold, Reset}, body: passUnanswered},
}

// joinBehind joins as one who follows.
func (e *env) joinBehind(s session, queue driver.Queue) driver.Joined {
	c := contender()
	c.Follows = true
	return e.joinAs(s, queue, c)
}

// follower is a Follow under way.
type follower struct {
	*outcome
	passed bool
}

// followed starts a Follow, as watch starts a Watch.
func (e *env) followed(s session, queue driver.Queue, own, ahead driver.Place) *follower {
	f := &follower{}
	f.outcome = e.start(func() error {
		for {
			passed, err := s.Follow(e.ctx, queue, own, ahead)
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				f.passed = passed
				return err
			}
		}
	})
	e.settle()
	return f
}

// told waits for the end of a Follow. A false passed says nothing, so may tells
// whether it could be true.
func (e *env) told(f *follower, after string, may bool) {
	e.fires(f.outcome, after)
	if f.passed && !may {
		e.fail("passed is false", "Follow after %s: passed", after)
	}
}

// near checks whom a contender is told to be behind. A zero place says nothing.
func (e *env) near(j driver.Joined, after string, may ...driver.Place) {
	same := func(p driver.Place) bool { return contenderOf(p) == contenderOf(j.Nearest) }
	if j.Nearest != (driver.Place{}) && !slices.ContainsFunc(may, same) {
		e.fail(fmt.Sprintf("nobody, or one of %+v", may), "%s Nearest is %+v", after, j.Nearest)
	}
}

// contenderOf is a place without its key.
func contenderOf(p driver.Place) driver.Place {
	p.Key = ""
	return p
}

// nearestJoined: who comes next is told of the one before, or of nobody; never
// of one further ahead.
func nearestJoined(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	last := e.joinBehind(a, queue)
	e.near(last, "the first:")
	for i := range 6 {
		s := []session{b, a}[i%2]
		j := e.joinBehind(s, queue)
		e.near(j, "behind another:", last.Place)
		if i%3 < 2 {
			last = j
			continue
		}
		// It goes: whoever comes next is behind the one before it, of whom it may hear nothing.
		e.leave(s, queue, j.Place)
		next := e.joinBehind(a, queue)
		e.near(next, "behind one who left:", j.Place, last.Place)
		if contenderOf(next.Nearest) == contenderOf(j.Place) {
			e.told(e.followed(a, queue, next.Place, next.Nearest), "the one ahead had left", false)
		}
		last = next
	}
}

// nearestAsked: a joiner that would be alone, or that knows the record, joins as any other.
func nearestAsked(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	version := e.setRecord(a, queue, "value", 0)
	c := driver.Contender{ID: newID(), Mode: "x", Follows: true, Alone: true, Record: version}
	first := e.joinAs(a, queue, c)
	e.near(first, "alone:")
	for _, s := range []session{a, b} {
		c.ID = newID()
		if _, err := s.Join(e.soon(), queue, c); !errors.Is(err, driver.ErrTaken) {
			e.fail("ErrTaken", "Join of one who wants to be alone: %v", err)
		}
		refused := driver.Contender{ID: newID(), Mode: "x", Follows: true, Record: version + 1}
		if _, err := s.Join(e.soon(), queue, refused); !errors.Is(err, driver.ErrStale) {
			e.fail("ErrStale", "Join with another record: %v", err)
		}
	}
	last := first
	for _, s := range []session{b, a} { // those who were refused are not near
		j := e.joinAs(s, queue, driver.Contender{ID: newID(), Mode: "x", Follows: true, Record: version})
		e.near(j, "with the record:", last.Place)
		last = j
	}
}

// nearestAgain: others have joined since.
func nearestAgain(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first := e.joinBehind(a, queue)
	c := contender()
	c.Follows = true
	second := e.joinAs(b, queue, c)
	e.joinBehind(a, queue)
	c.Again = true
	again := e.joinAs(b, queue, c)
	e.same2(again, second)
	e.near(again, "joined again:", first.Place)
	e.near(e.joinAs(a, queue, driver.Contender{ID: first.Place.ID, Mode: "x", Follows: true, Again: true}), "the first again:")
}

// behind is who is to follow: the nearest place if there is one, else as a view shows it.
func (e *env) behind(s session, queue driver.Queue, j driver.Joined) driver.Place {
	if j.Nearest != (driver.Place{}) {
		return j.Nearest
	}
	v, err := s.Ahead(e.soon(), queue, j.Place)
	e.ok(err, "Ahead")
	if len(v.Ahead) == 0 {
		e.fail("somebody ahead", "nobody is ahead")
	}
	return v.Ahead[len(v.Ahead)-1]
}

// onlyPassPasses: nobody is told that it is first because one ahead has left who was not.
func onlyPassPasses(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first := e.joinBehind(a, queue)
	second := e.joinBehind(b, queue)
	third := e.joinBehind(a, queue)
	fourth := e.joinBehind(b, queue)
	f4 := e.followed(b, queue, fourth.Place, e.behind(b, queue, fourth))
	e.quiet(f4.outcome, "everybody joined")
	e.leave(a, queue, third.Place)
	e.told(f4, "the one ahead gave up", false)
	f4 = e.followed(b, queue, fourth.Place, second.Place)
	e.ok(a.Pass(e.soon(), queue, first.Place), "Pass")
	e.quiet(f4.outcome, "one further ahead passed")
	e.ok(b.Pass(e.soon(), queue, second.Place), "Pass")
	e.told(f4, "the one ahead passed", true)
	e.ok(b.Pass(e.soon(), queue, fourth.Place), "Pass of the last")
	e.alone(queue)
}

// alone checks that a queue is empty to everybody who looks.
func (e *env) alone(queue driver.Queue) {
	s := e.open()
	e.same(e.standing(s, queue), []string{}, "in the queue:")
	c := contender()
	c.Alone = true
	j, err := s.Join(e.soon(), queue, c)
	e.ok(err, "Join of one who wants to be alone")
	e.leave(s, queue, j.Place)
}

// passBefore: whoever comes to follow one who has passed is not kept waiting.
func passBefore(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first := e.joinBehind(a, queue)
	second := e.joinBehind(b, queue)
	near := e.behind(b, queue, second)
	e.ok(a.Pass(e.soon(), queue, first.Place), "Pass")
	e.told(e.followed(b, queue, second.Place, near), "the one ahead had passed", true)
	e.same(e.ahead(b, queue, second.Place), []string{}, "ahead:")
	e.ok(b.Pass(e.soon(), queue, second.Place), "Pass")
	e.alone(queue)
}

// conversionIsNoPass: who follows has to look, and finds the one ahead still there.
func conversionIsNoPass(e *env) {
	d := e.duelBy(passes)
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	old := d.first
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	e.told(f, "the one ahead was converted", false)
	e.told(e.followed(d.behind, d.queue, d.second.Place, old.Place), "the one ahead had been converted", false)
	e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{d.first.Place.ID}, "ahead:")
	f = e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	e.quiet(f.outcome, "nothing")
	d.out(e)
	e.told(f, "the converted one passed", true)
	passes.leave(e, d.behind, d.queue, d.second.Place)
	e.alone(d.queue)
}

// earlierPass: whatever a session leaves when it passes speaks of one entry.
func earlierPass(e *env) {
	d := e.duelBy(passes)
	third := e.joinBehind(d.ahead, d.queue)
	fourth := e.joinBehind(d.behind, d.queue)
	d.out(e)
	f := e.followed(d.behind, d.queue, fourth.Place, third.Place)
	e.quiet(f.outcome, "another of the same session passed")
	e.leave(d.ahead, d.queue, third.Place)
	e.told(f, "one gave up whose session had passed", false)
	e.told(e.followed(d.behind, d.queue, fourth.Place, third.Place), "one had given up whose session had passed", false)
	passes.leave(e, d.behind, d.queue, d.second.Place)
	passes.leave(e, d.behind, d.queue, fourth.Place)
	e.alone(d.queue)
}

// passOfNothing: it comes too late, for an entry that an operator has deleted.
func passOfNothing(e *env) {
	d := e.duelBy(passes)
	e.ok(e.svc.Remove(e.soon(), d.queue, d.first.Place), "Remove of the harness")
	e.is(d.ahead.Pass(e.soon(), d.queue, d.first.Place), "Pass of a removed entry", driver.ErrGone)
	e.told(e.followed(d.behind, d.queue, d.second.Place, d.first.Place), "the one ahead was removed", false)
	e.is(d.ahead.Pass(e.soon(), d.queue, d.first.Place), "Pass of a removed entry", driver.ErrGone)
	e.leave(d.behind, d.queue, d.second.Place)
	e.alone(d.queue)
}

// passLeavesNothing: neither when nobody is behind, nor when the one behind is
// gone before it can tell.
func passLeavesNothing(e *env) {
	a, queue := e.open(), e.queue()
	first := e.joinBehind(a, queue)
	e.ok(a.Pass(e.soon(), queue, first.Place), "Pass")
	if head := e.head(a, queue); head.Version != 0 {
		e.fail("the head of an empty queue", "after a pass of the only one it is %+v", head)
	}
	e.alone(queue)

	first = e.joinBehind(a, queue)
	b := e.open()
	second := e.joinBehind(b, queue)
	f := e.followed(b, queue, second.Place, e.behind(b, queue, second))
	e.ok(a.Pass(e.soon(), queue, first.Place), "Pass")
	e.fires(f.outcome, "the one ahead passed")
	e.eventually("nobody ahead and nobody behind the only one", func() bool {
		v := e.view(b, queue, second.Place)
		return len(v.Ahead) == 0 && v.Last
	})
	e.ok(b.Close(e.soon()), "Close")
	e.alone(queue)
}

// passGoesUnheard: what a pass leaves comes and goes, with its session at the
// latest, and wakes nobody.
func passGoesUnheard(e *env) {
	d := e.duelBy(passes)
	c := e.connect()
	s, also := e.openOn(c), e.open()
	third := e.joinBehind(s, d.queue)
	f := e.followed(s, d.queue, third.Place, d.second.Place)
	before := c.Events()
	d.out(e)
	head := driver.Head{}
	e.eventually("the second is the head", func() bool {
		head = e.head(also, d.queue)
		return head.ID == d.second.Place.ID
	})
	h := e.start(func() error { _, err := also.Head(e.ctx, d.queue, head.Version); return err })
	r := e.start(func() error { _, err := also.Record(e.ctx, d.queue, 0); return err })
	e.settle()
	e.ok(d.ahead.Close(e.soon()), "Close")
	e.quiet(f.outcome, "the session of one further ahead has passed and is over")
	e.waiting(h, "Head", "a session that had passed was over")
	e.waiting(r, "Record", "a session that had passed was over")
	if n := c.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications of one who follows another", n)
	}
	passes.leave(e, d.behind, d.queue, d.second.Place)
	e.told(f, "the one ahead passed", true)
}

// passUnanswered: the one behind goes on, and the one who passed learns that it has.
func passUnanswered(e *env) {
	c := e.connect()
	a, b, queue := e.openOn(c), e.open(), e.queue()
	first := e.joinBehind(a, queue)
	second := e.joinBehind(b, queue)
	f := e.followed(b, queue, second.Place, first.Place)
	e.lostReply(c,
		func(ctx context.Context) error { return a.Pass(ctx, queue, first.Place) },
		func() bool { return len(e.list(b, queue)) == 1 })
	e.told(f, "the one ahead passed", true)
	passes.leaveUntil(e, a, queue, first.Place)
	e.keeps(b, queue, second.Place.ID)
	passes.leave(e, b, queue, second.Place)
	e.alone(queue)
}

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
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
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
	queue := e.queue()
	var clients [4]Client
	var all [4]session
	var places [4]driver.Joined
	var running [4]*follower
	for i := range all {
		clients[i] = e.connect()
		all[i] = e.openOn(clients[i])
		if places[i] = e.joinBehind(all[i], queue); i > 0 {
			running[i] = e.followed(all[i], queue, places[i].Place, places[i-1].Place)
		}
	}
	for i := range all {
		var before [4]int
		for k := range all {
			before[k] = clients[k].Events()
		}
		passes.leave(e, all[i], queue, places[i].Place)
		if i+1 < len(all) {
			e.told(running[i+1], "the one ahead passed", true)
		}
		e.settle()
		for k := i + 2; k < len(all); k++ {
			if n := clients[k].Events() - before[k]; n != 0 {
				e.fail("no notification", "%d notifications of number %d in the queue when number %d passed", n, k+1, i+1)
			}
		}
	}
	e.alone(queue)
}

// notLeft follows without repeating: the wait may go on or say ErrUnavailable, but nobody has left.
func notLeft(happen func(e *env, d *duel)) func(e *env) {
	return func(e *env) {
		d := e.duelBy(passes)
		o := e.start(func() error { return isPassed.call(e.ctx, d) })
		e.settle()
		happen(e, d)
		e.noLeaving(o, "the connection broke")
		passes.leaveUntil(e, d.ahead, d.queue, d.first.Place)
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

	// The queue is as it was, and can be waited for again.
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
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
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	e.told(f, "the one ahead had passed", true)
	passes.leave(e, d.behind, d.queue, d.second.Place)
	e.eventually(fmt.Sprintf("%d watches, as before, once both have passed", before), func() bool {
		return e.watches() <= before
	})
}

// followOfLost: the service says so at the latest in answer to the next renewal.
func followOfLost(e *env) {
	d := e.duelBy(passes)
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
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

// told waits for another state while something happens, and changes it.
func (x subject) told(happen func(e *env, d *duel, change func(value string))) func(e *env) {
	return func(e *env) {
		d, known := x.duel(e)
		o := x.reach(e, d.behind, d.queue, known, "new")
		e.settle()
		e.waiting(o, x.call, "nothing")
		happen(e, d, func(value string) { x.change(e, d, value) })
		e.reached(o, x.call, "a change")
	}
}

// toldCases check that no change is missed, whatever happens to the one who waits.
func (x subject) toldCases(clause string) []testCase {
	change := func(_ *env, _ *duel, change func(string)) { change("new") }
	return []testCase{
		{name: clause + "/a change is told", body: x.told(change)},
		{name: clause + "/a change at the time of the call is told", body: x.toldAtOnce},
		{name: clause + "/one who gives up takes nobody along", body: x.oneGivesUp},
		{name: clause + "/a change while cut off is told after healing", needs: []Lever{Hold},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.cut()
				change("new")
				e.settle()
				d.client.Link.Heal()
			})},
		{name: clause + "/a change before the request arrives is told", needs: []Lever{Hold}, body: x.toldBeforeArrival},
		{name: clause + "/a change while disconnected is told", needs: []Lever{Hold, Reset},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.cut()
				d.client.Link.Reset() // what the service sends is lost for good
				change("new")
				e.settle()
				d.client.Link.Reset()
				d.client.Link.Heal()
			})},
		{name: clause + "/a change after a reconnect is told", needs: []Lever{Reset},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.client.Link.Reset()
				e.settle()
				change("new")
			})},
		{name: clause + "/a change after a restart is told", needs: []Lever{Restart},
			body: x.told(func(e *env, d *duel, change func(string)) {
				e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
				change("new")
			})},
		{name: clause + "/a change that was compacted away is told", needs: []Lever{Hold, Reset, Compact},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.cut()
				for i := range 5 { // history to forget
					change(fmt.Sprint(i))
				}
				change("new")
				e.ok(e.svc.Compact(e.soon()), "Compact of the harness")
				d.client.Link.Reset() // to resume, the wait must ask for what is forgotten
				d.client.Link.Heal()
			})},
		{name: clause + "/the last of many changes is never missed", body: func(e *env) { x.followMany(e, false) }},
		{name: clause + "/the last of many changes is never missed over reconnects", needs: []Lever{Reset},
			body: func(e *env) { x.followMany(e, true) }},
		{name: clause + "/what is shown never goes back", body: x.neverBack},
	}
}

// toldAtOnce meets the moment between looking and watching, over and over.
func (x subject) toldAtOnce(e *env) {
	d, known := x.duel(e)
	for i := range 30 {
		value := fmt.Sprint(i)
		o := x.reach(e, d.behind, d.queue, known, value)
		time.Sleep(time.Duration(rand.Int64N(int64(e.Settle / 50))))
		x.change(e, d, value)
		e.reached(o, x.call, "a change at the same time")
		known = x.now(e, d.behind, d.queue).version // as new as what it was told before
	}
}

// oneGivesUp: waits of one session for the same may share what they have at the service.
func (x subject) oneGivesUp(e *env) {
	d, known := x.duel(e)
	ctx, cancel := context.WithCancel(e.ctx)
	wait := func() error { _, err := x.read(ctx, d.behind, d.queue, known); return err }
	first := e.start(wait)
	time.Sleep(e.Settle / 20)
	others := []*outcome{x.reach(e, d.behind, d.queue, known, "new"), x.reach(e, d.behind, d.queue, known, "new")}
	e.settle()
	cancel()
	e.is(e.ends(first, e.Patience, "one who gives up"), "one who gives up", context.Canceled)
	e.settle()
	for _, o := range others {
		e.waiting(o, x.call, "another gave up")
	}
	x.change(e, d, "new")
	for _, o := range others {
		e.reached(o, x.call, "a change")
	}
}

// toldBeforeArrival: for the client the state was the one it knows when it
// called; the service never saw it.
func (x subject) toldBeforeArrival(e *env) {
	d, known := x.duel(e)
	d.client.Link.HoldRequests()
	o := x.reach(e, d.behind, d.queue, known, "new")
	e.settle()
	x.change(e, d, "new")
	d.client.Link.Heal()
	e.reached(o, x.call, "a change before the service heard of the wait")
}

// followMany: several follow, on one client and on others, while changes come
// faster than they look.
func (x subject) followMany(e *env, reconnects bool) {
	d, _ := x.duel(e)
	var readers []*outcome
	for _, s := range []session{d.behind, e.openOn(d.client), d.ahead, e.open()} {
		readers = append(readers, x.reach(e, s, d.queue, driver.Any, "last"))
	}
	for i := range 30 {
		x.change(e, d, fmt.Sprint(i))
		sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50))))
		if reconnects && i%10 == 5 {
			d.client.Link.Reset()
		}
	}
	x.change(e, d, "last")
	for _, o := range readers {
		e.reached(o, x.call, "the last of many changes")
	}
}

// neverBack: replicas that answer in turn must not lead a reader back and forth.
func (x subject) neverBack(e *env) {
	d, _ := x.duel(e)
	const n = 20
	writer := e.start(func() error {
		for i := range n {
			if err := x.set(e.soon(), d, fmt.Sprintf("%04d", i)); err != nil {
				return err
			}
			sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50))))
		}
		return nil
	})
	latest, end := "", fmt.Sprintf("%04d", n-1)
	for limit := time.Now().Add(e.Patience); latest != end; sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) {
		got := x.now(e, d.behind, d.queue).value
		if got == "old" && latest == "" {
			continue
		}
		if got == "old" || got < latest {
			e.fail("at least as new as before", "%s shows %q after %q", x.call, got, latest)
		}
		if latest = got; time.Now().After(limit) {
			e.fail("the last value", "after %v %s shows %q", e.Patience, x.call, got)
		}
	}
	e.ok(e.ends(writer, e.Patience, "one who writes"), "one who writes")
}

// chainCases pass a queue on to its end, as an exclusive recipe does.
var chainCases = []testCase{
	{name: "N1/a queue is passed on to its end", body: chained(nil)},
	{name: "N1/a queue is passed on past one who gives up", body: chained((*chain).giveUp)},
	{name: "N1/a queue is passed on past one who expires", needs: []Lever{Expire}, body: chained((*chain).expire)},
	{name: "N1/a queue is passed on past one who is removed", needs: []Lever{Remove}, body: chained((*chain).remove)},
	{name: "N1/a queue is passed on past one who is converted", body: chained((*chain).convert)},
	{name: "G1/many goroutines follow, pass on and give up", body: manyFollow},
}

// relay is a queue in which everybody follows the one ahead.
type relay struct {
	*env
	queue  driver.Queue
	inside atomic.Int32
	last   atomic.Int64
}

// turn waits until own is first in the queue: by a pass to it, or by a look after any other leaving.
func (r *relay) turn(ctx context.Context, s session, own driver.Joined) error {
	for ahead := own.Nearest; !own.First; ahead = (driver.Place{}) {
		if ahead == (driver.Place{}) {
			v, err := s.Ahead(ctx, r.queue, own.Place)
			if err != nil {
				return fmt.Errorf("Ahead: %w", err)
			}
			if len(v.Ahead) == 0 {
				break
			}
			ahead = v.Ahead[len(v.Ahead)-1]
		}
		passed, err := s.Follow(ctx, r.queue, own.Place, ahead)
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return fmt.Errorf("Follow: %w", err)
		}
		if err == nil && passed {
			break
		}
	}
	if n := r.inside.Add(1); n != 1 {
		return fmt.Errorf("%d contenders are first at once", n)
	}
	if before := r.last.Swap(int64(own.Token)); before >= int64(own.Token) {
		return fmt.Errorf("token %d came after %d", own.Token, before)
	}
	return nil
}

// on passes on.
func (r *relay) on(s session, own driver.Joined) error {
	r.inside.Add(-1)
	if err := s.Pass(r.soon(), r.queue, own.Place); err != nil {
		return fmt.Errorf("Pass: %w", err)
	}
	return nil
}

// chain is a relay of five contenders. The one in the middle has a session of its own.
type chain struct {
	relay
	all [5]link
}

type link struct {
	s     session
	own   driver.Joined
	turn  *outcome
	leave context.CancelFunc // ends the wait
}

const middle = 2

// chained lets something happen to the one in the middle while all wait, and
// passes the queue on to its end.
func chained(happen func(c *chain)) func(e *env) {
	return func(e *env) {
		c := &chain{relay: relay{env: e, queue: e.queue()}}
		a, b, own := e.open(), e.open(), e.open()
		for i, s := range []session{a, b, own, a, b} {
			c.all[i].s, c.all[i].own = s, e.joinBehind(s, c.queue)
			c.wait(i)
		}
		e.settle()
		if happen != nil {
			happen(c)
		}
		e.settle()
		for i := range c.all {
			if l := &c.all[i]; l.turn != nil {
				e.ok(e.ends(l.turn, e.Patience, "the wait of one to whom all ahead have passed"), fmt.Sprintf("the wait of number %d", i+1))
				e.settle() // for those to whom nobody has passed
				e.ok(c.on(l.s, l.own), fmt.Sprintf("number %d", i+1))
			}
		}
		e.alone(c.queue)
	}
}

func (c *chain) wait(i int) {
	l := &c.all[i]
	ctx, cancel := context.WithCancel(c.ctx)
	l.leave, l.turn = cancel, c.start(func() error { return c.turn(ctx, l.s, l.own) })
}

// out makes sure that the one in the middle waits no more.
func (c *chain) out(want ...error) *link {
	l := &c.all[middle]
	c.is(c.ends(l.turn, c.Patience, "the wait of one who is out"), "the wait of one who is out", want...)
	l.turn = nil
	return l
}

func (c *chain) giveUp() {
	c.all[middle].leave()
	l := c.out(context.Canceled)
	c.leave(l.s, c.queue, l.own.Place)
}

func (c *chain) expire() {
	c.ok(c.svc.Expire(c.soon(), c.all[middle].s), "Expire of the harness")
	c.out(driver.ErrSessionLost, driver.ErrGone)
}

func (c *chain) remove() {
	c.ok(c.svc.Remove(c.soon(), c.queue, c.all[middle].own.Place), "Remove of the harness")
	c.all[middle].leave() // it need not notice by itself
	c.out(context.Canceled, driver.ErrGone, driver.ErrSessionLost)
}

// convert: it stays in the queue, and waits on with its new place.
func (c *chain) convert() {
	c.all[middle].leave()
	l := c.out(context.Canceled)
	l.own = c.env.convert(l.s, c.queue, l.own, "r", "")
	l.own.Nearest = driver.Place{}
	c.wait(middle)
}

// manyFollow: whoever takes a leaving for a pass that is none comes in while another is there.
func manyFollow(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	r := &relay{env: e, queue: e.queue()}
	var running []*outcome
	for i := range 18 {
		s := sessions[i%len(sessions)]
		running = append(running, e.start(func() error {
			for round := range 4 {
				if err := r.take(s, (i+round)%3 == 0); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "a goroutine that follows and passes on"), "a goroutine that follows and passes on")
	}
	e.alone(r.queue)
}

// take joins, waits for its turn, unless it has no patience, and passes on.
func (r *relay) take(s session, impatient bool) error {
	c := contender()
	c.Follows = true
	own, err := s.Join(r.soon(), r.queue, c)
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	ctx := r.in(3 * r.Patience)
	if impatient {
		ctx = r.in(time.Duration(rand.Int64N(int64(r.Settle / 5))))
	}
	switch err := r.turn(ctx, s, own); {
	case err == nil:
		sleep(r.ctx, r.Settle/100)
		return r.on(s, own)
	case ctx.Err() != nil && r.ctx.Err() == nil:
		return s.Leave(r.soon(), r.queue, own.Place)
	default:
		return err
	}
}
