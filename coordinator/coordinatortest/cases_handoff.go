package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

// nearestCases check whom a joiner is told to be behind. A driver may leave it
// out.
var nearestCases = []testCase{
	{"J8/nearest is the contender that joined before", nil, nearestJoined},
	{"J8/nearest with Alone and Record is the contender that joined before", nil, nearestAsked},
}

var handoffCases = []testCase{
	{"N1/a queue is passed on after a waiter has left", nil, passedOn},
	{"N1/a conversion is no pass", []Lever{Converter}, conversionIsNoPass},
	{"N1/an earlier pass of the same session is no pass", nil, earlierPass},
	{"N1/a pass of nothing is no pass", []Lever{Remove}, passOfNothing},
	{"N3/the marker of a pass is no contender", nil, markerIsNoContender},
	{
		"W2,N3/a pass wakes only the follower",
		[]Lever{Events, HeadWatcher}, passWakesOnlyFollower,
	},
}

func (e *env) followed(s session, queue driver.Queue, own, ahead driver.Place) *follower {
	return follows.begin(e, s, &pair{
		queue: queue, first: driver.Joined{Place: ahead}, second: driver.Joined{Place: own},
	})
}

// told waits for the end of a Follow. A false passed says nothing, so may tells
// whether it could be true.
func (e *env) followEnds(f *follower, after string, may bool) {
	e.fires(f.outcome, after)
	if f.passed && !may {
		e.fail("passed is false", "Follow after %s: passed", after)
	}
}

// near checks whom a contender is told to be behind. A zero place says nothing.
func (e *env) near(j driver.Joined, after string, may ...driver.Place) {
	same := func(p driver.Place) bool {
		p.Key = j.Nearest.Key // which may be that of before a conversion
		return p == j.Nearest
	}
	if j.Nearest != (driver.Place{}) && !slices.ContainsFunc(may, same) {
		e.fail(fmt.Sprintf("nobody, or one of %+v", may), "%s Nearest is %+v", after, j.Nearest)
	}
}

// nearestJoined: who comes next is told of the one before, or of nobody; never
// of one further ahead, and never of one who has joined since.
func nearestJoined(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first := e.joinPair(a, queue, true)
	e.near(first, "the first:")
	second := e.joinPair(b, queue, true)
	e.near(second, "behind another:", first.Place)
	third := e.joinPair(a, queue, true)
	e.near(third, "behind two:", second.Place)
	again := driver.Contender{ID: second.Place.ID, Mode: "x", Follows: true, Again: true}
	e.near(e.joinAs(b, queue, again), "joined again:", first.Place)

	// The last goes: of the one before it whoever comes next may be told
	// nothing.
	e.leave(a, queue, third.Place)
	next := e.joinPair(b, queue, true)
	e.near(next, "behind one who left:", third.Place, second.Place)
	if e.has(Handoff) && next.Nearest.ID == third.Place.ID {
		e.followEnds(e.followed(b, queue, next.Place, next.Nearest), "the one ahead had left", false)
	}
}

// nearestAsked: a joiner that would be alone, or that knows the record, joins
// as any other.
func nearestAsked(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	version := e.setRecord(a, queue, "value", 0)
	c := alone()
	c.Follows, c.Record = true, version
	last := e.joinAs(a, queue, c)
	e.near(last, "alone:")
	for _, s := range []session{a, b} {
		c := alone()
		c.Follows, c.Record = true, version
		_, err := s.Join(e.soon(), queue, c)
		e.is(err, "Join of one who wants to be alone", driver.ErrTaken)
		c.ID, c.Alone = newID(), false
		e.refuseStale(s, queue, c, version+1)
	}
	for _, s := range []session{b, a} { // those who were refused are not near
		c := contender()
		c.Follows, c.Record = true, version
		j := e.joinAs(s, queue, c)
		e.near(j, "with the record:", last.Place)
		last = j
	}
}

// passedOn: nobody is told that it is first because one ahead has left who was
// not. Whoever comes to follow one who has passed is not kept waiting.
func passedOn(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first, second := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
	third, fourth := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
	f := e.followed(b, queue, fourth.Place, third.Place)
	e.stillWaits(f.outcome, "everybody joined")
	e.leave(a, queue, third.Place)
	e.followEnds(f, "the one ahead left", false)
	f = e.followed(b, queue, fourth.Place, second.Place)
	passes.must(e, a, queue, first)
	e.stillWaits(f.outcome, "one further ahead passed")
	e.followEnds(e.followed(b, queue, second.Place, first.Place), "the one ahead had passed", true)
	e.same(e.ahead(b, queue, second.Place), []string{}, "ahead:")
	passes.must(e, b, queue, second)
	e.followEnds(f, "the one ahead passed", true)
	passes.must(e, b, queue, fourth)
	e.empty(queue)
}

