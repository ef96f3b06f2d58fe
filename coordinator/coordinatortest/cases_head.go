package coordinatortest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var (
	headToldCases = headSubject.toldCases("H1")
	headWaitCases = headSubject.waitCases("H3")
)

var headCases = []testCase{
	{name: "Head/any returns at once what is there", body: headAny},
	{name: "Head/a state that has passed ends the wait at once", body: headPassed},
	{name: "Version/each state of a head has its own", body: headVersions},
	{name: "H1/a head shows what the session has finished", body: headFresh},
	{name: "H1/the first is first although it was converted", body: headConverted},
	{name: "H1/a head is never nobody while somebody always stands", body: headNeverNobody},
	{name: "H1/a queue that hands on is followed to its end", body: headRelay},
}

// isHead checks a head that Head returned.
func (e *env) isHead(head driver.Head, own driver.Joined, value, when string) {
	if !sameEntry(head.Entry, own, value) || head.Version == 0 || head.Version == driver.Any {
		e.fail(fmt.Sprintf("Head is %+v with token %d and value %q, and has a version", own.Place, own.Token, value),
			"%s Head is %s, version %d", when, sprintEntries([]driver.Entry{head.Entry}), head.Version)
	}
}

// isNobody checks the head of an empty queue.
func (e *env) isNobody(head driver.Head, when string) {
	if head.Place != (driver.Place{}) || head.Token != 0 || head.Version != 0 || len(head.Value) != 0 {
		e.fail("a zero Head", "%s Head is %+v", when, head)
	}
}

// headAny: whoever asks who leads must hear at once, also that nobody does.
func headAny(e *env) {
	a, b := e.open(), e.open()
	queue, c := e.queue(), contender()
	e.isNobody(e.head(a, queue), "in a queue that nobody joined")
	c.Value = []byte("host-1")
	first := e.joinAs(a, queue, c)
	second := e.join(b, queue)
	e.isHead(e.head(b, queue), first, "host-1", "behind the first")
	e.leave(a, queue, first.Place)
	e.isHead(e.head(a, queue), second, "", "after the first has left")
	e.leave(b, queue, second.Place)
	e.isNobody(e.head(b, queue), "after all have left")
}

// headPassed: it may be long ago that the caller saw that state.
func headPassed(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	first := e.join(a, queue)
	versions := []driver.Version{0, e.head(a, queue).Version}
	e.write(a, queue, first.Place, "written")
	versions = append(versions, e.head(a, queue).Version)
	e.leave(a, queue, first.Place)
	second := e.join(a, queue)
	wait := func(known driver.Version) driver.Head {
		head, err := a.Head(e.soon(), queue, known)
		e.ok(err, "Head that knows a state that has passed")
		return head
	}
	for _, known := range versions {
		e.isHead(wait(known), second, "", "for one who knows the past")
	}
	versions = append(versions, e.head(a, queue).Version)
	e.leave(a, queue, second.Place)
	for _, known := range versions[1:] {
		e.isNobody(wait(known), "for one who knows the past")
	}
	third := e.join(b, queue) // and another session
	for _, known := range versions {
		head, err := b.Head(e.soon(), queue, known)
		e.ok(err, "Head that knows a state that has passed")
		e.isHead(head, third, "", "for one who knows the past")
	}
}

// headVersions: two states with one version cannot be told apart, and who knows the first waits
// for ever for the second.
func headVersions(e *env) {
	s := e.open()
	queue := e.queue()
	seen := map[driver.Version]string{0: "nobody", driver.Any: "any"}
	note := func(what string) {
		head := e.head(s, queue)
		if before, again := seen[head.Version]; again {
			e.fail("a version of its own", "the state %q has version %d, as the state %q", what, head.Version, before)
		}
		seen[head.Version] = what
	}
	for i := range 3 {
		own := e.join(s, queue)
		note(fmt.Sprint("joined ", i))
		for _, value := range []string{"a", "b", "a"} {
			e.write(s, queue, own.Place, value)
			note(fmt.Sprintf("%q written %d", value, len(seen)))
		}
		own = e.convert(s, queue, own, "r", "a")
		note(fmt.Sprint("converted ", i))
		own = e.convert(s, queue, own, "x", "a")
		note(fmt.Sprint("converted back ", i))
		e.write(s, queue, own.Place, "b")
		note(fmt.Sprint("converted and written ", i))
		e.leave(s, queue, own.Place)
	}
}

