package coordinatortest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var joinCases = []testCase{
	{"J1,V1/order, tokens and views over sessions and clients", nil, orderOverSessions},
	{"J1/order of concurrent joins", nil, orderAtOnce},
	{"J1/tokens rise over a restart", []Lever{Restart}, risesOverRestart},
	{"Token/rises after the queue was empty", nil, risesOverEmpty},
	{"J2/joining again finds the entry", nil, joinAgain},
	{"J2/joining again after a lost reply finds the entry", []Lever{Network}, joinAfterLostReply},
	{"J3/only the first gets First", nil, onlyFirst},
	{"J5/an ended session cannot join", []Lever{Expire}, endedCannotJoin},
	{"J6/alone joins an empty queue", nil, aloneJoins},
	{"J6/alone is refused and leaves no entry and no watch", nil, aloneRefused},
	{"J7/a join with the record's version joins", nil, versionJoins},
	{"J2,J7/another version is refused, unless the entry is there", nil, versionRefused},
	{"J7/a refused join wakes no contender and leaves no watch", nil, staleWakesNone},
	{"Queue/queues and records of similar names are unrelated", nil, similarNames},
	{"Key/is never used for another entry", nil, keyUnique},
	{"J2/a join that arrives after it was repeated adds nothing", []Lever{Network}, joinOvertaken},
	{"J7/a late join compares the current record", []Lever{Network}, joinMeetsNewer},
	{"F1/forget prevents a join under way", []Lever{Network}, forgetPreventsJoin},
}

// orderOverSessions: no contender leaves, so only one view of each place is
// right, at once and on each client.
func orderOverSessions(e *env) {
	sessions, queue := e.three(), e.queue()
	var order []string
	var last driver.Token
	for i := range 20 {
		s := sessions[i%3]
		j := e.join(s, queue)
		last = e.rises(j, last, "behind others")
		e.same(e.ahead(s, queue, j.Place), append([]string{}, order...),
			"ahead are the earlier contenders:")
		order = append(order, j.Place.ID)
	}
	for _, s := range sessions {
		e.awaitQueue(s, queue, order...)
	}
}

// orderAtOnce: all sessions see the service's order.
func orderAtOnce(e *env) {
	sessions, queue := e.three(), e.queue()
	got := make([]driver.Joined, 18)
	e.concurrently(len(got), "Join", func(i int) { got[i] = e.join(sessions[i%3], queue) })
	for _, s := range sessions {
		e.rising(s, queue, got...)
	}
}

// rising checks that a queue has these entries, in the order of their tokens.
func (e *env) rising(s session, queue driver.Queue, joined ...driver.Joined) {
	slices.SortFunc(joined, func(a, b driver.Joined) int { return int(a.Token - b.Token) })
	e.awaitQueue(s, queue, ids(placesOf(joined))...)
	var last driver.Token
	for i, x := range e.list(s, queue) {
		if x.Token <= last || x.Token != joined[i].Token {
			e.fail(fmt.Sprintf("the token of Join, %d, above %d", joined[i].Token, last),
				"List shows token %d", x.Token)
		}
		last = x.Token
	}
}

// risesOverEmpty: a service that numbers the entries of a queue may start again
// when it was empty. A resource would then refuse the new holder's token.
func risesOverEmpty(e *env) {
	queue, c := e.queue(), e.connect()
	var last driver.Token
	for i := range 4 {
		s := e.openOn(c)
		j := e.join(s, queue)
		last = e.rises(j, last, "after the queue was empty")
		if i%2 == 0 {
			e.leave(s, queue, j.Place)
		}
		e.closes(s)
		e.awaitQueue(e.openOn(c), queue)
	}
}