// empty checks that a queue is empty to everybody who looks.
func (e *env) empty(queue driver.Queue) {
	s := e.open()
	e.same(e.queued(s, queue), []string{}, "in the queue:")
	e.leave(s, queue, e.joinAs(s, queue, alone()).Place)
}

// conversionIsNoPass: who follows has to look, and finds the one ahead still
// there.
func conversionIsNoPass(e *env) {
	d := e.pairOf(true)
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	old := d.first
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	e.followEnds(f, "the one ahead was converted", false)
	e.followEnds(e.followed(d.behind, d.queue, d.second.Place, old.Place),
		"the one ahead had been converted", false)
	e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{d.first.Place.ID}, "ahead:")
	f = e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	e.stillWaits(f.outcome, "nothing")
	passes.must(e, d.ahead, d.queue, d.first)
	e.followEnds(f, "the converted one passed", true)
	passes.must(e, d.behind, d.queue, d.second)
	e.empty(d.queue)
}

// earlierPass: whatever a session leaves when it passes speaks of one entry.
func earlierPass(e *env) {
	d := e.pairOf(true)
	third, fourth := e.joinPair(d.ahead, d.queue, true), e.joinPair(d.behind, d.queue, true)
	passes.must(e, d.ahead, d.queue, d.first)
	f := e.followed(d.behind, d.queue, fourth.Place, third.Place)
	e.stillWaits(f.outcome, "another of the same session passed")
	e.leave(d.ahead, d.queue, third.Place)
	e.followEnds(f, "one gave up whose session had passed", false)
	e.followEnds(e.followed(d.behind, d.queue, fourth.Place, third.Place),
		"one had given up whose session had passed", false)
	passes.must(e, d.behind, d.queue, d.second)
	passes.must(e, d.behind, d.queue, fourth)
	e.empty(d.queue)
}

// passOfNothing: it comes too late, for an entry that an operator has deleted.
func passOfNothing(e *env) {
	d := e.pairOf(true)
	e.delete(d.queue, d.first.Place)
	passes.findsNone(e, d.ahead, d.queue, d.first, "a removed entry")
	e.followEnds(e.followed(d.behind, d.queue, d.second.Place, d.first.Place),
		"the one ahead was removed", false)
	passes.findsNone(e, d.ahead, d.queue, d.first, "a removed entry")
	e.leave(d.behind, d.queue, d.second.Place)
	e.empty(d.queue)
}

// markerIsNoContender: neither when nobody is behind, nor when the one behind is
// gone before it can tell.
func markerIsNoContender(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	passes.must(e, a, queue, e.joinPair(a, queue, true))
	if e.has(HeadWatcher) {
		e.isNoHead(e.head(a, queue), "after a pass of the only one")
	}
	e.empty(queue)

	first, second := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
	f := e.followed(b, queue, second.Place, first.Place)
	passes.must(e, a, queue, first)
	e.fires(f.outcome, "the one ahead passed")
	e.eventually("nobody ahead and nobody behind the only one", func() bool {
		v := e.view(b, queue, second.Place)
		return len(v.Ahead) == 0 && v.Last
	})
	e.closes(b)
	e.empty(queue)
}

// passWakesOnlyFollower: what a pass leaves comes and goes, with its session at the
// latest, and wakes nobody.
func passWakesOnlyFollower(e *env) {
	d, c, also := e.pairOf(true), e.connect(), e.open()
	s := e.openOn(c)
	third := e.joinPair(s, d.queue, true)
	second := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	f := e.followed(s, d.queue, third.Place, d.second.Place)
	before := c.Events()
	passes.must(e, d.ahead, d.queue, d.first)
	e.followEnds(second, "the one ahead passed", true)
	head := driver.Head{}
	e.eventually("the second is the head", func() bool {
		head = e.head(also, d.queue)
		return head.ID == d.second.Place.ID
	})
	h := e.start(func() error { return errOf(also.Head(e.ctx, d.queue, head.Version)) })
	r := e.start(func() error { return errOf(also.Record(e.ctx, d.queue, 0)) })
	e.settle()
	e.closes(d.ahead)
	e.stillWaits(f.outcome, "the session of one further ahead has passed and is over")
	e.waiting(h, "Head", "a session that had passed was over")
	e.waiting(r, "Record", "a session that had passed was over")
	if n := c.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications of one who follows another", n)
	}
	passes.must(e, d.behind, d.queue, d.second)
	e.followEnds(f, "the one ahead passed", true)
}

