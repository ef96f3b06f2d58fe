package coordinatortest

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

var forgetCases = []testCase{
	{name: "F1/forget removes the entry", body: forgetRemoves},
	{name: "F1/forgetting what never joined is no error", body: forgetUnknown},
	{name: "F1/forget after a lost reply leaves nothing", needs: []Lever{Hold, Reset}, body: forgetLostReply},
	{name: "F1/forget beats a join under way", needs: []Lever{Hold, Strand}, body: forgetBeatsJoin},
	{name: "F2/others keep their places", body: forgetSparesOthers},
}

// forgetRemoves: a Join whose reply came is forgotten as one whose reply did not.
func forgetRemoves(e *env) {
	d := e.duel()
	for range 2 { // forgetting again is no error either
		e.ok(d.ahead.Forget(e.soon(), d.line, d.first.Place.ID), "Forget")
		e.same(e.standing(d.ahead, d.line), []string{d.second.Place.ID}, "its own session lists")
	}
	e.stands(d.behind, d.line, d.second.Place.ID)
}

// forgetUnknown: package coordinator forgets whenever it does not know, so most often there
// is nothing.
func forgetUnknown(e *env) {
	s := e.open()
	e.ok(s.Forget(e.soon(), e.line(), newID()), "Forget in a line that nobody joined")
	line := e.line()
	own := e.join(s, line)
	e.ok(s.Forget(e.soon(), line, newID()), "Forget of an ID that never joined")
	e.keeps(s, line, own.Place.ID)
}

func (e *env) forgetUntil(s session, line driver.Line, id string) {
	e.ok(e.again(func(ctx context.Context) error { return s.Forget(ctx, line, id) }),
		"Forget, repeated while the service is unavailable")
}

// forgetLostReply: the entry is one of which the client never heard.
func forgetLostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line, x := e.line(), contender()
	stays := e.lostJoin(c, s, seer, line, x)
	e.forgetUntil(s, line, x.ID)
	e.keeps(seer, line, stays)
}

// forgetBeatsJoin: the Join's bytes reach the service after the Forget was acknowledged.
func forgetBeatsJoin(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line, x := e.line(), contender()
	stays := e.join(s, line)
	e.acquaint(s, line)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, line, x); return err })
	e.forgetUntil(s, line, x.ID)
	c.Link.Deliver()
	e.keeps(seer, line, stays.Place.ID)
	next := e.joinUntil(s, line, contender()) // the session can still join
	e.stands(seer, line, stays.Place.ID, next.Place.ID)
}

// forgetSparesOthers: contenders of one session are strangers to each other.
func forgetSparesOthers(e *env) {
	d := e.duel()
	third, fourth := e.join(d.ahead, d.line), e.join(d.ahead, d.line)
	elsewhere := e.line()
	other := e.join(d.ahead, elsewhere)
	e.ok(d.ahead.Forget(e.soon(), d.line, third.Place.ID), "Forget")
	e.keeps(d.ahead, d.line, d.first.Place.ID, d.second.Place.ID, fourth.Place.ID)
	e.keeps(d.ahead, elsewhere, other.Place.ID)
	// Another session's contender is not this session's to forget.
	_ = d.ahead.Forget(e.soon(), d.line, d.second.Place.ID)
	e.keeps(d.behind, d.line, d.first.Place.ID, d.second.Place.ID, fourth.Place.ID)
}
