package coordinatortest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var listCases = []testCase{
	{name: "List/shows the first entries in order with their values", body: listEntries},
	{name: "Empty/a line that nobody joined is empty", body: listEmpty},
	{name: "S1/a list shows what the session has finished", body: listFresh},
}

var closeCases = []testCase{
	{name: "C1/after close all entries are gone at once", body: closeRemoves},
	{name: "C1/a join under way is not applied after close", needs: []Lever{Hold, Strand}, body: closeBeatsJoin},
	{name: "C2/close ends without the service", needs: []Lever{Hold}, body: closeCutOff},
}

// listEntries: values may hold any bytes, and what one session wrote another must read.
func listEntries(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	big := make([]byte, 64<<10) // the largest allowed, with every byte there is
	for i := range big {
		big[i] = byte(i)
	}
	var want []driver.Entry
	for i, value := range [][]byte{[]byte("host-1"), nil, big, []byte("\x00\xff ü/%")} {
		c := contender()
		c.Value = value
		j := e.joinAs([]session{a, b}[i%2], line, c)
		want = append(want, driver.Entry{Place: j.Place, Token: j.Token, Value: value})
	}
	e.stands(a, line, entryIDs(want)...)
	for limit, n := range []int{4, 1, 2, 3, 4, 4} {
		got, err := a.List(e.soon(), line, limit)
		e.ok(err, "List")
		e.same(entryIDs(got), entryIDs(want[:n]), fmt.Sprintf("List with limit %d has", limit))
		for i, x := range got {
			if x.Place != want[i].Place || x.Token != want[i].Token || !bytes.Equal(x.Value, want[i].Value) {
				e.fail(fmt.Sprintf("%+v, token %d, %d bytes", want[i].Place, want[i].Token, len(want[i].Value)),
					"List shows %+v, token %d, %d bytes or other ones", x.Place, x.Token, len(x.Value))
			}
		}
	}
}

// listEmpty: on some services a line is a thing that must exist before it can be read.
func listEmpty(e *env) {
	s := e.open()
	e.same(e.standing(s, e.line()), []string{}, "a line that nobody joined has")
	got, err := s.List(e.soon(), e.line(), 3)
	e.ok(err, "List with a limit")
	e.same(entryIDs(got), []string{}, "a line that nobody joined has")
}

// listFresh: replicas may lag, but not behind what their own client has done.
func listFresh(e *env) {
	s := e.open()
	line := e.line()
	for range 10 {
		a, b := e.join(s, line), e.join(s, line)
		e.same(e.standing(s, line), []string{a.Place.ID, b.Place.ID}, "after two joins the line has")
		e.leave(s, line, a.Place)
		e.same(e.standing(s, line), []string{b.Place.ID}, "after a leave the line has")
		e.ok(s.Forget(e.soon(), line, b.Place.ID), "Forget")
		e.same(e.standing(s, line), []string{}, "after a forget the line has")
	}
}

// closeRemoves: waiting out the ttl would do for the outcome, and make every shutdown slow.
func closeRemoves(e *env) {
	d := e.duel()
	elsewhere := e.line()
	e.join(d.ahead, elsewhere)
	e.join(d.ahead, d.line)
	e.closeAhead(d, "the closed session's entries", elsewhere)
}

// closeAhead closes the session of the one ahead. What it has in that line, and in others where nobody else stands, must be gone
// at once, and not after its ttl.
func (e *env) closeAhead(d *duel, what string, others ...driver.Line) {
	e.ok(d.ahead.Close(e.soon()), "Close")
	closed := time.Now()
	e.stands(d.behind, d.line, d.second.Place.ID)
	for _, line := range others {
		e.stands(d.behind, line)
	}
	if took := time.Since(closed); took > e.TTL/2 {
		e.fail("entries are gone at once", "%s were gone after %v, the ttl is %v", what, took, e.TTL)
	}
}

// closeBeatsJoin: an entry that appears after Close belongs to a process that may be gone.
func closeBeatsJoin(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line := e.line()
	stays := e.join(seer, line)
	e.acquaint(s, line)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, line, contender()); return err })
	e.ok(e.again(s.Close), "Close")
	c.Link.Deliver()
	e.keeps(seer, line, stays.Place.ID)
}

// closeCutOff: a client that goes on pinging a session that nobody holds any more would
// keep its entries for ever.
func closeCutOff(e *env) {
	c, seer := e.connect(), e.open()
	s := e.openUntended(c)
	line := e.line()
	e.stands(seer, line, e.join(s, line).Place.ID)
	c.Link.HoldRequests()
	c.Link.HoldReplies()
	ctx := e.in(e.Settle)
	o := e.start(func() error { return s.Close(ctx) })
	err := e.ends(o, e.Settle+e.Patience, "Close without the service")
	e.is(err, "Close without the service", driver.ErrUnavailable, context.DeadlineExceeded)
	healed := time.Now()
	c.Link.Heal()
	empties(e, seer, line, healed.Add(e.TTL+e.Patience))
}
