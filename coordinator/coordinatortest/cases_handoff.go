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

// nearestCases check Nearest, which a driver may leave zero.
var nearestCases = []testCase{
	{"J8/nearest is the contender that joined before", nil, nearestJoined},
	{"J8/nearest with Alone and Record is the contender that joined before", nil, nearestAsked},
}

var handoffCases = []testCase{
	{"N1/a queue is passed on after a waiter has left", nil, passedOn},
	{"N1/a conversion is no pass", []Lever{Converter}, conversionIsNoPass},
	{"N1/an earlier pass of the same session is no pass", nil, earlierPass},
	{"N1/a pass of nothing is no pass", []Lever{Remove}, passOfNothing},
	{"N2/the removal of its own entry ends a wait", []Lever{Remove}, ownRemovalEnds},
	{"N2/the removal of an entry ends the waits of its session alone", []Lever{Remove}, removalEndsTwo},
	{"N2/a converted entry follows none", []Lever{Converter}, convertedFollowsNone},
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

// followEnds waits for the end of a Follow. may says whether passed may be
// true; false says nothing.
func (e *env) followEnds(f *follower, after string, may bool) {
	e.fires(f.outcome, after)
	if f.passed && !may {
		e.fail("passed is false", "Follow after %s: passed", after)
	}
}

// near checks Nearest: zero, or one of some places.
func (e *env) near(j driver.Joined, after string, may ...driver.Place) {
	same := func(p driver.Place) bool {
		p.Key = j.Nearest.Key // may be older than a conversion
		return p == j.Nearest
	}
	if j.Nearest != (driver.Place{}) && !slices.ContainsFunc(may, same) {
		e.fail(fmt.Sprintf("zero, or one of %+v", may), "%s Nearest is %+v", after, j.Nearest)
	}
}

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

	// Nearest may be a contender that has just left.
	e.leave(a, queue, third.Place)
	next := e.joinPair(b, queue, true)
	e.near(next, "after the last left:", third.Place, second.Place)
	if e.has(Handoff) && next.Nearest.ID == third.Place.ID {
		e.followEnds(e.followed(b, queue, next.Place, next.Nearest), "an earlier leave", false)
	}
}

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
		e.is(err, "Join with Alone", driver.ErrTaken)
		c.ID, c.Alone = newID(), false
		e.refuseStale(s, queue, c, version+1)
	}
	for _, s := range []session{b, a} { // Nearest is no refused contender
		c := contender()
		c.Follows, c.Record = true, version
		j := e.joinAs(s, queue, c)
		e.near(j, "with the record:", last.Place)
		last = j
	}
}

// passedOn: a Leave of a waiter is no pass. A Follow after a pass returns at
// once.
func passedOn(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first, second := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
	third, fourth := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
	f := e.followed(b, queue, fourth.Place, third.Place)
	e.stillWaits(f.outcome, "all joined")
	e.leave(a, queue, third.Place)
	e.followEnds(f, "its predecessor left", false)
	f = e.followed(b, queue, fourth.Place, second.Place)
	passes.must(e, a, queue, first)
	e.stillWaits(f.outcome, "another contender ahead passed")
	e.followEnds(e.followed(b, queue, second.Place, first.Place), "an earlier pass", true)
	e.same(e.ahead(b, queue, second.Place), []string{}, "ahead:")
	passes.must(e, b, queue, second)
	e.followEnds(f, "its predecessor passed", true)
	passes.must(e, b, queue, fourth)
	e.empty(queue)
}

// empty checks that a queue is empty for List and Join.
func (e *env) empty(queue driver.Queue) {
	s := e.open()
	e.same(e.queued(s, queue), []string{}, "in the queue:")
	e.leave(s, queue, e.joinAs(s, queue, alone()).Place)
}

func conversionIsNoPass(e *env) {
	d := e.pairOf(true)
	f := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	old := d.first
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	e.followEnds(f, "its predecessor was converted", false)
	e.followEnds(e.followed(d.behind, d.queue, d.second.Place, old.Place),
		"its predecessor had been converted", false)
	e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{d.first.Place.ID}, "ahead:")
	f = e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	e.stillWaits(f.outcome, "nothing")
	passes.must(e, d.ahead, d.queue, d.first)
	e.followEnds(f, "the converted predecessor passed", true)
	passes.must(e, d.behind, d.queue, d.second)
	e.empty(d.queue)
}

