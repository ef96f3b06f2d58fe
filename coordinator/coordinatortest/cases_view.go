package coordinatortest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

var viewCases = []testCase{
	{"V1/a view is as new as what Watch has returned", nil, viewAsNewAsWatch},
	{"V1/a view never lacks a contender ahead while others join and leave", nil, viewNeverLacks},
	{"V2/a place that was left has no view", nil, viewOfLeft},
	{"V2/a place of an ended session has no view", []Lever{Expire}, viewOfEnded},
	{"Last/is true at the end of a queue", nil, lastAtEnd},
	{"Last/is true after the contenders behind have left", nil, lastAgain},
	{"V3/last is false ahead of others", nil, notLast},
	{"V3/last is false while a contender is always behind", []Lever{Converter}, lastNeverEarly},
	{"List,Mode,V4/a list and a view show entries in order, with mode and value", nil, listEntries},
	{"Q1/each change is shown", []Lever{QueueWatcher}, queueChanges},
	{"S1,V4/a list, a view and the head show the session's own changes", nil, listFresh},
}

// viewAsNewAsWatch: a waiter would watch again and again a place that has left
// and that its views still show.
func viewAsNewAsWatch(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	var places []driver.Place
	for range 6 {
		places = append(places, e.join(a, queue).Place)
	}
	own := e.join(b, queue)
	for len(places) > 0 {
		i := len(places) / 2
		e.leave(a, queue, places[i])
		e.ok(e.again(func(ctx context.Context) error { return b.Watch(ctx, queue, places[i]) }),
			"Watch of a place that was left")
		places = slices.Delete(places, i, i+1)
		e.same(e.ahead(b, queue, own.Place), ids(places),
			"ahead, after Watch has returned the leavings:")
	}
}

// viewNeverLacks: a view must show each contender that is ahead during the
// whole call.
func viewNeverLacks(e *env) {
	queue, watcher, s := e.queue(), e.open(), e.open()
	var over atomic.Bool
	var running []*outcome
	for range 3 {
		passing := e.open()
		running = append(running, e.start(func() error {
			for !over.Load() {
				j := e.join(passing, queue)
				e.jitter(e.Settle / 25)
				e.leave(passing, queue, j.Place)
			}
			return nil
		}))
	}
	var stay []string
	for range 20 {
		stay = append(stay, e.join(s, queue).Place.ID)
		own := e.join(watcher, queue)
		for range 3 {
			view := e.ahead(watcher, queue, own.Place)
			view = slices.DeleteFunc(view,
				func(id string) bool { return !slices.Contains(stay, id) })
			e.same(view, stay, "a view shows, of the contenders that stay,")
			e.jitter(e.Settle / 50)
		}
		e.leave(watcher, queue, own.Place)
	}
	over.Store(true)
	for _, o := range running {
		e.ok(e.ends(o, e.Patience, "joins and leaves"), "joins and leaves")
	}
}

// viewOfLeft: an empty view of a place that has left would admit its contender.
func viewOfLeft(e *env) {
	s, queue := e.open(), e.queue()
	own := e.join(s, queue)
	e.join(s, queue)
	e.leave(s, queue, own.Place)
	e.noView(s, queue, own.Place)
	if e.has(Remove) {
		own = e.join(s, queue)
		e.delete(queue, own.Place)
		e.noView(s, queue, own.Place)
	}
}

// viewOfEnded: the client may not know yet that its session is over.
func viewOfEnded(e *env) {
	d := e.pair()
	e.expire(d.behind)
	e.noView(d.behind, d.queue, d.second.Place)
}

// noView waits until Ahead fails: a view may be older than the removal of own.
func (e *env) noView(s session, queue driver.Queue, own driver.Place) {
	var err error
	e.eventually("Ahead fails", func() bool {
		err = e.again(func(ctx context.Context) error { return errOf(s.Ahead(ctx, queue, own)) })
		return err != nil
	})
	e.is(err, "Ahead of a place that is gone", driver.ErrGone, driver.ErrSessionLost)
}

