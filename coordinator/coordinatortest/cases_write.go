package coordinatortest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var writeCases = []testCase{
	{name: "P1/a write is shown by list and head", body: writeShows},
	{name: "P1/a written entry goes with its session", needs: []Lever{Expire}, body: writtenGoesWithSession},
	{name: "C1/after close written entries are gone", body: closeWritten},
	{name: "P1/a write may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: writeLostReply},
	{name: "P2/a place that is gone is not written", body: writeGone},
	{name: "P2/a stale write spares the same id joined later", body: writeSpares},
	{name: "P2/a foreign place is not written", body: writeForeign},
	{name: "P1/a write that was given up does not overwrite a later one", body: writeGivenUp},
	{name: "W2/a write is told to who follows the head and not to who waits for its leaving", body: writeToldToFollower},
	{name: "W2/writes and conversions of others wake nobody", body: writesWakeNobody},
}

// writeShows: also of the first and of a converted one; values may hold any bytes. All else stays.
func writeShows(e *env) {
	a, b := e.open(), e.open()
	line, c := e.line(), contender()
	first := e.convert(a, line, e.join(a, line), "r", "")
	own := e.joinAs(b, line, c)
	big := make([]byte, 64<<10)
	for i := range big {
		big[i] = byte(i)
	}
	for _, value := range []string{"one", "", string(big), "\x00\xff ü/%"} {
		e.write(a, line, first.Place, value)
		e.write(b, line, own.Place, value)
		e.showsNow(a, line, 0, first, value)
		e.showsNow(b, line, 1, own, value)
		e.shows(a, line, own, value)
		if head := e.head(a, line); !sameEntry(head.Entry, first, value) {
			e.fail("Head shows what was written", "after a Write of %.20q Head is %s", value, sprintEntries([]driver.Entry{head.Entry}))
		}
	}
	c.Again = true
	e.same2(e.joinAs(b, line, c), own) // a repeated Join does not bring its value back
	e.showsNow(b, line, 1, own, "\x00\xff ü/%")
	e.same(e.ahead(b, line, own.Place), []string{first.Place.ID}, "ahead of the one who wrote:")
}

// writtenGoesWithSession: whoever writes an entry anew has to tie it to its session anew.
func writtenGoesWithSession(e *env) {
	d := e.duel()
	e.write(d.ahead, d.line, d.first.Place, "written")
	w := e.watch(d.behind, d.line, d.first.Place)
	e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	e.fires(w, "the session of the one who wrote ended")
	e.stands(d.behind, d.line, d.second.Place.ID)
}

func closeWritten(e *env) {
	d := e.duel()
	e.write(d.ahead, d.line, d.first.Place, "written")
	e.closeAhead(d, "written entries")
}

// writeLostReply: the second call finds its own work, and the third goes on from there.
func writeLostReply(e *env) {
	l := e.late()
	e.lostReply(l.client, l.write, func() bool { return string(e.list(l.seer, l.line)[1].Value) == "late" })
	e.writeUntil(l.s, l.line, l.own.Place, "late")
	e.showsNow(l.s, l.line, 1, l.own, "late")
	e.write(l.s, l.line, l.own.Place, "next")
	e.showsNow(l.s, l.line, 1, l.own, "next")
}

// unwritten checks that Write finds no entry, and that the line keeps the given ones.
func (e *env) unwritten(s session, line driver.Line, own driver.Place, what string, keep ...driver.Place) {
	e.is(s.Write(e.soon(), line, own, []byte("written")), what, driver.ErrGone)
	e.settle()
	e.hasPlaces(s, line, what, keep...)
	for _, x := range e.list(s, line) {
		if string(x.Value) == "written" {
			e.fail("nothing is written", "after %s the line has %s", what, sprintEntries([]driver.Entry{x}))
		}
	}
}

func writeGone(e *env) {
	q := e.queue()
	others := []driver.Place{q.first.Place, q.last.Place}
	e.leave(q.s, q.line, q.own.Place)
	e.unwritten(q.s, q.line, q.own.Place, "Write to a place that was left", others...)
	q.own = e.join(q.s, q.line)
	e.ok(q.s.Forget(e.soon(), q.line, q.own.Place.ID), "Forget")
	e.unwritten(q.s, q.line, q.own.Place, "Write to a place that was forgotten", others...)
	if e.has(Remove) {
		q.own = e.join(q.s, q.line)
		e.ok(e.svc.Remove(e.soon(), q.line, q.own.Place), "Remove of the harness")
		e.unwritten(q.s, q.line, q.own.Place, "Write to a place that was removed", others...)
	}
	q.own = e.join(q.s, q.line)
	older := e.thereAndBack(q)
	others = append(others, q.own.Place)
	e.unwritten(q.s, q.line, older[0].Place, "Write to a place that was converted", others...)
	e.unwritten(q.s, q.line, older[1].Place, "Write to a place that was converted twice since", others...)
}

// writeSpares: the entry of another time has the same ID, mode, session and line.
func writeSpares(e *env) {
	d := e.duel()
	old, c := e.join(d.ahead, d.line), contender()
	c.ID = old.Place.ID
	e.leave(d.ahead, d.line, old.Place)
	later := e.joinAs(d.ahead, d.line, c)
	e.unwritten(d.ahead, d.line, old.Place, "Write to an earlier entry of the same ID",
		d.first.Place, d.second.Place, later.Place)
}

// writeForeign: a place belongs to the session in it, and to its line.
func writeForeign(e *env) {
	d := e.duel()
	all := []driver.Place{d.first.Place, d.second.Place}
	e.unwritten(d.behind, d.line, d.first.Place, "Write to a place of another session", all...)
	mixed := d.first.Place
	mixed.ID, mixed.Session = d.second.Place.ID, d.second.Place.Session
	e.unwritten(d.behind, d.line, mixed, "Write with another's key and the own ID and session", all...)
	e.unwritten(d.ahead, e.line(), d.first.Place, "Write to a place of another line")
	e.hasPlaces(d.ahead, d.line, "Write to a place of another line", all...)
}

// writesWakeNobody: Watch waits for leavings among its places. A value is none, whoever writes it, and a conversion is
// one of the converted place only.
func writesWakeNobody(e *env) {
	q := e.queue()
	w := e.watch(q.behind, q.line, q.own.Place)
	for _, value := range []string{"one", "two", ""} {
		e.write(q.s, q.line, q.own.Place, value)
		e.write(q.ahead, q.line, q.first.Place, value)
	}
	e.quiet(w, "writes")
	for _, mode := range []string{"r", "x"} {
		q.first = e.convert(q.ahead, q.line, q.first, mode, "converted")
		q.last = e.convert(q.behind, q.line, q.last, mode, "converted")
	}
	e.setRecord(q.ahead, q.line, "record", 0)
	e.quiet(w, "conversions of others, and a record")
	e.write(q.s, q.line, q.own.Place, "last")
	e.leave(q.s, q.line, q.own.Place)
	e.fires(w, "the one it waits for left")
}

// writeToldToFollower: one session does both, of one entry.
func writeToldToFollower(e *env) {
	d := e.duel()
	known := e.head(d.behind, d.line)
	w := e.watch(d.behind, d.line, d.first.Place)
	for _, value := range []string{"one", "two"} {
		o := headSubject.reach(e, d.behind, d.line, known.Version, value)
		e.settle()
		e.write(d.ahead, d.line, d.first.Place, value)
		e.reached(o, "Head", "a write of the first")
		e.quiet(w, "a write")
		known = e.head(d.behind, d.line)
	}
	var got driver.Head
	o := e.follow(d.behind, d.line, known.Version, &got)
	e.leave(d.ahead, d.line, d.first.Place)
	e.fires(w, "the one it waits for left")
	e.reached(o, "Head", "the first left")
	e.isHead(got, d.second, "", "after the first has left")
}

// writeGivenUp: the calls do not overlap, but their requests may.
func writeGivenUp(e *env) {
	q := e.queue()
	for i := range 20 {
		_ = q.s.Write(e.brief(), q.line, q.own.Place, []byte("given up"))
		value := fmt.Sprint(i)
		e.write(q.s, q.line, q.own.Place, value)
		time.Sleep(e.Settle / 20)
		e.showsNow(q.s, q.line, 1, q.own, value)
	}
}

// brief returns a context that ends at about the time when a call with it is answered.
func (e *env) brief() context.Context {
	return e.in(time.Duration(rand.Int64N(int64(e.Settle / 50))))
}
