package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var joinCases = []testCase{
	{name: "J1/order and tokens over sessions and clients", body: orderOverSessions},
	{name: "J1/order of joins at the same time", body: orderAtOnce},
	{name: "Token/rises over times when the queue is empty", body: risesOverEmpty},
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
	queue := e.queue()
	var order []string
	var last driver.Token
	for i := range 9 {
		s := sessions[i%3]
		j := e.join(s, queue)
		if j.Token <= last {
			e.fail(fmt.Sprintf("a token above %d", last), "Join number %d got token %d", i+1, j.Token)
		}
		last = j.Token
		e.same(e.ahead(s, queue, j.Place), append([]string{}, order...), "ahead are those that joined before:")
		order = append(order, j.Place.ID)
	}
	for _, s := range sessions {
		e.stands(s, queue, order...)
	}
}

// orderAtOnce joins all at the same time: the order is the service's, and everybody must
// see the same.
func orderAtOnce(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	queue := e.queue()
	const n = 18
	got := make([]driver.Joined, n)
	var running []*outcome
	for i := range n {
		running = append(running, e.start(func() (err error) {
			got[i], err = sessions[i%3].Join(e.soon(), queue, contender())
			return err
		}))
	}
	tokens := map[string]driver.Token{}
	for i, o := range running {
		e.ok(e.ends(o, e.Patience, "Join"), "Join")
		tokens[got[i].Place.ID] = got[i].Token
	}
	for _, s := range sessions {
		e.rising(s, queue, tokens)
	}
}

// rising checks that a queue has these entries, with the tokens that Join returned, in
// the order of tokens.
func (e *env) rising(s session, queue driver.Queue, tokens map[string]driver.Token) {
	e.eventually("all entries are listed", func() bool { return len(e.list(s, queue)) == len(tokens) })
	var last driver.Token
	for _, x := range e.list(s, queue) {
		if x.Token <= last {
			e.fail("tokens rise in the order of the queue", "token %d stands behind %d", x.Token, last)
		}
		if x.Token != tokens[x.ID] {
			e.fail(fmt.Sprintf("token %d, as Join returned it", tokens[x.ID]), "List shows token %d", x.Token)
		}
		last = x.Token
	}
}

// risesOverEmpty: services that number the entries of a queue start again when it was empty;
// then a resource would refuse the new holder's token, or accept the old one's.
func risesOverEmpty(e *env) {
	queue, c := e.queue(), e.connect()
	var last driver.Token
	for i := range 4 {
		s := e.openOn(c)
		j := e.join(s, queue)
		if j.Token <= last {
			e.fail(fmt.Sprintf("a token above %d", last), "Join after the queue was empty got token %d", j.Token)
		}
		last = j.Token
		if i%2 == 0 {
			e.leave(s, queue, j.Place)
		}
		e.ok(s.Close(e.soon()), "Close")
		e.stands(e.openOn(c), queue)
	}
}

// risesOverRestart: a token that is counted in the service's memory starts again with it.
func risesOverRestart(e *env) {
	s := e.open()
	queue := e.queue()
	before := e.join(s, queue)
	e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
	after := e.joinUntil(s, queue, contender())
	if after.Token <= before.Token {
		e.fail(fmt.Sprintf("a token above %d", before.Token), "Join after a restart got token %d", after.Token)
	}
	e.same(e.standing(s, queue), []string{before.Place.ID, after.Place.ID}, "the order is kept:")
}

// joinUntil joins as package coordinator does: again while the outcome is unknown.
func (e *env) joinUntil(s session, queue driver.Queue, c driver.Contender) driver.Joined {
	var j driver.Joined
	e.ok(e.again(func(ctx context.Context) (err error) {
		j, err = s.Join(ctx, queue, c)
		c.Again = true
		return err
	}), "Join, with Again after the first time")
	return j
}