// last checks Last, of a view that must be new enough: by the join of own, or
// by a Watch.
func (e *env) last(s session, queue driver.Queue, own driver.Joined, want bool, where string) {
	if view := e.view(s, queue, own.Place); view.Last != want {
		e.fail(fmt.Sprintf("Last is %t", want), "Last is %t %s", view.Last, where)
	}
}

// lastAtEnd: no view of the last contender can show one behind.
func lastAtEnd(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	e.last(a, queue, e.join(a, queue), true, "alone in the queue")
	e.last(b, queue, e.join(b, queue), true, "at the end of the queue")
	own := e.join(a, queue)
	e.last(a, queue, own, true, "at the end, with another of the same session ahead")
}

// lastAgain: a view shows the leaving behind that Watch has returned.
func lastAgain(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	own := e.join(a, queue)
	for _, converted := range []bool{false, true} {
		behind := e.join(b, queue)
		if converted && e.has(Converter) {
			behind = e.convert(b, queue, behind, "r", "")
		}
		e.catchUp(a, b, queue)
		e.last(a, queue, own, false, "ahead of another")
		e.leave(b, queue, behind.Place)
		e.fires(e.watch(a, queue, behind.Place), "the contender behind left")
		e.last(a, queue, own, true, "after the contender behind has left")
	}
}

// notLast: a converted entry may be the newest without being the last.
func notLast(e *env) {
	q := e.trio()
	expect := func(when string) {
		e.catchUp(q.ahead, q.behind, q.queue)
		e.last(q.ahead, q.queue, q.first, false, "at the head of three "+when)
		e.catchUp(q.s, q.behind, q.queue)
		e.last(q.s, q.queue, q.own, false, "in the middle of three "+when)
	}
	expect("without conversions")
	if e.has(Converter) {
		q.last = e.convert(q.behind, q.queue, q.last, "r", "")
		expect("whose last was converted")
		q.own = e.convert(q.s, q.queue, q.own, "r", "")
		expect("whose middle was converted last")
		e.catchUp(q.behind, q.ahead, q.queue)
		e.last(q.behind, q.queue, q.last, true, "at the end, behind a later conversion")
	}
	e.leave(q.behind, q.queue, q.last.Place)
	e.catchUp(q.ahead, q.s, q.queue)
	e.last(q.ahead, q.queue, q.first, false, "at the head of two")
}

func lastNeverEarly(e *env) {
	s, a, b, queue := e.open(), e.open(), e.open(), e.queue()
	first := e.join(a, queue)
	own := e.join(s, queue)
	behind := e.join(a, queue)
	e.catchUp(s, b, queue)
	e.relay(queue, a, b, behind, func() {
		view := e.view(s, queue, own.Place)
		e.same(ids(view.Ahead), []string{first.Place.ID},
			"ahead while contenders behind replace each other:")
		if view.Last {
			e.fail("Last is false", "Last is true although a contender was always behind")
		}
	})
}

// noPlace makes Ahead return the whole queue (V4).
var noPlace driver.Place

func (e *env) whole(s session, queue driver.Queue, when string, want ...driver.Place) {
	if view := e.view(s, queue, noPlace); !slices.Equal(view.Ahead, want) || !view.Last {
		e.fail(fmt.Sprintf("%+v, Last true", want), "%s the whole queue is %+v, Last %t",
			when, view.Ahead, view.Last)
	}
}

