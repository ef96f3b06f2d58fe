package coordinatortest

import (
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

var wholeCases = []testCase{
	{name: "V4/the whole line is shown to one who does not stand in it", body: wholeLine},
	{name: "V4/the whole line is as the session has left it", body: wholeFresh},
}

// nowhere is the place of one who does not stand in the line.
var nowhere driver.Place

// whole checks the view of one who would come next.
func (e *env) whole(s session, line driver.Line, when string, want ...driver.Place) {
	if view := e.view(s, line, nowhere); !slices.Equal(view.Ahead, want) || !view.Last {
		e.fail(fmt.Sprintf("%+v, and nobody behind", want), "%s the whole line is %+v, Last %t", when, view.Ahead, view.Last)
	}
}

// wholeLine: to a session that stands in the line with others, and to one that does not.
func wholeLine(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	line := e.line()
	e.whole(seer, line, "before anybody has joined")
	var want []driver.Place
	for i, mode := range []string{"x", "r", "abcdefghijklmnop", "x"} {
		c := contender()
		c.Mode, c.Value = mode, []byte("value")
		want = append(want, e.joinAs([]session{a, b}[i%2], line, c).Place)
	}
	own := e.join(a, line)
	e.setRecord(b, line, "record", 0)
	want = append(want, own.Place)
	e.whole(a, line, "for one who stands in it", want...)
	own = e.convert(a, line, own, "r", "")
	want[4] = own.Place
	e.whole(a, line, "with one that was converted", want...)
	e.stands(seer, line, ids(want)...) // from now on it has seen as much
	e.eventually("the whole line for one who does not stand in it", func() bool {
		view := e.view(seer, line, nowhere)
		return slices.Equal(view.Ahead, want) && view.Last
	})
}

// wholeFresh: replicas may lag, but not behind what their own client has done. There is no place that says how new it has to be.
func wholeFresh(e *env) {
	s := e.open()
	line := e.line()
	for range 10 {
		first, second := e.join(s, line), e.join(s, line)
		e.whole(s, line, "after two joins", first.Place, second.Place)
		first = e.convert(s, line, first, "r", "")
		e.whole(s, line, "after a conversion", first.Place, second.Place)
		e.leave(s, line, first.Place)
		e.whole(s, line, "after a leave", second.Place)
		e.ok(s.Forget(e.soon(), line, second.Place.ID), "Forget")
		e.whole(s, line, "after a forget")
	}
}