// joinAgain: without a fault, and with others around. Again may also be set when the first
// request never arrived.
func joinAgain(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	first := e.join(other, queue)
	c := contender()
	own := e.joinAs(s, queue, c)
	behind := e.join(other, queue)
	c.Again = true
	e.same2(e.joinAs(s, queue, c), own)
	e.keeps(s, queue, first.Place.ID, own.Place.ID, behind.Place.ID)

	unknown := contender() // an earlier Join that was never applied
	unknown.Again = true
	j := e.joinAs(s, queue, unknown)
	e.keeps(s, queue, first.Place.ID, own.Place.ID, behind.Place.ID, j.Place.ID)
}

// same2 checks that two Joins returned the same entry.
func (e *env) same2(got, want driver.Joined) {
	if got.Place != want.Place || got.Token != want.Token {
		e.fail(fmt.Sprintf("the entry that is there: %+v, token %d", want.Place, want.Token),
			"Join again returned %+v, token %d", got.Place, got.Token)
	}
}

// joinAfterLostReply: a second entry would be queued behind the first of the same
// contender, which waits for itself for as long as the session lives.
func joinAfterLostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue, x := e.queue(), contender()
	stays := e.lostJoin(c, s, seer, queue, x)
	entry := e.list(seer, queue)[1]
	x.Again = true
	e.same2(e.joinUntil(s, queue, x), driver.Joined{Place: entry.Place, Token: entry.Token})
	e.keeps(seer, queue, stays, x.ID)
}

// joinOvertaken: the connection breaks while a Join is on it, and the bytes
// come to the service after the Join was repeated on a new one.
func joinOvertaken(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue, x := e.queue(), contender()
	stays := e.join(seer, queue)
	e.acquaint(s, queue)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, queue, x); return err })
	x.Again = true
	own := e.joinUntil(s, queue, x)
	c.Link.Deliver()
	e.keeps(seer, queue, stays.Place.ID, x.ID)
	e.same2(e.joinUntil(s, queue, x), own)
}

// onlyFirst: First is a licence to enter without a look, so a wrong one is two holders.
func onlyFirst(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	x := contender()
	first := e.joinAs(a, queue, x)
	for _, s := range []session{a, b} {
		c := contender()
		for range 2 {
			if j := e.joinAs(s, queue, c); j.First {
				e.fail("First is false behind another", "Join (Again: %t) behind another returned First", c.Again)
			}
			c.Again = true
		}
	}
	// An empty queue has a first again, and again only one.
	e.leave(a, queue, first.Place)
	if j := e.join(b, queue); j.First {
		e.fail("First is false behind another", "Join behind two returned First after the first had left")
	}
}

// endedCannotJoin: the client may not know yet that its session is over, and may have a new
// one under the same connection. An entry of that one would belong to nobody.
func endedCannotJoin(e *env) {
	s, seer := e.open(), e.open()
	queue := e.queue()
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	err := e.again(func(ctx context.Context) error {
		_, err := s.Join(ctx, queue, contender())
		return err
	})
	e.is(err, "Join of an ended session", driver.ErrSessionLost)
	e.keeps(seer, queue)
}

var aloneCases = []testCase{
	{name: "J6/alone joins an empty queue", body: aloneJoins},
	{name: "J6/alone is refused and leaves no entry", body: aloneRefused},
	{name: "J6/a refused alone wakes nobody", body: aloneWakesNobody},
	{name: "J6/a refused alone leaves no watch", needs: []Lever{Watches}, body: aloneNoWatch},
}

// aloneJoins: the queue is empty for the first time, and again after somebody has left.
func aloneJoins(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	c := contender()
	c.Alone = true
	own := e.joinAs(s, queue, c)
	e.leave(s, queue, own.Place)
	e.stands(other, queue)
	c = contender()
	c.Alone = true
	e.joinAs(other, queue, c)
	// J2 comes first: its own entry does not keep a contender from finding it.
	c.Again = true
	e.joinAs(other, queue, c)
	e.stands(s, queue, c.ID)
}

// refuse tries to join alone a queue that is not empty.
func (e *env) refuse(s session, queue driver.Queue) {
	c := contender()
	c.Alone = true
	_, err := s.Join(e.soon(), queue, c)
	e.is(err, "Join alone in a queue that is not empty", driver.ErrTaken)
}