// earlierPass: the marker of a pass is for one entry, not for its session.
func earlierPass(e *env) {
	d := e.pairOf(true)
	third, fourth := e.joinPair(d.ahead, d.queue, true), e.joinPair(d.behind, d.queue, true)
	passes.must(e, d.ahead, d.queue, d.first)
	f := e.followed(d.behind, d.queue, fourth.Place, third.Place)
	e.stillWaits(f.outcome, "another contender of the session passed")
	e.leave(d.ahead, d.queue, third.Place)
	e.followEnds(f, "a leave after another pass of the session", false)
	e.followEnds(e.followed(d.behind, d.queue, fourth.Place, third.Place),
		"an earlier leave after another pass of the session", false)
	passes.must(e, d.behind, d.queue, d.second)
	passes.must(e, d.behind, d.queue, fourth)
	e.empty(d.queue)
}

// passOfNothing passes an entry that an operator has deleted.
func passOfNothing(e *env) {
	d := e.pairOf(true)
	e.delete(d.queue, d.first.Place)
	passes.isGone(e, d.ahead, d.queue, d.first, "a removed entry")
	e.followEnds(e.followed(d.behind, d.queue, d.second.Place, d.first.Place),
		"its predecessor was removed", false)
	passes.isGone(e, d.ahead, d.queue, d.first, "a removed entry")
	e.leave(d.behind, d.queue, d.second.Place)
	e.empty(d.queue)
}

// ownRemovalEnds: behind an entry of another session, and behind one of the
// same. Without OwnWatched, a Watch notices it.
func ownRemovalEnds(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first, second := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
	third := e.joinPair(b, queue, true)
	for _, wait := range []struct{ own, ahead driver.Joined }{{third, second}, {second, first}} {
		f := e.followed(b, queue, wait.own.Place, wait.ahead.Place)
		e.stillWaits(f.outcome, "nothing")
		w := f.outcome
		if !b.Capabilities().OwnWatched {
			w = e.watch(b, queue, wait.own.Place)
		}
		e.delete(queue, wait.own.Place)
		err := e.ends(w, e.Patience, "a wait whose own entry was removed")
		if w == f.outcome {
			e.is(err, "Follow of a removed entry", driver.ErrGone)
		} else {
			e.ok(err, "Watch of a removed entry")
		}
	}
	e.ok(b.Renew(e.soon()), "Renew of a session whose entries were removed")
	passes.must(e, a, queue, first)
	e.empty(queue)
}

// removalEndsTwo: the contender of the entry and its follower notice that it
// was removed, also if they wait later. The others of the session wait on.
func removalEndsTwo(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	all := []driver.Joined{e.joinPair(a, queue, true)}
	var waits []*follower
	for i := range 4 {
		all = append(all, e.joinPair(b, queue, true))
		waits = append(waits, e.followed(b, queue, all[i+1].Place, all[i].Place))
	}
	e.stillWaits(waits[3].outcome, "nothing")
	e.delete(queue, all[3].Place) // that of waits[2]; waits[3] follows it
	e.followEnds(waits[3], "its predecessor was removed", false)
	if b.Capabilities().OwnWatched {
		e.is(e.ends(waits[2].outcome, e.Patience, "the wait of a removed entry"),
			"Follow of a removed entry", driver.ErrGone)
		_, err := b.Follow(e.soon(), queue, all[3].Place, all[2].Place)
		e.is(err, "a later Follow of a removed entry", driver.ErrGone)
	}
	e.followEnds(e.followed(b, queue, all[4].Place, all[3].Place),
		"its predecessor had been removed", false)
	e.stillWaits(waits[1].outcome, "another entry of its session was removed")
	e.stillWaits(waits[0].outcome, "another entry of the other session was removed")
	for _, i := range []int{4, 2, 1} {
		e.leave(b, queue, all[i].Place)
	}
	passes.must(e, a, queue, all[0])
	e.empty(queue)
}

// convertedFollowsNone: with OwnWatched, the wait for the own entry is for the
// one that the join has made.
func convertedFollowsNone(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	all := []driver.Joined{e.joinPair(a, queue, true), e.joinPair(b, queue, true), e.joinPair(b, queue, true)}
	converted := e.convert(b, queue, all[2], "r", "")
	if b.Capabilities().OwnWatched {
		for _, ahead := range all[:2] {
			_, err := b.Follow(e.soon(), queue, converted.Place, ahead.Place)
			e.is(err, "Follow of a converted entry", driver.ErrInvalid)
		}
	}
	e.leave(b, queue, converted.Place)
	e.leave(b, queue, all[1].Place)
	passes.must(e, a, queue, all[0])
	e.empty(queue)
}

