package coordinatortest

import (
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var followCases = []testCase{
	{name: "J8/nearest is who joined before", body: nearestJoined},
	{name: "N1/only a pass passes", body: onlyPassPasses},
	{name: "N1/a pass before the follow", body: passBefore},
	{name: "N2/a follower that is removed is told", needs: []Lever{Remove}, body: removedFollower},
	{name: "N3/what a pass leaves is no contender", body: passLeavesNothing},
	{name: "L2/a repeated pass deletes nothing", body: passRepeated},
}

// joinBehind joins as one who follows.
func (e *env) joinBehind(s driver.Session, line driver.Line) driver.Joined {
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
func (e *env) followed(s driver.Session, line driver.Line, own, ahead driver.Place) *follower {
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

// nearestJoined: who comes next is told of the one before, or of nobody; never of one further ahead.
func nearestJoined(e *env) {
	a, b, line := e.open(), e.open(), e.line()
	all := []driver.Joined{e.joinBehind(a, line)}
	if all[0].Nearest != (driver.Place{}) {
		e.fail("nobody", "the first is behind %v", all[0].Nearest)
	}
	for i := range 6 {
		s := []driver.Session{a, b}[i%2]
		j := e.joinBehind(s, line)
		if near := j.Nearest; near != (driver.Place{}) {
			last := all[len(all)-1].Place
			if near.ID != last.ID || near.Mode != last.Mode || near.Session != last.Session {
				e.fail("the one before", "contender %d is behind %v, not %v", i+1, near, last)
			}
		}
		all = append(all, j)
		if i == 3 { // the last one goes: whoever comes next is behind the one before it, of whom it may hear nothing
			e.leave(s, line, j.Place)
			next := e.joinBehind(a, line)
			switch next.Nearest.ID {
			case "", j.Place.ID, all[len(all)-2].Place.ID:
			default:
				e.fail("the one before it, the one who left, or nobody", "behind %v", next.Nearest)
			}
			all[len(all)-1] = next
		}
	}
}

// behind is who is to follow: the nearest place if there is one, else as a view shows it.
func (e *env) behind(s driver.Session, line driver.Line, j driver.Joined) driver.Place {
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
	f3 := e.followed(a, line, third.Place, e.behind(a, line, third))
	f4 := e.followed(b, line, fourth.Place, e.behind(b, line, fourth))
	e.quiet(f4.outcome, "everybody joined")
	e.leave(a, line, third.Place)
	e.told(f4, "the one ahead gave up", false)
	_ = e.ends(f3.outcome, e.Patience, "Follow of one who left")
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

// removedFollower: it has followed for long enough when an operator removes its entry.
func removedFollower(e *env) {
	a, b, line := e.open(), e.open(), e.line()
	first := e.joinBehind(a, line)
	second := e.joinBehind(b, line)
	f := e.followed(b, line, second.Place, e.behind(b, line, second))
	time.Sleep(2 * driver.Settle)
	e.ok(e.svc.Remove(e.soon(), line, second.Place), "Remove of the harness")
	e.is(e.ends(f.outcome, e.Patience, "Follow"), "Follow of one who was removed", driver.ErrGone, driver.ErrSessionLost)
	e.keeps(a, line, first.Place.ID)
}

// passLeavesNothing: neither when nobody is behind, nor when the one behind is gone before it can tell.
func passLeavesNothing(e *env) {
	a, line := e.open(), e.line()
	first := e.joinBehind(a, line)
	e.ok(a.Pass(e.soon(), line, first.Place), "Pass")
	e.alone(line)

	first = e.joinBehind(a, line)
	b := e.open()
	second := e.joinBehind(b, line)
	f := e.followed(b, line, second.Place, e.behind(b, line, second))
	e.ok(a.Pass(e.soon(), line, first.Place), "Pass")
	e.fires(f.outcome, "the one ahead passed")
	e.ok(b.Close(e.soon()), "Close")
	e.alone(line)
}

// passRepeated: as for Leave.
func passRepeated(e *env) {
	d := e.duel()
	e.ok(d.ahead.Pass(e.soon(), d.line, d.first.Place), "Pass")
	for range 2 {
		e.is(d.ahead.Pass(e.soon(), d.line, d.first.Place), "Pass repeated", driver.ErrGone)
		e.keeps(d.ahead, d.line, d.second.Place.ID)
	}
}