// aloneRefused: TryLock is this and nothing else, so what it leaves behind blocks
// everybody.
func aloneRefused(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	own := e.join(a, queue)
	e.refuse(a, queue) // also of one session
	e.refuse(b, queue)
	e.keeps(b, queue, own.Place.ID)
	e.leave(a, queue, own.Place)
	e.keeps(b, queue)
}

// aloneWakesNobody: to join, look and leave would do for the outcome, but wakes whoever
// watches the queue.
func aloneWakesNobody(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	first := e.join(a, queue)
	e.join(b, queue)
	w := e.watch(b, queue, first.Place)
	for range 5 {
		e.refuse(a, queue)
		e.refuse(e.open(), queue)
	}
	e.quiet(w, "refused Joins")
	e.leave(a, queue, first.Place)
	e.fires(w, "the leaving")
}

// aloneNoWatch: a watch that nobody waits for would wake this client later.
func aloneNoWatch(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	e.join(a, queue)
	before := e.watches()
	for range 5 {
		e.refuse(b, queue)
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

// similarNames joins alone in queues whose names contain, extend, escape or
// spell each other: any that saw another's entry would be refused.
func similarNames(e *env) {
	s, queues := e.open(), similarQueues(newID())
	var all []driver.Joined
	for _, queue := range queues {
		c := contender()
		c.Alone = true
		j, err := s.Join(e.soon(), queue, c)
		e.ok(err, fmt.Sprintf("Join alone in %s, with others in %v", queue, queues[:len(all)]))
		all = append(all, j)
	}
	for i, queue := range queues {
		e.same(e.standing(s, queue), []string{all[i].Place.ID}, "List of "+string(queue)+" has")
		e.same(e.ahead(s, queue, all[i].Place), []string{}, "Ahead in "+string(queue)+" has")
	}
	last := len(queues) - 1
	w := e.watch(s, queues[last], all[last].Place)
	for i, queue := range queues[:last] {
		e.leave(s, queue, all[i].Place)
	}
	e.quiet(w, "leavings in queues of similar names")
	e.keeps(s, queues[last], all[last].Place.ID)
}

// modeShown: the mode decides who waits for whom, so a view that loses it admits wrongly.
func modeShown(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	var want []driver.Place
	for _, mode := range []string{"x", "r", "p3", "abcdefghijklmnop", "1234567890123456"} {
		c := contender()
		c.Mode = mode
		j := e.joinAs(a, queue, c)
		if p := j.Place; p.ID != c.ID || p.Mode != mode || p.Session != a.ID() {
			e.fail(fmt.Sprintf("ID %s, mode %s, session %s", c.ID, mode, a.ID()), "Join returned %+v", p)
		}
		want = append(want, j.Place)
	}
	own := e.join(b, queue)
	if view := e.view(b, queue, own.Place); !slices.Equal(view.Ahead, want) {
		e.fail(fmt.Sprintf("%+v, as Join returned them", want), "Ahead: %+v", view.Ahead)
	}
	for i, x := range e.list(b, queue)[:len(want)] {
		if x.Place != want[i] {
			e.fail(fmt.Sprintf("%+v, as Join returned it", want[i]), "List: %+v", x.Place)
		}
	}
}

// keyUnique: a key that comes back makes a stale Leave delete the entry of somebody else.
func keyUnique(e *env) {
	a, b := e.open(), e.open()
	queue, seen := e.queue(), map[string]bool{}
	fresh := func(p driver.Place) {
		if seen[p.Key] {
			e.fail("a new key for each entry", "key %q is used again", p.Key)
		}
		seen[p.Key] = true
	}
	for range 3 {
		// The queue is empty in between: keys made of counters would repeat.
		one, other := e.join(a, queue), e.join(b, queue)
		fresh(one.Place)
		fresh(other.Place)
		e.leave(a, queue, one.Place)
		e.leave(b, queue, other.Place)
		time.Sleep(e.Settle / 20) // services that clean up empty queues get a chance
	}
	// One ID comes back to a queue that somebody keeps: keys made of IDs would repeat.
	e.join(b, queue)
	for c := contender(); len(seen) < 9; {
		again := e.joinAs(a, queue, c)
		fresh(again.Place)
		e.leave(a, queue, again.Place)
	}
}

// raceCases meet a conversion while it is made, over and over.
var raceCases = []testCase{
	{name: "M4/forget at the time of a conversion leaves nothing", body: forgetRaces},
	{name: "M3/of a leave and a conversion at once exactly one succeeds", body: leaveRaces},
	{name: "M3/a conversion that was given up may be repeated", body: conversionGivenUp},
	{name: "J6/nobody is alone or first beside one who converts", body: aloneRaces},
}

// race starts a conversion of a contender, and returns shortly before or after.
func (e *env) race(s session, queue driver.Queue, own driver.Joined) *outcome {
	pause := func() { sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) }
	o := e.start(func() error {
		pause()
		_, err := s.Convert(e.soon(), queue, own, "r", nil)
		return err
	})
	pause()
	return o
}

// forgetRaces: package coordinator withdraws one that it converts when its caller gives up.
func forgetRaces(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	stays := e.join(other, queue)
	for range 20 {
		own := e.join(s, queue)
		o := e.race(s, queue, own)
		e.ok(s.Forget(e.soon(), queue, own.Place.ID), "Forget")
		if err := e.ends(o, e.Patience, "Convert"); err != nil {
			e.is(err, "Convert of one who was forgotten at the same time", driver.ErrGone, driver.ErrUnavailable)
		}
		e.same(e.standing(s, queue), []string{stays.Place.ID}, "after a forget at the time of a conversion the queue has")
	}
}

// leaveRaces: both name the same entry, which is there for one of them.
func leaveRaces(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	stays := e.join(other, queue)
	for range 20 {
		own := e.join(s, queue)
		o := e.race(s, queue, own)
		left := s.Leave(e.soon(), queue, own.Place)
		converted := e.ends(o, e.Patience, "Convert")
		want := []string{stays.Place.ID}
		switch {
		case left == nil && errors.Is(converted, driver.ErrGone):
		case converted == nil && errors.Is(left, driver.ErrGone):
			want = append(want, own.Place.ID)
		default:
			e.fail("ErrGone for exactly one of the two", "Leave: %v, and Convert at the same time: %v", left, converted)
		}
		e.same(e.standing(s, queue), want, "after a leave at the time of a conversion the queue has")
		e.ok(s.Forget(e.soon(), queue, own.Place.ID), "Forget")
	}
}

// conversionGivenUp: it may have been applied or not, or still be under way
// when it is called again.
func conversionGivenUp(e *env) {
	q := e.trio()
	for i := range 20 {
		mode := []string{"r", "x"}[i%2]
		_, _ = q.s.Convert(e.brief(), q.queue, q.own, mode, nil)
		q.own = e.convertUntil(q.s, q.queue, q.own, mode, "")
		time.Sleep(e.Settle / 20)
		e.showsNow(q.s, q.queue, 1, q.own, "")
	}
}

// aloneRaces: to one who joins, too, the old entry is there or the new one.
func aloneRaces(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	own := e.join(s, queue)
	var over atomic.Bool
	converter := e.start(func() (err error) {
		for i := 0; !over.Load() && err == nil; i++ {
			sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100))))
			own.Place, err = s.Convert(e.soon(), queue, own, []string{"r", "x"}[i%2], nil)
		}
		return err
	})
	for range 20 {
		sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100))))
		e.refuse(other, queue)
		j := e.join(other, queue)
		if j.First {
			e.fail("First is false behind another", "Join behind one who converts returned First")
		}
		e.leave(other, queue, j.Place)
	}
	over.Store(true)
	e.ok(e.ends(converter, e.Patience, "one who converts"), "one who converts")
	e.stands(other, queue, own.Place.ID)
}
