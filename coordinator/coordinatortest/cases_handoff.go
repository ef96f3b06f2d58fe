package coordinatortest

import (
	"context"
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// nearestCases check whom a joiner is told to be behind. A driver may leave it out.
var nearestCases = []testCase{
	{name: "J8/nearest is who joined before", body: nearestJoined},
	{name: "J8/nearest of one who asks for more is who joined before", body: nearestAsked},
	{name: "J8/nearest of one who joins again is who joined before", body: nearestAgain},
}

// handoffCases need Handoff.
var handoffCases = []testCase{
	{name: "N1/a conversion is no pass", needs: []Lever{Converter}, body: conversionIsNoPass},
	{name: "N1/an earlier pass of the same session is no pass", body: earlierPass},
	{name: "N1/a pass of nothing is no pass", needs: []Lever{Remove}, body: passOfNothing},
	{name: "N3/what a pass leaves is no contender", body: passLeavesNothing},
	{name: "N3/what a pass leaves goes unheard", needs: []Lever{Events, HeadWatcher}, body: passGoesUnheard},
	{name: "L3/a pass whose reply was lost passes on", needs: []Lever{Network}, body: passUnanswered},
	{name: "W2/a pass notifies whoever follows and nobody else", needs: []Lever{Events}, body: passNotifiesOne},
}

// passedOnCases have one leave from the middle of a queue that is handed on.
func passedOnCases() (all []testCase) {
	for _, w := range waysOut {
		all = append(all, testCase{
			name: "N1/a queue is passed on past " + w.what, needs: w.needs,
			body: func(e *env) { passedOn(e, w) },
		})
	}
	return all
}

// joinBehind joins as one who follows.
func (e *env) joinBehind(s session, queue driver.Queue) driver.Joined {
	return e.joinDuel(s, queue, true)
}

// followed starts a Follow, as watch starts a Watch.
func (e *env) followed(s session, queue driver.Queue, own, ahead driver.Place) *follower {
	return follows.begin(e, s, &duel{
		queue: queue, first: driver.Joined{Place: ahead}, second: driver.Joined{Place: own},
	})
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
		// It goes: whoever comes next is behind the one before it, of whom it may be told nothing.
		e.leave(s, queue, j.Place)
		next := e.joinBehind(a, queue)
		e.near(next, "behind one who left:", j.Place, last.Place)
		if e.has(Handoff) && contenderOf(next.Nearest) == contenderOf(j.Place) {
			e.told(e.followed(a, queue, next.Place, next.Nearest), "the one ahead had left", false)
		}
		last = next
	}
}

// nearestAsked: a joiner that would be alone, or that knows the record, joins as any other.
func nearestAsked(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	version := e.setRecord(a, queue, "value", 0)
	c := alone()
	c.Follows, c.Record = true, version
	last := e.joinAs(a, queue, c)
	e.near(last, "alone:")
	for _, s := range []session{a, b} {
		c := alone()
		c.Follows, c.Record = true, version
		_, err := s.Join(e.soon(), queue, c)
		e.is(err, "Join of one who wants to be alone", driver.ErrTaken)
		c.ID, c.Alone = newID(), false
		e.refuseStale(s, queue, c, version+1)
	}
	for _, s := range []session{b, a} { // those who were refused are not near
		c := contender()
		c.Follows, c.Record = true, version
		j := e.joinAs(s, queue, c)
		e.near(j, "with the record:", last.Place)
		last = j
	}
}

// nearestAgain: others have joined since.
func nearestAgain(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first, second := e.joinBehind(a, queue), e.joinBehind(b, queue)
	e.joinBehind(a, queue)
	again := func(s session, j driver.Joined, may ...driver.Place) {
		c := driver.Contender{ID: j.Place.ID, Mode: "x", Follows: true, Again: true}
		e.near(e.joinAs(s, queue, c), "joined again:", may...)
	}
	again(b, second, first.Place)
	again(a, first)
}

// passedOn: nobody is told that it is first because one ahead has left who was
// not. Whoever comes to follow one who has passed is not kept waiting.
func passedOn(e *env, w way) {
	a, b, queue := e.open(), e.open(), e.queue()
	d := &duel{queue: queue, ahead: e.open(), behind: e.open()}
	first, second := e.joinBehind(a, queue), e.joinBehind(b, queue)
	d.first, d.second = e.joinBehind(d.ahead, queue), e.joinBehind(d.behind, queue)
	f := e.followed(d.behind, queue, d.second.Place, d.first.Place)
	e.quiet(f.outcome, "everybody joined")
	w.happen(e, d, nil)
	e.told(f, w.what, false)
	f = e.followed(d.behind, queue, d.second.Place, second.Place)
	passes.must(e, a, queue, first)
	e.quiet(f.outcome, "one further ahead passed")
	e.told(e.followed(b, queue, second.Place, first.Place), "the one ahead had passed", true)
	e.same(e.ahead(b, queue, second.Place), []string{}, "ahead:")
	passes.must(e, b, queue, second)
	e.told(f, "the one ahead passed", true)
	passes.must(e, d.behind, queue, d.second)
	e.empty(queue)
}

