package coordinatortest

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// convertedCases check who can be converted, and that a converted entry is one like any other.
var convertedCases = []testCase{
	{name: "M3/a place that is gone is not converted", body: convertGone},
	{name: "M3/an older place of its own is not converted", body: convertOlder},
	{name: "M3/a stale conversion spares the same id joined later", body: convertSpares},
	{name: "M3/a foreign place is not converted", body: convertForeign},
	{name: "M3/a conversion may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: convertLostReply},
	{name: "J2/joining again finds the converted entry", body: joinAgainConverted},
	{name: "J3/nobody is first behind a converted entry", body: behindConverted},
	{name: "J6/a converted entry keeps others from being alone", body: aloneConverted},
	{name: "L1/a converted entry can be left", body: leaveConverted},
	{name: "L2/leave with the place before a conversion deletes nothing", body: leaveOlder},
	{name: "F1/forget removes a converted entry", body: forgetConverted},
	{name: "F1/forget removes what a lost conversion has made", needs: []Lever{Hold, Reset}, body: forgetLostConversion},
	{name: "C1/after close converted entries are gone", body: closeConverted},
}

// unconverted checks that Convert finds no entry and that the line keeps the given ones.
func (e *env) unconverted(s session, line driver.Line, own driver.Joined, what string, keep ...driver.Place) {
	_, err := s.Convert(e.soon(), line, own, "p7", []byte("converted"))
	e.is(err, what, driver.ErrGone)
	e.settle()
	e.hasPlaces(s, line, what, keep...)
}

// hasPlaces checks the places of a line.
func (e *env) hasPlaces(s session, line driver.Line, after string, want ...driver.Place) {
	entries := e.list(s, line)
	same := len(entries) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = entries[i].Place == want[i]
	}
	if !same {
		e.fail("the line has "+sprintPlaces(want), "after %s it has %s", after, sprintEntries(entries))
	}
}

func sprintPlaces(places []driver.Place) string {
	var all []driver.Entry
	for _, p := range places {
		all = append(all, driver.Entry{Place: p})
	}
	return sprintEntries(all)
}

// convertGone: an entry made for one who has left would block the line.
func convertGone(e *env) {
	q := e.queue()
	others := []driver.Place{q.first.Place, q.last.Place}
	e.leave(q.s, q.line, q.own.Place)
	e.unconverted(q.s, q.line, q.own, "Convert of a place that was left", others...)
	q.own = e.join(q.s, q.line)
	e.ok(q.s.Forget(e.soon(), q.line, q.own.Place.ID), "Forget")
	e.unconverted(q.s, q.line, q.own, "Convert of a place that was forgotten", others...)
	if e.has(Remove) {
		q.own = e.join(q.s, q.line)
		e.ok(e.svc.Remove(e.soon(), q.line, q.own.Place), "Remove of the harness")
		e.unconverted(q.s, q.line, q.own, "Convert of a place that was removed", others...)
	}
	q.own = e.convert(q.s, q.line, e.join(q.s, q.line), "r", "")
	e.leave(q.s, q.line, q.own.Place)
	e.unconverted(q.s, q.line, q.own, "Convert of a place that was converted and left", others...)
}

// thereAndBack converts the one in the middle until it has been in each of two modes twice, and returns all places
// that it had before. The last of them look like the present one but for their keys.
func (e *env) thereAndBack(q *queue) (older []driver.Joined) {
	for _, mode := range []string{"r", "x", "r"} {
		older = append(older, q.own)
		q.own = e.convert(q.s, q.line, q.own, mode, "")
	}
	return older
}

// convertOlder: a place that was converted is gone, for Convert too, unless it repeats what was done.
func convertOlder(e *env) {
	q := e.queue()
	for i, older := range e.thereAndBack(q) {
		e.unconverted(q.s, q.line, older, fmt.Sprintf("Convert of place number %d of four", i+1),
			q.first.Place, q.own.Place, q.last.Place)
	}
}

// convertSpares: the entry of another time has the same ID, session and line, and even the mode that is asked for.
func convertSpares(e *env) {
	d := e.duel() // somebody keeps the line
	old, c := e.join(d.ahead, d.line), contender()
	c.ID = old.Place.ID
	e.leave(d.ahead, d.line, old.Place)
	for _, mode := range []string{"x", "p7"} { // the mode it had, and the one that is asked for
		c.Mode = mode
		later := e.joinAs(d.ahead, d.line, c)
		e.unconverted(d.ahead, d.line, old, "Convert of an earlier entry of the same ID",
			d.first.Place, d.second.Place, later.Place)
		e.leave(d.ahead, d.line, later.Place)
	}
}