// headFresh: replicas may lag, but not behind what their own client has done.
func headFresh(e *env) {
	s := e.open()
	queue := e.queue()
	for i := range 8 {
		own, next := e.join(s, queue), e.join(s, queue)
		e.isHead(e.head(s, queue), own, "", "after a join")
		value := fmt.Sprint(i)
		e.write(s, queue, own.Place, value)
		e.isHead(e.head(s, queue), own, value, "after a write")
		own = e.convert(s, queue, own, "r", "converted")
		e.isHead(e.head(s, queue), own, "converted", "after a conversion")
		e.leave(s, queue, own.Place)
		e.isHead(e.head(s, queue), next, "", "after a leave")
		e.ok(s.Forget(e.soon(), queue, next.Place.ID), "Forget")
		e.isNobody(e.head(s, queue), "after a forget")
	}
}

// headConverted: services that make a new entry put it where the newest stand.
func headConverted(e *env) {
	q := e.trio()
	q.own = e.convert(q.s, q.queue, q.own, "r", "own")
	q.first = e.convert(q.ahead, q.queue, q.first, "r", "first")
	e.isHead(e.head(q.ahead, q.queue), q.first, "first", "after the first was converted")
	e.leave(q.ahead, q.queue, q.first.Place)
	e.isHead(e.head(q.ahead, q.queue), q.own, "own", "when the first has left and the next one was converted")
}

// headRelay: each becomes the first only to leave, so whoever looks up the
// first and then its value finds it gone, time and again.
func headRelay(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	queue, last := e.queue(), contender()
	own := e.join(a, queue)
	last.Value = []byte("last")
	var readers []*outcome
	for _, s := range []session{seer, seer, b} {
		readers = append(readers, headSubject.reach(e, s, queue, driver.Any, "last"))
	}
	for i := range 20 {
		next := e.join([]session{b, a}[i%2], queue)
		e.leave([]session{a, b}[i%2], queue, own.Place)
		own = next
		sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50))))
	}
	e.leave(a, queue, own.Place) // there may be nobody, too
	final := e.joinAs(a, queue, last)
	for _, o := range readers {
		e.reached(o, "Head", "a relay")
	}
	e.isHead(e.head(seer, queue), final, "last", "after a relay")
}

// headNeverNobody: whoever is the first is converted, and leaves only when the
// next one stands. The tokens of the heads that are shown rise.
func headNeverNobody(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	queue := e.queue()
	own := e.join(a, queue)
	e.stands(seer, queue, own.Place.ID)
	pause := func() { sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) }
	relay := e.start(func() error {
		for i := range 20 {
			s, other := []session{a, b}[i%2], []session{b, a}[i%2]
			next, err := other.Join(e.soon(), queue, contender())
			if err != nil {
				return fmt.Errorf("Join: %w", err)
			}
			pause()
			if own.Place, err = s.Convert(e.soon(), queue, own, "r", nil); err != nil {
				return fmt.Errorf("Convert: %w", err)
			}
			pause()
			if err := s.Leave(e.soon(), queue, own.Place); err != nil {
				return fmt.Errorf("Leave: %w", err)
			}
			own = next
		}
		return nil
	})
	var latest driver.Token
	for running := true; running; pause() {
		select {
		case <-relay.done:
			running = false
		default:
		}
		head := e.head(seer, queue)
		if head.Token < latest || head.Token == 0 {
			e.fail(fmt.Sprintf("a head with a token of %d at least", latest), "Head is %+v with token %d", head.Place, head.Token)
		}
		latest = head.Token
	}
	e.ok(relay.err, "a relay")
}