// contestCases have many goroutines on three sessions use one queue as recipes
// do.
var contestCases = []testCase{
	{"G1/many goroutines share sessions and a queue", nil, joinAndLeave},
	{"G1/many goroutines follow, pass and cancel", passes.needs, followAndPass},
	{
		"G1/many goroutines convert, write and count",
		[]Lever{Converter, Writer, HeadWatcher}, convertAndCount,
	},
}

func joinAndLeave(e *env)    { manyGoroutines(e, leaves) }
func followAndPass(e *env)   { manyGoroutines(e, passes) }
func convertAndCount(e *env) { manyGoroutines(e, leaves, "r", "x") }

// contest is a plain mutex over one queue.
type contest struct {
	*env
	queue  driver.Queue
	by     entryCall // by which the holder releases
	modes  []string  // to which each is converted while it waits; after each it counts
	inside atomic.Int32
	last   atomic.Int64
}

// manyGoroutines: whatever is not safe for many callers, or wrong about who is
// ahead, lets two in at once or leaves one waiting.
func manyGoroutines(e *env, by entryCall, modes ...string) {
	sessions := e.three()
	c := &contest{env: e, queue: e.queue(), by: by, modes: modes}
	e.concurrently(24, "a goroutine that joins, waits and leaves", func(i int) {
		for round := range 3 {
			c.take(sessions[i%len(sessions)], by.follows && (i+round)%3 == 0)
		}
	})
	e.awaitQueue(sessions[0], c.queue)
	if n := 24 * 3 * len(modes); n > 0 {
		e.eventually(fmt.Sprint("a count of ", n), func() bool {
			return string(e.record(sessions[0], c.queue).Value) == strconv.Itoa(n)
		})
	}
}

func (c *contest) take(s session, impatient bool) {
	x := contender()
	x.Follows = c.by.follows
	own := c.joinAs(s, c.queue, x)
	for _, mode := range c.modes {
		own.Place = c.change(s, own, mode)
	}
	ctx := c.in(3 * c.Patience)
	if impatient {
		ctx = c.in(random(c.Settle / 5))
	}
	if err := c.waitUntilFirst(ctx, s, own); err != nil {
		if !impatient || ctx.Err() == nil {
			c.ok(err, "a wait")
		}
		c.leave(s, c.queue, own.Place)
		return
	}
	if n := c.inside.Add(1); n != 1 {
		c.fail("one that is first", "%d contenders are first at once", n)
	}
	c.rises(own, driver.Token(c.last.Swap(int64(own.Token))), "of the next one admitted")
	runtime.Gosched()
	if c.by.follows {
		sleep(c.ctx, c.Settle/100)
	}
	c.inside.Add(-1)
	c.by.must(c.env, s, c.queue, own)
}

// turn waits until own is first in the queue: by a pass to it, or by a look
// after any other leaving.
func (c *contest) waitUntilFirst(ctx context.Context, s session, own driver.Joined) error {
	for ahead := own.Nearest; !own.First; ahead = (driver.Place{}) {
		if ahead == (driver.Place{}) {
			view, err := s.Ahead(ctx, c.queue, own.Place)
			if err != nil || len(view.Ahead) == 0 {
				return err
			}
			ahead = view.Ahead[len(view.Ahead)-1]
		}
		var err error
		if c.by.follows {
			own.First, err = s.Follow(ctx, c.queue, own.Place, ahead)
		} else {
			err = s.Watch(ctx, c.queue, ahead)
		}
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return err
		}
	}
	return nil
}

// change changes all that a contender can: a conversion or write that goes to
// another's entry ends that one's, and two writes over one version lose a
// count.
func (c *contest) change(s session, own driver.Joined, mode string) driver.Place {
	c.write(s, c.queue, own.Place, "in "+own.Place.Mode)
	place, err := s.Convert(c.soon(), c.queue, own, mode, nil)
	c.ok(err, "Convert")
	if c.head(s, c.queue).ID == "" {
		c.fail("a head", "Head shows nobody, while contenders stand in the queue")
	}
	c.refuse(s, c.queue)
	c.count(s)
	return place
}

func (c *contest) count(s session) {
	for {
		r := c.record(s, c.queue)
		n, _ := strconv.Atoi(string(r.Value)) // none is zero
		_, err := s.SetRecord(c.soon(), c.queue, []byte(strconv.Itoa(n+1)), r.Version)
		if !errors.Is(err, driver.ErrStale) {
			c.ok(err, "SetRecord")
			return
		}
	}
}