// convertForeign: a place belongs to the session in it, and to its line.
func convertForeign(e *env) {
	d := e.duel()
	all := []driver.Place{d.first.Place, d.second.Place}
	e.unconverted(d.behind, d.line, d.first, "Convert of a place of another session", all...)
	mixed := d.first
	mixed.Place.ID, mixed.Place.Session = d.second.Place.ID, d.second.Place.Session
	e.unconverted(d.behind, d.line, mixed, "Convert with another's key and the own ID and session", all...)
	e.unconverted(d.ahead, e.line(), d.first, "Convert of a place of another line")
	e.hasPlaces(d.ahead, d.line, "Convert of a place of another line", all...)
}

// lostConversion is a contender that was converted; the reply was lost with the connection.
func (e *env) lostConversion() *late {
	l := e.late()
	e.lostReply(l.client,
		func(ctx context.Context) error {
			_, err := l.s.Convert(ctx, l.line, l.own, "r", []byte("converted"))
			return err
		},
		func() bool { return e.list(l.seer, l.line)[1].Mode == "r" })
	return l
}

// convertLostReply: the second call finds the place gone by its own doing.
func convertLostReply(e *env) {
	l := e.lostConversion()
	entry := e.list(l.seer, l.line)[1]
	for range 2 {
		if now := e.convertUntil(l.s, l.line, l.own, "r", "converted"); now.Place != entry.Place {
			e.fail(fmt.Sprintf("the place that was made, %+v", entry.Place), "Convert again returned %+v", now.Place)
		}
	}
	e.keeps(l.seer, l.line, l.stays.Place.ID, l.own.Place.ID)
	l.own.Place = entry.Place
	e.showsNow(l.s, l.line, 1, l.own, "converted")
	l.own = e.convert(l.s, l.line, l.own, "x", "again") // it goes on from there
	e.leave(l.s, l.line, l.own.Place)
	e.keeps(l.seer, l.line, l.stays.Place.ID)
}

// joinAgainConverted: the ID stands, in whatever mode. A second entry would wait for the first.
func joinAgainConverted(e *env) {
	s, other := e.open(), e.open()
	line, c := e.line(), contender()
	stays := e.join(other, line)
	own := e.convert(s, line, e.joinAs(s, line, c), "r", "")
	c.Again = true
	e.same2(e.joinAs(s, line, c), own)
	e.keeps(s, line, stays.Place.ID, c.ID)
}

// behindConverted: the joiner counts or looks for those who are there, of whatever mode.
func behindConverted(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	own := e.convert(a, line, e.join(a, line), "r", "")
	for _, s := range []session{a, b} {
		second := e.join(s, line)
		if second.First {
			e.fail("First is false behind another", "Join behind a converted entry returned First")
		}
		e.same(e.ahead(s, line, second.Place), []string{own.Place.ID}, "ahead is the converted one:")
		e.leave(s, line, second.Place)
	}
}

func aloneConverted(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	own := e.convert(a, line, e.join(a, line), "r", "")
	e.refuse(a, line)
	e.refuse(b, line)
	e.keeps(b, line, own.Place.ID)
	e.leave(a, line, own.Place)
	c := contender()
	c.Alone = true
	e.joinAs(b, line, c)
}

func leaveConverted(e *env) {
	q := e.queue()
	q.own = e.convert(q.s, q.line, q.own, "r", "")
	e.leave(q.s, q.line, q.own.Place)
	e.same(e.standing(q.s, q.line), []string{q.first.Place.ID, q.last.Place.ID}, "its own session lists")
	leaves.gone(e, q.s, q.line, q.own.Place, " repeated", q.first.Place.ID, q.last.Place.ID)
}

// leaveOlder: that entry is not there any more. The contender is, and says so with its new place.
func leaveOlder(e *env) {
	q := e.queue()
	for i, older := range e.thereAndBack(q) {
		leaves.gone(e, q.s, q.line, older.Place, fmt.Sprintf(" with place number %d of four", i+1), q.ids()...)
	}
}

func forgetConverted(e *env) {
	q := e.queue()
	q.own = e.convert(q.s, q.line, q.own, "r", "")
	w := e.watch(q.behind, q.line, q.own.Place)
	e.ok(q.s.Forget(e.soon(), q.line, q.own.Place.ID), "Forget")
	e.same(e.standing(q.s, q.line), []string{q.first.Place.ID, q.last.Place.ID}, "its own session lists")
	e.fires(w, "a converted one was forgotten")
}

// forgetLostConversion: the client knows the place before the conversion only, and forgets by ID.
func forgetLostConversion(e *env) {
	l := e.lostConversion()
	l.forget()
	e.keeps(l.seer, l.line, l.stays.Place.ID)
}

func closeConverted(e *env) {
	d := e.duel()
	e.convert(d.ahead, d.line, d.first, "r", "")
	elsewhere := e.line()
	e.convert(d.ahead, elsewhere, e.convert(d.ahead, elsewhere, e.join(d.ahead, elsewhere), "r", ""), "x", "")
	e.closeAhead(d, "converted entries", elsewhere)
}