// listEntries: all sessions see the same modes and values, of any bytes.
func listEntries(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	e.whole(a, queue, "before the first join") // some services have no such queue then
	e.same(e.queued(a, queue), []string{}, "a new queue has")
	values := []string{"host-1", "", big(), "\x00\xff ü/%"}
	var want []driver.Place
	var joined []driver.Joined
	for i, mode := range []string{"x", "p3", "abcdefghijklmnop", "1234567890123456"} {
		s, c := []session{a, b}[i%2], driver.Contender{ID: newID(), Mode: mode,
			Value: []byte(values[i])}
		j := e.joinAs(s, queue, c)
		if p := j.Place; p.ID != c.ID || p.Mode != mode || p.Session != s.ID() {
			e.fail(fmt.Sprintf("ID %s, mode %s, session %s", c.ID, mode, s.ID()),
				"Join returned %+v", p)
		}
		if view := e.view(s, queue, j.Place); !slices.Equal(view.Ahead, want) {
			e.fail(fmt.Sprintf("the places of Join: %+v", want), "Ahead: %+v", view.Ahead)
		}
		want, joined = append(want, j.Place), append(joined, j)
	}
	for _, s := range []session{b, a} {
		e.eventually(fmt.Sprintf("the whole queue is %+v", want), func() bool {
			return slices.Equal(e.view(s, queue, noPlace).Ahead, want)
		})
		e.whole(s, queue, "for a session that has seen it", want...)
		for limit, n := range []int{4, 1, 2, 3, 4, 4} {
			got, err := s.List(e.soon(), queue, limit)
			e.ok(err, "List")
			e.same(entryIDs(got), ids(want[:n]), fmt.Sprintf("List with limit %d has", limit))
			for i, x := range got {
				if j := joined[i]; !sameEntry(x, j, values[i]) {
					e.fail(sprintEntry(j, values[i]), "List shows %s", sprintEntries(got[i:i+1]))
				}
			}
		}
	}
}

// listFresh: a replica may lag, but not behind the session's own changes.
func listFresh(e *env) {
	s, queue := e.open(), e.queue()
	expect := func(after, value string, want ...driver.Joined) {
		places := placesOf(want)
		e.same(e.queued(s, queue), ids(places), "after "+after+" the queue has")
		e.whole(s, queue, "after "+after, places...)
		if e.has(QueueWatcher) {
			var view []driver.Place
			err := s.WatchQueue(e.soon(), queue,
				func(shown []driver.Place) bool { view = shown; return false })
			e.ok(err, "WatchQueue whose first view ends it")
			e.same(ids(view), ids(places), "after "+after+" the first view of a watch has")
		}
		switch {
		case !e.has(HeadWatcher):
		case len(want) == 0:
			e.isNoHead(e.head(s, queue), "after "+after)
		default:
			e.isHead(e.head(s, queue), want[0], value, "after "+after)
		}
	}
	for i := range 10 {
		first, second := e.join(s, queue), e.join(s, queue)
		expect("two joins", "", first, second)
		value := fmt.Sprint(i)
		if e.has(Writer) {
			e.write(s, queue, first.Place, value)
			expect("a write", value, first, second)
		}
		if e.has(Converter) {
			first = e.convert(s, queue, first, "r", "converted")
			expect("a conversion", "converted", first, second)
		}
		e.leave(s, queue, first.Place)
		expect("a leave", "", second)
		e.ok(s.Forget(e.soon(), queue, second.Place.ID), "Forget")
		expect("a forget", "")
	}
}

func queueChanges(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	var latest atomic.Pointer[[]driver.Place]
	var shows atomic.Int32
	var last atomic.Bool
	o := e.start(func() error {
		return b.WatchQueue(e.ctx, queue, func(places []driver.Place) bool {
			shows.Add(1)
			latest.Store(&places)
			return !last.Load()
		})
	})
	expect := func(after string, want ...driver.Joined) {
		places := placesOf(want)
		e.eventually(fmt.Sprintf("WatchQueue shows %+v after %s", places, after), func() bool {
			shown := latest.Load()
			return shown != nil && slices.Equal(*shown, places)
		})
	}
	first := e.join(a, queue)
	expect("a join", first)
	second := e.join(b, queue)
	expect("a join of its own session", first, second)
	if e.has(Converter) {
		first = e.convert(a, queue, first, "r", "")
		expect("a conversion", first, second)
	}
	third := e.join(a, queue)
	e.leave(a, queue, first.Place)
	expect("a join and a leaving", second, third)
	e.closes(a)
	expect("the end of a session", second)
	e.leave(b, queue, second.Place)
	expect("all have left")
	last.Store(true)
	e.join(b, queue)
	e.fires(o, "show returned false")
	before := shows.Load()
	e.join(b, queue)
	e.settle()
	if shows.Load() > before {
		e.fail("show is not called again", "WatchQueue calls show after it has returned false")
	}
}
