package coordinatortest

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

var joinCases = []testCase{
	{name: "J1/order and tokens over sessions and clients", body: orderOverSessions},
	{name: "J1/order of joins at the same time", body: orderAtOnce},
	{name: "Token/rises over times when the line is empty", body: risesOverEmpty},
	{name: "J1/tokens rise over a restart", needs: []Lever{Restart}, body: risesOverRestart},
	{name: "J2/joining again finds the entry", body: joinAgain},
	{name: "J2/joining again after a lost reply finds the entry", needs: []Lever{Hold, Reset}, body: joinAfterLostReply},
	{name: "J2/a first request that arrives after the second adds nothing", needs: []Lever{Hold, Strand}, body: joinOvertaken},
	{name: "J3/only the first may see first", body: onlyFirst},
	{name: "J5/an ended session cannot join", needs: []Lever{Expire}, body: endedCannotJoin},
}

// orderOverSessions joins one after the other: the order is known beforehand.
func orderOverSessions(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	line := e.line()
	var order []string
	var last driver.Token
	for i := range 9 {
		s := sessions[i%3]
		j := e.join(s, line)
		if j.Token <= last {
			e.fail(fmt.Sprintf("a token above %d", last), "Join number %d got token %d", i+1, j.Token)
		}
		last = j.Token
		e.same(e.ahead(s, line, j.Place), append([]string{}, order...), "ahead are those that joined before:")
		order = append(order, j.Place.ID)
	}
	for _, s := range sessions {
		e.stands(s, line, order...)
	}
}

// orderAtOnce joins all at the same time: the order is the service's, and everybody must
// see the same.
func orderAtOnce(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	line := e.line()
	const n = 18
	got := make([]driver.Joined, n)
	var running []*outcome
	for i := range n {
		running = append(running, e.start(func() (err error) {
			got[i], err = sessions[i%3].Join(e.soon(), line, contender())
			return err
		}))
	}
	tokens := map[string]driver.Token{}
	for i, o := range running {
		e.ok(e.ends(o, e.Patience, "Join"), "Join")
		tokens[got[i].Place.ID] = got[i].Token
	}
	for _, s := range sessions {
		e.rising(s, line, tokens)
	}
}

// rising checks that a line has these entries, with the tokens that Join returned, in
// the order of tokens.
func (e *env) rising(s session, line driver.Line, tokens map[string]driver.Token) {
	e.eventually("all entries are listed", func() bool { return len(e.list(s, line)) == len(tokens) })
	var last driver.Token
	for _, x := range e.list(s, line) {
		if x.Token <= last {
			e.fail("tokens rise in the order of the line", "token %d stands behind %d", x.Token, last)
		}
		if x.Token != tokens[x.ID] {
			e.fail(fmt.Sprintf("token %d, as Join returned it", tokens[x.ID]), "List shows token %d", x.Token)
		}
		last = x.Token
	}
}

// risesOverEmpty: services that number the entries of a line start again when it was empty;
// then a resource would refuse the new holder's token, or accept the old one's.
func risesOverEmpty(e *env) {
	line, c := e.line(), e.connect()
	var last driver.Token
	for i := range 4 {
		s := e.openOn(c)
		j := e.join(s, line)
		if j.Token <= last {
			e.fail(fmt.Sprintf("a token above %d", last), "Join after the line was empty got token %d", j.Token)
		}
		last = j.Token
		if i%2 == 0 {
			e.leave(s, line, j.Place)
		}
		e.ok(s.Close(e.soon()), "Close")
		e.stands(e.openOn(c), line)
	}
}

// risesOverRestart: a token that is counted in the service's memory starts again with it.
func risesOverRestart(e *env) {
	s := e.open()
	line := e.line()
	before := e.join(s, line)
	e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
	after := e.joinUntil(s, line, contender())
	if after.Token <= before.Token {
		e.fail(fmt.Sprintf("a token above %d", before.Token), "Join after a restart got token %d", after.Token)
	}
	e.same(e.standing(s, line), []string{before.Place.ID, after.Place.ID}, "the order is kept:")
}

// joinUntil joins as package coordinator does: again while the outcome is unknown.
func (e *env) joinUntil(s session, line driver.Line, c driver.Contender) driver.Joined {
	var j driver.Joined
	e.ok(e.again(func(ctx context.Context) (err error) {
		j, err = s.Join(ctx, line, c)
		c.Again = true
		return err
	}), "Join, with Again after the first time")
	return j
}

// joinAgain: without a fault, and with others around. Again may also be set when the first
// request never arrived.
func joinAgain(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	first := e.join(other, line)
	c := contender()
	own := e.joinAs(s, line, c)
	behind := e.join(other, line)
	c.Again = true
	e.same2(e.joinAs(s, line, c), own)
	e.keeps(s, line, first.Place.ID, own.Place.ID, behind.Place.ID)

	unknown := contender() // an earlier Join that was never applied
	unknown.Again = true
	j := e.joinAs(s, line, unknown)
	e.keeps(s, line, first.Place.ID, own.Place.ID, behind.Place.ID, j.Place.ID)
}

// same2 checks that two Joins returned the same entry.
func (e *env) same2(got, want driver.Joined) {
	if got.Place != want.Place || got.Token != want.Token {
		e.fail(fmt.Sprintf("the entry that is there: %+v, token %d", want.Place, want.Token),
			"Join again returned %+v, token %d", got.Place, got.Token)
	}
}

// joinAfterLostReply: a second entry would stand in line behind the first of the same
// contender, which waits for itself for as long as the session lives.
func joinAfterLostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line, x := e.line(), contender()
	stays := e.lostJoin(c, s, seer, line, x)
	entry := e.list(seer, line)[1]
	x.Again = true
	e.same2(e.joinUntil(s, line, x), driver.Joined{Place: entry.Place, Token: entry.Token})
	e.keeps(seer, line, stays, x.ID)
}

// joinOvertaken: the connection breaks while a Join is on it, and the bytes
// come to the service after the Join was repeated on a new one.
func joinOvertaken(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line, x := e.line(), contender()
	stays := e.join(seer, line)
	e.acquaint(s, line)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, line, x); return err })
	x.Again = true
	own := e.joinUntil(s, line, x)
	c.Link.Deliver()
	e.keeps(seer, line, stays.Place.ID, x.ID)
	e.same2(e.joinUntil(s, line, x), own)
}

// onlyFirst: First is a licence to enter without a look, so a wrong one is two holders.
func onlyFirst(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	x := contender()
	first := e.joinAs(a, line, x)
	for _, s := range []session{a, b} {
		c := contender()
		for range 2 {
			if j := e.joinAs(s, line, c); j.First {
				e.fail("First is false behind another", "Join (Again: %t) behind another returned First", c.Again)
			}
			c.Again = true
		}
	}
	// An empty line has a first again, and again only one.
	e.leave(a, line, first.Place)
	if j := e.join(b, line); j.First {
		e.fail("First is false behind another", "Join behind two returned First after the first had left")
	}
}

// endedCannotJoin: the client may not know yet that its session is over, and may have a new
// one under the same connection. An entry of that one would belong to nobody.
func endedCannotJoin(e *env) {
	s, seer := e.open(), e.open()
	line := e.line()
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	err := e.again(func(ctx context.Context) error {
		_, err := s.Join(ctx, line, contender())
		return err
	})
	e.is(err, "Join of an ended session", driver.ErrSessionLost)
	e.keeps(seer, line)
}
