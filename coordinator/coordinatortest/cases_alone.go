package coordinatortest

import (
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

var aloneCases = []testCase{
	{name: "J6/alone joins an empty line", body: aloneJoins},
	{name: "J6/alone is refused and leaves no entry", body: aloneRefused},
	{name: "J6/a refused alone wakes nobody", body: aloneWakesNobody},
	{name: "J6/a refused alone leaves no watch", needs: []Lever{Watches}, body: aloneNoWatch},
}

// aloneJoins: the line is empty for the first time, and again after somebody has left.
func aloneJoins(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	c := contender()
	c.Alone = true
	own := e.joinAs(s, line, c)
	e.leave(s, line, own.Place)
	e.stands(other, line)
	c = contender()
	c.Alone = true
	e.joinAs(other, line, c)
	// J2 comes first: its own entry does not keep a contender from finding it.
	c.Again = true
	e.joinAs(other, line, c)
	e.stands(s, line, c.ID)
}

// refuse tries to join alone a line that is not empty.
func (e *env) refuse(s session, line driver.Line) {
	c := contender()
	c.Alone = true
	_, err := s.Join(e.soon(), line, c)
	e.is(err, "Join alone in a line that is not empty", driver.ErrTaken)
}

// aloneRefused: TryLock is this and nothing else, so what it leaves behind blocks
// everybody.
func aloneRefused(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	own := e.join(a, line)
	e.refuse(a, line) // also of one session
	e.refuse(b, line)
	e.keeps(b, line, own.Place.ID)
	e.leave(a, line, own.Place)
	e.keeps(b, line)
}

// aloneWakesNobody: to join, look and leave would do for the outcome, but wakes whoever
// watches the line.
func aloneWakesNobody(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	first := e.join(a, line)
	e.join(b, line)
	w := e.watch(b, line, first.Place)
	for range 5 {
		e.refuse(a, line)
		e.refuse(e.open(), line)
	}
	e.quiet(w, "refused Joins")
	e.leave(a, line, first.Place)
	e.fires(w, "the leaving")
}

// aloneNoWatch: a watch that nobody waits for would wake this client later.
func aloneNoWatch(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	e.join(a, line)
	before := e.watches()
	for range 5 {
		e.refuse(b, line)
	}
	e.settle()
	if now := e.watches(); now > before {
		e.fail(fmt.Sprintf("%d watches as before", before), "%d watches after refused Joins", now)
	}
}

func (e *env) watches() int {
	n, err := e.svc.Watches(e.soon())
	e.ok(err, "Watches of the harness")
	return n
}