// empty checks that a queue is empty to everybody who looks.
func (e *env) empty(queue driver.Queue) {
	s := e.open()
	e.same(e.standing(s, queue), []string{}, "in the queue:")
	e.leave(s, queue, e.joinAs(s, queue, alone()).Place)
}

// conversionIsNoPass: who follows has to look, and finds the one ahead still there.
func conversionIsNoPass(e *env) {
	d := e.duelOf(true)
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	old := d.first
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	e.told(f, "the one ahead was converted", false)
	e.told(e.followed(d.behind, d.queue, d.second.Place, old.Place), "the one ahead had been converted", false)
	e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{d.first.Place.ID}, "ahead:")
	f = e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	e.quiet(f.outcome, "nothing")
	passes.must(e, d.ahead, d.queue, d.first)
	e.told(f, "the converted one passed", true)
	passes.must(e, d.behind, d.queue, d.second)
	e.empty(d.queue)
}

// earlierPass: whatever a session leaves when it passes speaks of one entry.
func earlierPass(e *env) {
	d := e.duelOf(true)
	third, fourth := e.joinBehind(d.ahead, d.queue), e.joinBehind(d.behind, d.queue)
	passes.must(e, d.ahead, d.queue, d.first)
	f := e.followed(d.behind, d.queue, fourth.Place, third.Place)
	e.quiet(f.outcome, "another of the same session passed")
	e.leave(d.ahead, d.queue, third.Place)
	e.told(f, "one gave up whose session had passed", false)
	e.told(e.followed(d.behind, d.queue, fourth.Place, third.Place), "one had given up whose session had passed", false)
	passes.must(e, d.behind, d.queue, d.second)
	passes.must(e, d.behind, d.queue, fourth)
	e.empty(d.queue)
}

// passOfNothing: it comes too late, for an entry that an operator has deleted.
func passOfNothing(e *env) {
	d := e.duelOf(true)
	e.delete(d.queue, d.first.Place)
	passes.findsNone(e, d.ahead, d.queue, d.first, "a removed entry")
	e.told(e.followed(d.behind, d.queue, d.second.Place, d.first.Place), "the one ahead was removed", false)
	passes.findsNone(e, d.ahead, d.queue, d.first, "a removed entry")
	e.leave(d.behind, d.queue, d.second.Place)
	e.empty(d.queue)
}

// passLeavesNothing: neither when nobody is behind, nor when the one behind is
// gone before it can tell.
func passLeavesNothing(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	passes.must(e, a, queue, e.joinBehind(a, queue))
	if e.has(HeadWatcher) {
		e.isNobody(e.head(a, queue), "after a pass of the only one")
	}
	e.empty(queue)

	first, second := e.joinBehind(a, queue), e.joinBehind(b, queue)
	f := e.followed(b, queue, second.Place, first.Place)
	passes.must(e, a, queue, first)
	e.fires(f.outcome, "the one ahead passed")
	e.eventually("nobody ahead and nobody behind the only one", func() bool {
		v := e.view(b, queue, second.Place)
		return len(v.Ahead) == 0 && v.Last
	})
	e.closes(b)
	e.empty(queue)
}

// passGoesUnheard: what a pass leaves comes and goes, with its session at the
// latest, and wakes nobody.
func passGoesUnheard(e *env) {
	d, c, also := e.duelOf(true), e.connect(), e.open()
	s := e.openOn(c)
	third := e.joinBehind(s, d.queue)
	f := e.followed(s, d.queue, third.Place, d.second.Place)
	before := c.Events()
	passes.must(e, d.ahead, d.queue, d.first)
	head := driver.Head{}
	e.eventually("the second is the head", func() bool {
		head = e.head(also, d.queue)
		return head.ID == d.second.Place.ID
	})
	h := e.start(func() error { _, err := also.Head(e.ctx, d.queue, head.Version); return err })
	r := e.start(func() error { _, err := also.Record(e.ctx, d.queue, 0); return err })
	e.settle()
	e.closes(d.ahead)
	e.quiet(f.outcome, "the session of one further ahead has passed and is over")
	e.waiting(h, "Head", "a session that had passed was over")
	e.waiting(r, "Record", "a session that had passed was over")
	if n := c.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications of one who follows another", n)
	}
	passes.must(e, d.behind, d.queue, d.second)
	e.told(f, "the one ahead passed", true)
}

// passUnanswered: the one behind goes on, and the one who passed learns that it has.
func passUnanswered(e *env) {
	c, b, queue := e.connect(), e.open(), e.queue()
	a := e.openOn(c)
	first, second := e.joinBehind(a, queue), e.joinBehind(b, queue)
	f := e.followed(b, queue, second.Place, first.Place)
	e.lostReply(c,
		func(ctx context.Context) error { return a.Pass(ctx, queue, first.Place) },
		func() bool { return len(e.list(b, queue)) == 1 })
	e.told(f, "the one ahead passed", true)
	passes.repeat(e, a, queue, first)
	e.keeps(b, queue, second.Place.ID)
	passes.must(e, b, queue, second)
	e.empty(queue)
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
		passes.must(e, all[i], queue, places[i])
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
	e.empty(queue)
}