// headChangeCases check what ends a wait for another head, and what does not.
var headChangeCases = []testCase{
	{name: "H1/the next one is told when the first leaves", body: headChange(func(e *env, q *trio) driver.Joined {
		e.leave(q.ahead, q.queue, q.first.Place)
		return q.own
	})},
	{name: "H1/the next one is told when the session of the first ends", needs: []Lever{Expire},
		body: headChange(func(e *env, q *trio) driver.Joined {
			e.ok(e.svc.Expire(e.soon(), q.ahead), "Expire of the harness")
			return q.own
		})},
	{name: "H1/the next one is told when the first is removed", needs: []Lever{Remove},
		body: headChange(func(e *env, q *trio) driver.Joined {
			e.ok(e.svc.Remove(e.soon(), q.queue, q.first.Place), "Remove of the harness")
			return q.own
		})},
	{name: "H1/a conversion of the first is told", body: headChange(func(e *env, q *trio) driver.Joined {
		return e.convert(q.ahead, q.queue, q.first, "r", "")
	})},
	{name: "H2/an empty queue is left when somebody joins", body: headOfEmpty},
	{name: "H2/others who come, go and write wake nobody", body: headOthers},
	{name: "H2/others who come, go and write are not even notified", needs: []Lever{Events}, body: headOthersNotNotified},
}

// follow waits for a state of the head that is not known, and goes on while the
// service is unavailable.
func (e *env) follow(s session, queue driver.Queue, known driver.Version, head *driver.Head) *outcome {
	o := e.start(func() error {
		for {
			var err error
			*head, err = s.Head(e.ctx, queue, known)
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				return err
			}
		}
	})
	e.settle()
	return o
}

// headChange lets the last of three wait for another head, and checks that it
// is the one that happen returns.
func headChange(happen func(e *env, q *trio) driver.Joined) func(e *env) {
	return func(e *env) {
		q := e.trio()
		known := e.head(q.behind, q.queue)
		e.isHead(known, q.first, "", "behind the first")
		var got driver.Head
		o := e.follow(q.behind, q.queue, known.Version, &got)
		e.waiting(o, "Head", "nothing")
		want := happen(e, q)
		e.reached(o, "Head", "a change")
		e.isHead(got, want, "", "after a change")
	}
}

// headOfEmpty: for the first time, and when all have left.
func headOfEmpty(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	for range 2 {
		var got driver.Head
		o := e.follow(s, queue, 0, &got)
		e.waiting(o, "Head of an empty queue", "nothing")
		e.setRecord(other, e.queue(), "elsewhere", 0)
		e.waiting(o, "Head of an empty queue", "a record elsewhere")
		c := contender()
		c.Value = []byte("here")
		own := e.joinAs(other, queue, c)
		e.reached(o, "Head of an empty queue", "a join")
		e.isHead(got, own, "here", "after a join in an empty queue")
		known := got.Version
		o = e.follow(s, queue, known, &got)
		e.leave(other, queue, own.Place)
		e.reached(o, "Head", "the last has left")
		e.isNobody(got, "when the last has left")
	}
}

// stir does in a queue all that does not change the first.
func (e *env) stir(d *duel, also session) {
	third := e.join(d.ahead, d.queue)
	e.comeAndGo(d, also)
	e.write(d.ahead, d.queue, third.Place, "written")
	third = e.convert(d.ahead, d.queue, third, "r", "converted")
	e.write(d.ahead, d.queue, third.Place, "written again")
	e.setRecordUntil(d.ahead, d.queue, "record "+newID())
	e.leave(d.ahead, d.queue, third.Place)
}

// headOthers: an observer is woken by the one who leads, not by those who would like to.
func headOthers(e *env) {
	d := e.duel()
	known := e.head(d.behind, d.queue)
	o := headSubject.reach(e, d.behind, d.queue, known.Version, "new")
	e.settle()
	e.stir(d, d.behind)
	e.write(d.behind, d.queue, d.second.Place, "the next")
	e.leave(d.behind, d.queue, d.second.Place)
	e.settle()
	e.waiting(o, "Head", "others came, went and wrote")
	e.write(d.ahead, d.queue, d.first.Place, "new")
	e.reached(o, "Head", "a write of the first")
}

// headOthersNotNotified: a driver may hide needless wake-ups from its caller,
// but the service has sent them.
func headOthersNotNotified(e *env) {
	d := e.duel()
	also := e.open()
	known := e.head(d.behind, d.queue)
	o := headSubject.reach(e, d.behind, d.queue, known.Version, "new")
	e.settle()
	before := d.client.Events()
	e.stir(d, also) // the client itself keeps still: it may well watch its own entries
	e.settle()
	if n := d.client.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications while others came, went and wrote", n)
	}
	e.waiting(o, "Head", "others came, went and wrote")
	e.write(d.ahead, d.queue, d.first.Place, "new")
	e.reached(o, "Head", "a write of the first")
}
