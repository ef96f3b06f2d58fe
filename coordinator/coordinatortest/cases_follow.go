package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
func (e *env) joinBehind(s session, line driver.Line) driver.Joined {
	c := contender()
	c.Follows = true
	return e.joinAs(s, line, c)
}

// follower is a Follow under way.
type follower struct {
	*outcome
	passed bool
}

// followed starts a Follow, as watch starts a Watch.
func (e *env) followed(s session, line driver.Line, own, ahead driver.Place) *follower {
	f := &follower{}
	f.outcome = e.start(func() error {
		for {
			passed, err := s.Follow(e.ctx, line, own, ahead)
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				f.passed = passed
				return err
			}
		}
	})
	e.settle()
	return f
}

// told waits for the end of a Follow. A false passed says nothing, so may tells whether it could be true.
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

// nearestJoined: who comes next is told of the one before, or of nobody; never of one further ahead.
func nearestJoined(e *env) {
	a, b, line := e.open(), e.open(), e.line()
	last := e.joinBehind(a, line)
	e.near(last, "the first:")
	for i := range 6 {
		s := []session{b, a}[i%2]
		j := e.joinBehind(s, line)
		e.near(j, "behind another:", last.Place)
		if i%3 < 2 {
			last = j
			continue
		}
		// It goes: whoever comes next is behind the one before it, of whom it may hear nothing.
		e.leave(s, line, j.Place)
		next := e.joinBehind(a, line)
		e.near(next, "behind one who left:", j.Place, last.Place)
		if contenderOf(next.Nearest) == contenderOf(j.Place) {
			e.told(e.followed(a, line, next.Place, next.Nearest), "the one ahead had left", false)
		}
		last = next
	}
}

// nearestAsked: a joiner that would be alone, or that knows the record, joins as any other.
func nearestAsked(e *env) {
	a, b, line := e.open(), e.open(), e.line()
	version := e.setRecord(a, line, "value", 0)
	c := driver.Contender{ID: newID(), Mode: "x", Follows: true, Alone: true, Record: version}
	first := e.joinAs(a, line, c)
	e.near(first, "alone:")
	for _, s := range []session{a, b} {
		c.ID = newID()
		if _, err := s.Join(e.soon(), line, c); !errors.Is(err, driver.ErrTaken) {
			e.fail("ErrTaken", "Join of one who wants to be alone: %v", err)
		}
		refused := driver.Contender{ID: newID(), Mode: "x", Follows: true, Record: version + 1}
		if _, err := s.Join(e.soon(), line, refused); !errors.Is(err, driver.ErrStale) {
			e.fail("ErrStale", "Join with another record: %v", err)
		}
	}
	last := first
	for _, s := range []session{b, a} { // those who were refused are not near
		j := e.joinAs(s, line, driver.Contender{ID: newID(), Mode: "x", Follows: true, Record: version})
		e.near(j, "with the record:", last.Place)
		last = j
	}
}

// nearestAgain: others have joined since.
func nearestAgain(e *env) {
	a, b, line := e.open(), e.open(), e.line()
	first := e.joinBehind(a, line)
	c := contender()
	c.Follows = true
	second := e.joinAs(b, line, c)
	e.joinBehind(a, line)
	c.Again = true
	again := e.joinAs(b, line, c)
	e.same2(again, second)
	e.near(again, "joined again:", first.Place)
	e.near(e.joinAs(a, line, driver.Contender{ID: first.Place.ID, Mode: "x", Follows: true, Again: true}), "the first again:")
}

// behind is who is to follow: the nearest place if there is one, else as a view shows it.
func (e *env) behind(s session, line driver.Line, j driver.Joined) driver.Place {
	if j.Nearest != (driver.Place{}) {
		return j.Nearest
	}
	v, err := s.Ahead(e.soon(), line, j.Place)
	e.ok(err, "Ahead")
	if len(v.Ahead) == 0 {
		e.fail("somebody ahead", "nobody is ahead")
	}
	return v.Ahead[len(v.Ahead)-1]
}

// onlyPassPasses: nobody is told that it is first because one ahead has left who was not.
func onlyPassPasses(e *env) {
	a, b, line := e.open(), e.open(), e.line()
	first := e.joinBehind(a, line)
	second := e.joinBehind(b, line)
	third := e.joinBehind(a, line)
	fourth := e.joinBehind(b, line)
	f4 := e.followed(b, line, fourth.Place, e.behind(b, line, fourth))
	e.quiet(f4.outcome, "everybody joined")
	e.leave(a, line, third.Place)
	e.told(f4, "the one ahead gave up", false)
	f4 = e.followed(b, line, fourth.Place, second.Place)
	e.ok(a.Pass(e.soon(), line, first.Place), "Pass")
	e.quiet(f4.outcome, "one further ahead passed")
	e.ok(b.Pass(e.soon(), line, second.Place), "Pass")
	e.told(f4, "the one ahead passed", true)
	e.ok(b.Pass(e.soon(), line, fourth.Place), "Pass of the last")
	e.alone(line)
}

// alone checks that a line is empty to everybody who looks.
func (e *env) alone(line driver.Line) {
	s := e.open()
	e.same(e.standing(s, line), []string{}, "in line:")
	c := contender()
	c.Alone = true
	j, err := s.Join(e.soon(), line, c)
	e.ok(err, "Join of one who wants to be alone")
	e.leave(s, line, j.Place)
}