// risesOverRestart: tokens and order must not be kept in memory only. A session
// may end if the restart takes too long; its entry is then gone.
func risesOverRestart(e *env) {
	q := e.trio()
	if e.has(Converter) {
		q.own = e.convert(q.s, q.queue, q.own, "r", "value")
	}
	e.restart()
	for _, s := range []session{q.ahead, q.s, q.behind} {
		e.ok(e.again(s.Renew), "Renew after a restart")
	}
	next := e.joinAs(q.behind, q.queue, contender())
	e.rises(next, q.last.Token, "after a restart")
	e.same(e.queued(q.behind, q.queue), append(q.ids(), next.Place.ID), "the order is kept:")
	if e.has(Converter) {
		e.showsNow(q.behind, q.queue, 1, q.own, "value")
	}
}

// joinAgain sets Again without a fault, and for a request that never arrived.
func joinAgain(e *env) {
	s, other, queue := e.open(), e.open(), e.queue()
	first, c := e.join(other, queue), contender()
	own := e.joinAs(s, queue, c)
	behind := e.join(other, queue)
	e.rejoin(s, queue, c, own)
	e.keeps(s, queue, first.Place.ID, own.Place.ID, behind.Place.ID)
	unknown := contender() // an earlier Join that was never applied
	unknown.Again = true
	j := e.joinAs(s, queue, unknown)
	e.keeps(s, queue, first.Place.ID, own.Place.ID, behind.Place.ID, j.Place.ID)
}

type joiner struct {
	client      Client
	s, observer session
	queue       driver.Queue
	x           driver.Contender
	other       string // the ID of a contender of the session observer
}

func (e *env) joiner() *joiner {
	j := &joiner{client: e.connect(), observer: e.open(), queue: e.queue(), x: contender()}
	j.s = e.openOn(j.client)
	j.other = e.join(j.observer, j.queue).Place.ID
	e.seeNonEmpty(j.s, j.queue)
	e.awaitQueue(j.observer, j.queue, j.other) // it sees that the entry has left
	return j
}

func (j *joiner) join(ctx context.Context) error {
	_, err := j.s.Join(ctx, j.queue, j.x)
	return err
}

func (e *env) lostJoin() *joiner {
	j := e.joiner()
	e.lostReply(j.client, j.join, func() bool { return len(e.list(j.observer, j.queue)) == 2 })
	return j
}

// joinAfterLostReply: with a second entry the contender would wait for its own
// first one for ever.
func joinAfterLostReply(e *env) {
	j := e.lostJoin()
	entry := e.list(j.observer, j.queue)[1]
	e.rejoin(j.s, j.queue, j.x, driver.Joined{Place: entry.Place, Token: entry.Token})
	e.keeps(j.observer, j.queue, j.other, j.x.ID)
}

// onlyFirst: the engine grants the lock on First, so a wrong one makes two
// holders.
func onlyFirst(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first := e.join(a, queue)
	for _, s := range []session{a, b} {
		c := contender()
		e.notFirst(e.joinAs(s, queue, c), "another")
		c.Again = true
		e.notFirst(e.joinAs(s, queue, c), "another, again")
	}
	e.leave(a, queue, first.Place)
	e.notFirst(e.join(b, queue), "two, after the first left")
}

// endedCannotJoin: the client may not know yet that its session is over, or
// have a new one on the same connection. No one would remove an entry of the
// old one.
func endedCannotJoin(e *env) {
	s, observer, queue := e.open(), e.open(), e.queue()
	e.expire(s)
	err := e.again(func(ctx context.Context) error {
		return errOf(s.Join(ctx, queue, contender()))
	})
	e.is(err, "Join of an ended session", driver.ErrSessionLost)
	e.keeps(observer, queue)
}

// aloneJoins: the queue is new, and then empty again. A repeated Join with
// Alone finds its own entry.
func aloneJoins(e *env) {
	s, other, queue, c := e.open(), e.open(), e.queue(), alone()
	own := e.joinAs(s, queue, alone())
	e.leave(s, queue, own.Place)
	e.awaitQueue(other, queue)
	e.rejoin(other, queue, c, e.joinAs(other, queue, c))
	e.awaitQueue(s, queue, c.ID)
}