// markerIsNoContender passes an entry with no successor, and one whose
// successor is closed afterwards.
func markerIsNoContender(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	passes.must(e, a, queue, e.joinPair(a, queue, true))
	if e.has(HeadWatcher) {
		e.isNoHead(e.head(a, queue), "after a pass of the only contender")
	}
	e.empty(queue)

	first, second := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
	f := e.followed(b, queue, second.Place, first.Place)
	passes.must(e, a, queue, first)
	e.fires(f.outcome, "its predecessor passed")
	e.eventually("no contender ahead or behind", func() bool {
		v := e.view(b, queue, second.Place)
		return len(v.Ahead) == 0 && v.Last
	})
	e.closes(b)
	e.empty(queue)
}

// passWakesOnlyFollower: making and removing a marker wakes no other wait.
func passWakesOnlyFollower(e *env) {
	d, c, also := e.pairOf(true), e.connect(), e.open()
	s := e.openOn(c)
	third := e.joinPair(s, d.queue, true)
	second := e.followed(d.behind, d.queue, d.second.Place, d.first.Place)
	f := e.followed(s, d.queue, third.Place, d.second.Place)
	before := c.Events()
	passes.must(e, d.ahead, d.queue, d.first)
	e.followEnds(second, "its predecessor passed", true)
	head := driver.Head{}
	e.eventually("the second is the head", func() bool {
		head = e.head(also, d.queue)
		return head.ID == d.second.Place.ID
	})
	h := e.start(func() error { return errOf(also.Head(e.ctx, d.queue, head.Version)) })
	r := e.start(func() error { return errOf(also.Record(e.ctx, d.queue, 0)) })
	e.settle()
	e.closes(d.ahead)
	e.stillWaits(f.outcome, "the end of a session that had passed")
	e.waiting(h, "Head", "the end of a session that had passed")
	e.waiting(r, "Record", "the end of a session that had passed")
	if n := c.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications of a follower of another entry", n)
	}
	passes.must(e, d.behind, d.queue, d.second)
	e.followEnds(f, "its predecessor passed", true)
}

// contestCases use one queue as recipes do, from many goroutines on three
// sessions. Like the engine, they repeat calls while the service is
// unavailable.
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

// manyGoroutines fails when two goroutines hold at once, or one waits for ever.
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
		c.removes(leaves, s, own)
		return
	}
	if n := c.inside.Add(1); n != 1 {
		c.fail("one contender that is first", "%d contenders are first at once", n)
	}
	c.rises(own, driver.Token(c.last.Swap(int64(own.Token))), "of the next holder")
	runtime.Gosched()
	if c.by.follows {
		sleep(c.ctx, c.Settle/100)
	}
	c.inside.Add(-1)
	c.removes(c.by, s, own)
}

// removes calls by, and repeats it only after an unknown outcome: before that
// the entry must be there.
func (c *contest) removes(by entryCall, s session, own driver.Joined) {
	err := by.call(c.soon(), s, c.queue, own)
	if errors.Is(err, driver.ErrUnavailable) {
		by.repeat(c.env, s, c.queue, own)
		return
	}
	c.ok(err, by.name)
}

// waitUntilFirst waits for a pass to own, or reads the queue after any other
// leaving.
func (c *contest) waitUntilFirst(ctx context.Context, s session, own driver.Joined) error {
	for ahead := own.Nearest; !own.First; ahead = (driver.Place{}) {
		if ahead == (driver.Place{}) {
			var view driver.View
			err := c.again(func(ctx context.Context) (err error) {
				view, err = s.Ahead(ctx, c.queue, own.Place)
				return err
			})
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

// change writes, converts and counts. A conversion or write of a wrong entry
// fails the other goroutine, and two writes over one version lose a count.
func (c *contest) change(s session, own driver.Joined, mode string) driver.Place {
	c.write(s, c.queue, own.Place, "in "+own.Place.Mode)
	place, err := s.Convert(c.soon(), c.queue, own, mode, nil)
	c.ok(err, "Convert")
	if c.head(s, c.queue).ID == "" {
		c.fail("a head", "Head is empty, while the queue is not")
	}
	c.refuse(s, c.queue)
	c.count(s)
	return place
}

func (c *contest) count(s session) {
	for {
		r := c.record(s, c.queue)
		n, _ := strconv.Atoi(string(r.Value)) // 0 without a record
		_, err := s.SetRecord(c.soon(), c.queue, []byte(strconv.Itoa(n+1)), r.Version)
		if !errors.Is(err, driver.ErrStale) {
			c.ok(err, "SetRecord")
			return
		}
	}
}
