package coordinatortest

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

var leaveCases = []testCase{
	{name: "L1/after leave the entry is gone", body: leaveRemoves},
	{name: "L2/a repeated leave deletes nothing", body: leaveRepeated},
	{name: "L2/a stale leave spares the same id joined later", body: leaveStale},
	{name: "L2/a foreign leave deletes nothing", body: leaveForeign},
	{name: "L2/leave of a removed entry says so", needs: []Lever{Remove}, body: leaveRemoved},
	{name: "L3/leave may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: leaveLostReply},
}

// leaveRemoves looks from both sides: the one who left, and the one who is next.
func leaveRemoves(e *env) {
	d := e.duel()
	e.leave(d.ahead, d.line, d.first.Place)
	e.same(e.standing(d.ahead, d.line), []string{d.second.Place.ID}, "its own session lists")
	e.fires(e.watch(d.behind, d.line, d.first.Place), "Leave returned nil")
	e.same(e.ahead(d.behind, d.line, d.second.Place), []string{}, "ahead of the next one:")
	e.stands(d.behind, d.line, d.second.Place.ID)
}

// gone checks that Leave finds no entry and that the line keeps the given ones.
func (e *env) gone(s driver.Session, line driver.Line, p driver.Place, what string, keep ...string) {
	e.is(s.Leave(e.soon(), line, p), what, driver.ErrGone)
	e.keeps(s, line, keep...)
}

// leaveRepeated: the next one must not be removed in the place of the one that has left.
func leaveRepeated(e *env) {
	d := e.duel()
	third := e.join(d.ahead, d.line)
	e.leave(d.ahead, d.line, d.first.Place)
	for range 2 {
		e.gone(d.ahead, d.line, d.first.Place, "Leave repeated", d.second.Place.ID, third.Place.ID)
	}
}

// leaveStale: the entry of another time has the same ID, session and line.
func leaveStale(e *env) {
	s, other := e.open(), e.open()
	line, c := e.line(), contender()
	keeper := e.join(other, line) // an empty line might be cleaned away, and count anew
	old := e.joinAs(s, line, c)
	e.leave(s, line, old.Place)
	behind := e.join(other, line)
	e.joinAs(s, line, c)
	e.gone(s, line, old.Place, "Leave of an earlier entry of the same ID", keeper.Place.ID, behind.Place.ID, c.ID)
	e.fires(e.watch(other, line, old.Place), "the earlier entry of the same ID had left")
}

// leaveForeign: a place belongs to the session in it, whoever has got hold of it.
func leaveForeign(e *env) {
	d := e.duel()
	all := []string{d.first.Place.ID, d.second.Place.ID}
	e.gone(d.behind, d.line, d.first.Place, "Leave of a place of another session", all...)
	mixed := d.first.Place
	mixed.ID, mixed.Session = d.second.Place.ID, d.second.Place.Session
	e.gone(d.behind, d.line, mixed, "Leave with another's key and the own ID and session", all...)
	elsewhere := e.line()
	e.gone(d.ahead, elsewhere, d.first.Place, "Leave of a place of another line")
	e.keeps(d.behind, d.line, all...)
}

// leaveRemoved: an operator was faster. The holder must hear that it held nothing any more.
func leaveRemoved(e *env) {
	d := e.duel()
	e.ok(e.svc.Remove(e.soon(), d.line, d.first.Place), "Remove of the harness")
	e.gone(d.ahead, d.line, d.first.Place, "Leave of a removed entry", d.second.Place.ID)
}

// leaveLostReply: before Leave is called again somebody else has joined the line.
func leaveLostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line := e.line()
	own := e.join(s, line)
	e.stands(seer, line, own.Place.ID)
	e.lostReply(c,
		func(ctx context.Context) error { return s.Leave(ctx, line, own.Place) },
		func() bool { return len(e.list(seer, line)) == 0 })
	next := e.join(seer, line)
	e.leaveUntil(s, line, own.Place)
	e.keeps(seer, line, next.Place.ID)
}