func (e *env) refuse(s session, queue driver.Queue) {
	_, err := s.Join(e.soon(), queue, alone())
	e.is(err, "Join alone in a queue that is not empty", driver.ErrTaken)
}

// aloneRefused: TryLock is this call alone, so an entry that it leaves blocks
// the queue, and a watch wakes the client later.
func aloneRefused(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	own, before := e.join(a, queue), e.watches()
	for range 5 {
		e.refuse(a, queue) // also of one session
		e.refuse(b, queue)
	}
	e.keeps(b, queue, own.Place.ID)
	e.fewWatches(before, "after refused Joins")
	e.leave(a, queue, own.Place)
	e.keeps(b, queue)
}

func versionJoins(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	var version driver.Version
	for _, value := range []string{"one", "two"} {
		version = e.setRecord(a, queue, value, version)
		first := e.joinAs(b, queue, knowing(alone(), version))
		second := e.joinAs(a, queue, knowing(contender(), version))
		e.isRecord(b, queue, value, version, "after joins by version")
		third := e.join(b, queue) // without a version
		e.same(e.ahead(b, queue, third.Place), []string{first.Place.ID, second.Place.ID}, "ahead:")
		e.leave(b, queue, first.Place)
		e.leave(a, queue, second.Place)
		e.leave(b, queue, third.Place)
		e.awaitQueue(b, queue)
		e.awaitQueue(a, queue)
	}
}

func (e *env) refuseStale(
	s session, queue driver.Queue, c driver.Contender, version driver.Version,
) {
	_, err := s.Join(e.soon(), queue, knowing(c, version))
	e.is(err, fmt.Sprintf("Join of %+v with a version that is not the record's", c),
		driver.ErrStale)
}

// versionRefused: an entry that joined under an old limit could hold permits
// that do not exist any more.
func versionRefused(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	elsewhere := e.setRecord(a, e.queue(), "other", 0)
	e.refuseStale(a, queue, contender(), elsewhere) // a new queue without a record
	e.refuseStale(a, queue, alone(), elsewhere)
	older := e.setRecord(a, queue, "one", 0)
	version := e.setRecord(a, queue, "two", older)
	e.refuseStale(b, queue, contender(), older)
	e.refuseStale(b, queue, alone(), older)
	e.keeps(b, queue)
	c := knowing(alone(), version)
	own := e.joinAs(a, queue, c)
	again := contender() // an earlier Join that was never applied
	again.Again = true
	third := e.setRecord(b, queue, "three", version)
	e.rejoin(a, queue, c, own) // joined when its version was the record's
	e.isRecord(b, queue, "three", third, "once written")
	e.refuseStale(a, queue, contender(), older)
	e.refuseStale(b, queue, contender(), older)
	e.refuseStale(b, queue, again, older)
	e.keeps(b, queue, own.Place.ID)
	e.leave(a, queue, own.Place)
	e.keeps(b, queue)
}

// staleWakesNone fails drivers that join, compare and leave.
func staleWakesNone(e *env) {
	a, b, other, queue := e.open(), e.open(), e.open(), e.queue()
	older := e.setRecord(a, queue, "one", 0)
	version := e.setRecord(a, queue, "two", older)
	first := e.join(a, queue)
	e.join(b, queue)
	e.isRecord(a, queue, "two", version, "for the writer")
	w := e.watch(b, queue, first.Place)
	r := e.start(func() error { return errOf(b.Record(e.ctx, queue, version)) })
	e.settle()
	before := e.watches()
	for range 5 {
		e.refuseStale(a, queue, contender(), older)
		e.refuseStale(other, queue, contender(), older)
	}
	e.stillWaits(w, "refused Joins")
	e.waiting(r, "Record", "refused Joins")
	e.fewWatches(before, "after refused Joins")
	e.leave(a, queue, first.Place)
	e.fires(w, "the leaving")
}