// passBefore: whoever comes to follow one who has passed is not kept waiting.
func passBefore(e *env) {
	a, b, line := e.open(), e.open(), e.line()
	first := e.joinBehind(a, line)
	second := e.joinBehind(b, line)
	near := e.behind(b, line, second)
	e.ok(a.Pass(e.soon(), line, first.Place), "Pass")
	e.told(e.followed(b, line, second.Place, near), "the one ahead had passed", true)
	e.same(e.ahead(b, line, second.Place), []string{}, "ahead:")
	e.ok(b.Pass(e.soon(), line, second.Place), "Pass")
	e.alone(line)
}

// conversionIsNoPass: who follows has to look, and finds the one ahead still there.
func conversionIsNoPass(e *env) {
	d := e.duelBy(passes)
	f := e.followed(d.behind, d.line, d.second.Place, d.first.Place)
	old := d.first
	d.first = e.convert(d.ahead, d.line, d.first, "r", "")
	e.told(f, "the one ahead was converted", false)
	e.told(e.followed(d.behind, d.line, d.second.Place, old.Place), "the one ahead had been converted", false)
	e.same(e.ahead(d.behind, d.line, d.second.Place), []string{d.first.Place.ID}, "ahead:")
	f = e.followed(d.behind, d.line, d.second.Place, d.first.Place)
	e.quiet(f.outcome, "nothing")
	d.out(e)
	e.told(f, "the converted one passed", true)
	passes.leave(e, d.behind, d.line, d.second.Place)
	e.alone(d.line)
}

// earlierPass: whatever a session leaves when it passes speaks of one entry.
func earlierPass(e *env) {
	d := e.duelBy(passes)
	third := e.joinBehind(d.ahead, d.line)
	fourth := e.joinBehind(d.behind, d.line)
	d.out(e)
	f := e.followed(d.behind, d.line, fourth.Place, third.Place)
	e.quiet(f.outcome, "another of the same session passed")
	e.leave(d.ahead, d.line, third.Place)
	e.told(f, "one gave up whose session had passed", false)
	e.told(e.followed(d.behind, d.line, fourth.Place, third.Place), "one had given up whose session had passed", false)
	passes.leave(e, d.behind, d.line, d.second.Place)
	passes.leave(e, d.behind, d.line, fourth.Place)
	e.alone(d.line)
}

// passOfNothing: it comes too late, for an entry that an operator has deleted.
func passOfNothing(e *env) {
	d := e.duelBy(passes)
	e.ok(e.svc.Remove(e.soon(), d.line, d.first.Place), "Remove of the harness")
	e.is(d.ahead.Pass(e.soon(), d.line, d.first.Place), "Pass of a removed entry", driver.ErrGone)
	e.told(e.followed(d.behind, d.line, d.second.Place, d.first.Place), "the one ahead was removed", false)
	e.is(d.ahead.Pass(e.soon(), d.line, d.first.Place), "Pass of a removed entry", driver.ErrGone)
	e.leave(d.behind, d.line, d.second.Place)
	e.alone(d.line)
}

// passLeavesNothing: neither when nobody is behind, nor when the one behind is gone before it can tell.
func passLeavesNothing(e *env) {
	a, line := e.open(), e.line()
	first := e.joinBehind(a, line)
	e.ok(a.Pass(e.soon(), line, first.Place), "Pass")
	if head := e.head(a, line); head.Version != 0 {
		e.fail("the head of an empty line", "after a pass of the only one it is %+v", head)
	}
	e.alone(line)

	first = e.joinBehind(a, line)
	b := e.open()
	second := e.joinBehind(b, line)
	f := e.followed(b, line, second.Place, e.behind(b, line, second))
	e.ok(a.Pass(e.soon(), line, first.Place), "Pass")
	e.fires(f.outcome, "the one ahead passed")
	e.eventually("nobody ahead and nobody behind the only one", func() bool {
		v := e.view(b, line, second.Place)
		return len(v.Ahead) == 0 && v.Last
	})
	e.ok(b.Close(e.soon()), "Close")
	e.alone(line)
}

// passGoesUnheard: what a pass leaves comes and goes, with its session at the latest, and wakes nobody.
func passGoesUnheard(e *env) {
	d := e.duelBy(passes)
	c := e.connect()
	s, also := e.openOn(c), e.open()
	third := e.joinBehind(s, d.line)
	f := e.followed(s, d.line, third.Place, d.second.Place)
	before := c.Events()
	d.out(e)
	head := driver.Head{}
	e.eventually("the second is the head", func() bool {
		head = e.head(also, d.line)
		return head.ID == d.second.Place.ID
	})
	h := e.start(func() error { _, err := also.Head(e.ctx, d.line, head.Version); return err })
	r := e.start(func() error { _, err := also.Record(e.ctx, d.line, 0); return err })
	e.settle()
	e.ok(d.ahead.Close(e.soon()), "Close")
	e.quiet(f.outcome, "the session of one further ahead has passed and is over")
	e.waiting(h, "Head", "a session that had passed was over")
	e.waiting(r, "Record", "a session that had passed was over")
	if n := c.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications of one who follows another", n)
	}
	passes.leave(e, d.behind, d.line, d.second.Place)
	e.told(f, "the one ahead passed", true)
}

// passUnanswered: the one behind goes on, and the one who passed learns that it has.
func passUnanswered(e *env) {
	c := e.connect()
	a, b, line := e.openOn(c), e.open(), e.line()
	first := e.joinBehind(a, line)
	second := e.joinBehind(b, line)
	f := e.followed(b, line, second.Place, first.Place)
	e.lostReply(c,
		func(ctx context.Context) error { return a.Pass(ctx, line, first.Place) },
		func() bool { return len(e.list(b, line)) == 1 })
	e.told(f, "the one ahead passed", true)
	passes.leaveUntil(e, a, line, first.Place)
	e.keeps(b, line, second.Place.ID)
	passes.leave(e, b, line, second.Place)
	e.alone(line)
}
