package coordinatortest

import (
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// headChangeCases check what ends a wait for another head, and what does not.
var headChangeCases = []testCase{
	{name: "H1/the next one is told when the first leaves", body: headChange(func(e *env, q *queue) driver.Joined {
		e.leave(q.ahead, q.line, q.first.Place)
		return q.own
	})},
	{name: "H1/the next one is told when the session of the first ends", needs: []Lever{Expire},
		body: headChange(func(e *env, q *queue) driver.Joined {
			e.ok(e.svc.Expire(e.soon(), q.ahead), "Expire of the harness")
			return q.own
		})},
	{name: "H1/the next one is told when the first is removed", needs: []Lever{Remove},
		body: headChange(func(e *env, q *queue) driver.Joined {
			e.ok(e.svc.Remove(e.soon(), q.line, q.first.Place), "Remove of the harness")
			return q.own
		})},
	{name: "H1/a conversion of the first is told", body: headChange(func(e *env, q *queue) driver.Joined {
		return e.convert(q.ahead, q.line, q.first, "r", "")
	})},
	{name: "H2/an empty line is left when somebody joins", body: headOfEmpty},
	{name: "H2/others who come, go and write wake nobody", body: headOthers},
	{name: "H2/others who come, go and write are not even notified", needs: []Lever{Events}, body: headOthersNotNotified},
}

// follow waits for a state of the head that is not known, and goes on while the service is unavailable.
func (e *env) follow(s session, line driver.Line, known driver.Version, head *driver.Head) *outcome {
	o := e.start(func() error {
		for {
			var err error
			*head, err = s.Head(e.ctx, line, known)
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				return err
			}
		}
	})
	e.settle()
	return o
}

// headChange lets the last of three wait for another head, and checks that it is the one that happen returns.
func headChange(happen func(e *env, q *queue) driver.Joined) func(e *env) {
	return func(e *env) {
		q := e.queue()
		known := e.head(q.behind, q.line)
		e.isHead(known, q.first, "", "behind the first")
		var got driver.Head
		o := e.follow(q.behind, q.line, known.Version, &got)
		e.waiting(o, "Head", "nothing")
		want := happen(e, q)
		e.reached(o, "Head", "a change")
		e.isHead(got, want, "", "after a change")
	}
}

// headOfEmpty: for the first time, and when all have left.
func headOfEmpty(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	for range 2 {
		var got driver.Head
		o := e.follow(s, line, 0, &got)
		e.waiting(o, "Head of an empty line", "nothing")
		e.setRecord(other, e.line(), "elsewhere", 0)
		e.waiting(o, "Head of an empty line", "a record elsewhere")
		c := contender()
		c.Value = []byte("here")
		own := e.joinAs(other, line, c)
		e.reached(o, "Head of an empty line", "a join")
		e.isHead(got, own, "here", "after a join in an empty line")
		known := got.Version
		o = e.follow(s, line, known, &got)
		e.leave(other, line, own.Place)
		e.reached(o, "Head", "the last has left")
		e.isNobody(got, "when the last has left")
	}
}

// stir does in a line all that does not change the first.
func (e *env) stir(d *duel, also session) {
	third := e.join(d.ahead, d.line)
	e.comeAndGo(d, also)
	e.write(d.ahead, d.line, third.Place, "written")
	third = e.convert(d.ahead, d.line, third, "r", "converted")
	e.write(d.ahead, d.line, third.Place, "written again")
	e.setRecordUntil(d.ahead, d.line, "record "+newID())
	e.leave(d.ahead, d.line, third.Place)
}

// headOthers: an observer is woken by the one who leads, not by those who would like to.
func headOthers(e *env) {
	d := e.duel()
	known := e.head(d.behind, d.line)
	o := headSubject.reach(e, d.behind, d.line, known.Version, "new")
	e.settle()
	e.stir(d, d.behind)
	e.write(d.behind, d.line, d.second.Place, "the next")
	e.leave(d.behind, d.line, d.second.Place)
	e.settle()
	e.waiting(o, "Head", "others came, went and wrote")
	e.write(d.ahead, d.line, d.first.Place, "new")
	e.reached(o, "Head", "a write of the first")
}

// headOthersNotNotified: a driver may hide needless wake-ups from its caller, but the service has sent them.
func headOthersNotNotified(e *env) {
	d := e.duel()
	also := e.open()
	known := e.head(d.behind, d.line)
	o := headSubject.reach(e, d.behind, d.line, known.Version, "new")
	e.settle()
	before := d.client.Events()
	e.stir(d, also) // the client itself keeps still: it may well watch its own entries
	e.settle()
	if n := d.client.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications while others came, went and wrote", n)
	}
	e.waiting(o, "Head", "others came, went and wrote")
	e.write(d.ahead, d.line, d.first.Place, "new")
	e.reached(o, "Head", "a write of the first")
}