// similarQueues returns queues whose names contain, extend or escape each
// other.
func similarQueues() (queues []driver.Queue) {
	id := newID()
	for _, name := range []string{
		"m/%sa", "m/%sa%%2Fb", "m/%saa", "m/%sA", "m/%sa.b", "m/%sa-", "m/%%61%s", "m/a%s",
		"s/%sa", "m-m/%sa",
	} {
		queues = append(queues, driver.Queue(fmt.Sprintf(name, id)))
	}
	return queues
}

// similarNames joins with Alone, which fails if a queue shows another's entry.
func similarNames(e *env) {
	s, queues := e.open(), similarQueues()
	var all []driver.Joined
	var versions []driver.Version
	for _, queue := range queues {
		e.isRecord(s, queue, "", 0,
			fmt.Sprintf("with records in %v, that of %s:", queues[:len(all)], queue))
		versions = append(versions, e.setRecord(s, queue, string(queue), 0))
		j, err := s.Join(e.soon(), queue, alone())
		e.ok(err, fmt.Sprintf("Join alone in %s, with contenders in %v", queue, queues[:len(all)]))
		all = append(all, j)
	}
	for i, queue := range queues {
		e.isRecord(s, queue, string(queue), versions[i], "with records in queues of similar names")
		e.same(e.queued(s, queue), []string{all[i].Place.ID}, "List of "+string(queue)+" has")
		e.same(e.ahead(s, queue, all[i].Place), []string{}, "Ahead in "+string(queue)+" has")
	}
	last := len(queues) - 1
	w := e.watch(s, queues[last], all[last].Place)
	for i, queue := range queues[:last] {
		e.leave(s, queue, all[i].Place)
	}
	e.stillWaits(w, "leavings in queues of similar names")
	e.keeps(s, queues[last], all[last].Place.ID)
}

// keyUnique: with a reused key, a stale Leave would delete another contender's
// entry.
func keyUnique(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	seen := map[string]bool{}
	fresh := func(p driver.Place) {
		if seen[p.Key] {
			e.fail("a new key for each entry", "key %q is used again", p.Key)
		}
		seen[p.Key] = true
	}
	for range 3 {
		// The queue is empty in between: keys made of its counters would
		// repeat.
		one, other := e.join(a, queue), e.join(b, queue)
		fresh(one.Place)
		fresh(other.Place)
		e.leave(a, queue, one.Place)
		e.leave(b, queue, other.Place)
		time.Sleep(e.Settle / 20) // for services that delete empty queues
	}
	// One ID joins again and again: keys made of IDs would repeat.
	e.join(b, queue)
	for c := contender(); len(seen) < 9; {
		again := e.joinAs(a, queue, c)
		fresh(again.Place)
		e.leave(a, queue, again.Place)
	}
}

func joinOvertaken(e *env) {
	j := e.joiner()
	e.strand(j.client, j.join)
	j.x.Again = true
	own := e.joinAs(j.s, j.queue, j.x)
	j.client.Link.Deliver()
	e.keeps(j.observer, j.queue, j.other, j.x.ID)
	e.rejoin(j.s, j.queue, j.x, own)
}

func joinMeetsNewer(e *env) {
	j := e.joiner()
	j.x.Record = e.setRecord(j.observer, j.queue, "one", 0)
	e.strand(j.client, j.join)
	e.setRecord(j.observer, j.queue, "two", j.x.Record)
	j.client.Link.Deliver()
	e.keeps(j.observer, j.queue, j.other)
	j.x.Again = true
	e.is(e.again(j.join), "Join with a version that is not the record's any more", driver.ErrStale)
	e.keeps(j.observer, j.queue, j.other)
}

func forgetPreventsJoin(e *env) {
	j := e.joiner()
	e.strand(j.client, j.join)
	e.forget(j.s, j.queue, j.x.ID)
	j.client.Link.Deliver()
	e.keeps(j.observer, j.queue, j.other)
	next := e.join(j.s, j.queue) // the session can still join
	e.awaitQueue(j.observer, j.queue, j.other, next.Place.ID)
}
