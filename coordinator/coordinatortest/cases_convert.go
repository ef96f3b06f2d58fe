package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

var convertCases = []testCase{
	{"M1/a conversion keeps id, session, token and order", nil, conversionKeeps},
	{"M1/a converted entry has a new key and a view at once", nil, conversionKeys},
	{"M1/a view shows the old entry or the new one", nil, viewsOfConversions},
	{"M2/the old place has left", nil, conversionIsLeaving},
	{"M2/the old place has left while disconnected", []Lever{Network}, conversionWhileDisconnected},
	{"M3/a conversion may be repeated after a lost reply", []Lever{Network}, convertLostReply},
	{"M3/a cancelled conversion may be repeated", nil, conversionGivenUp},
	{"M3,M4/a leave or forget at the time of a conversion", nil, leaveRaces},
	{"J6/a converted entry counts for joins", nil, joinBehindConverted},
	{"F1/forget removes the entry of a lost conversion", []Lever{Network}, forgetLostConversion},
}

var writeCases = []testCase{
	{"P1/a write is shown by list and head", []Lever{Converter, HeadWatcher}, writeShows},
	{"P1/a write may be repeated after a lost reply", []Lever{Network}, writeLostReply},
	{"P1/a cancelled write does not overwrite a later one", nil, writeGivenUp},
}

// conversionKeeps converts in the middle of a queue, at its head and at its
// end: services put a new entry at the end, with a new token.
func conversionKeeps(e *env) {
	q := e.trio()
	for _, x := range [][2]string{{"r", "value"},
		{"abcdefghij012345", strings.Repeat("\x00\xffü", 16<<10)}} {
		q.own = e.convert(q.s, q.queue, q.own, x[0], x[1])
		e.showsNow(q.s, q.queue, 1, q.own, x[1])
		for _, s := range []session{q.ahead, q.behind} {
			e.shows(s, q.queue, 1, q.own, x[1])
			e.same(e.queued(s, q.queue), q.ids(), "the order is kept:")
		}
	}
	q.first = e.convert(q.ahead, q.queue, q.first, "r", "")
	q.last = e.convert(q.behind, q.queue, q.last, "r", "")
	next := e.join(q.ahead, q.queue)
	e.rises(next, q.last.Token, "after conversions")
	if view := e.view(q.ahead, q.queue, next.Place); !slices.Equal(view.Ahead, q.places()) {
		e.fail(fmt.Sprintf("the places of Convert: %+v", q.places()), "Ahead: %+v", view.Ahead)
	}
	e.rising(q.s, q.queue, q.first, q.own, q.last, next)
}

// conversionKeys: back in its first mode a contender has a new entry. A replica
// that lags behind the conversion must not make Ahead return ErrGone.
func conversionKeys(e *env) {
	q := e.trio()
	seen := map[string]bool{q.own.Place.Key: true}
	for i := range 20 {
		q.own = e.convert(q.s, q.queue, q.own, []string{"r", "x"}[i%2], "")
		e.same(e.ahead(q.s, q.queue, q.own.Place), q.ids()[:1], "ahead of the converted entry:")
		if seen[q.own.Place.Key] {
			e.fail("a new key for each entry", "key %q is used again by a conversion",
				q.own.Place.Key)
		}
		seen[q.own.Place.Key] = true
	}
}

// viewsOfConversions: a contender that a view shows twice is waited for in
// vain, and one that it lacks is overtaken.
func viewsOfConversions(e *env) {
	q := e.trio()
	fourth, fifth := e.join(q.ahead, q.queue), e.join(q.s, q.queue) // of the converting session
	order := e.queued(q.s, q.queue)
	var over atomic.Bool
	var running []*outcome
	expect := func(want []string, read func() []string) {
		running = append(running, e.start(func() error {
			for !over.Load() {
				e.jitter(e.Settle / 50)
				e.same(read(), want, "a view during conversions shows")
			}
			return nil
		}))
	}
	ahead := func(s session, own driver.Place, n int) {
		expect(order[:n], func() []string { return e.ahead(s, q.queue, own) })
	}
	ahead(q.behind, q.last.Place, 2)
	ahead(q.ahead, fourth.Place, 3)
	ahead(q.s, fifth.Place, 4)
	ahead(q.s, noPlace, 5)
	expect(order[:3], func() []string {
		entries, err := q.ahead.List(e.soon(), q.queue, 3)
		e.ok(err, "List")
		return entryIDs(entries)
	})
	for i := range 24 {
		e.jitter(e.Settle / 50)
		q.own = e.convert(q.s, q.queue, q.own, []string{"r", "x", "p3"}[i%3], "")
	}
	over.Store(true)
	for _, o := range running {
		e.ok(e.ends(o, e.Patience, "a reader"), "a reader")
	}
}

// conversionIsLeaving: a reader that waits for a writer must read the queue
// when the writer is downgraded.
func conversionIsLeaving(e *env) {
	d := e.pair()
	old := d.first.Place
	w := e.watch(d.behind, d.queue, old)
	e.stillWaits(w, "nothing")
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	e.fires(w, "a conversion")
	if view := e.view(d.behind, d.queue, d.second.Place); !slices.Equal(view.Ahead,
		d.places()[:1]) {
		e.fail(fmt.Sprintf("the place that Convert returned: %+v", d.first.Place),
			"after Watch has returned the conversion Ahead shows %+v", view.Ahead)
	}
	e.fires(e.watch(d.behind, d.queue, old), "an earlier conversion")
	e.stillWaits(e.watch(d.behind, d.queue, d.first.Place), "an earlier conversion")
}

// conversionWhileDisconnected: after the reconnect the contender has its old
// mode again, in an entry that must not be mistaken for the old one.
func conversionWhileDisconnected(e *env) {
	d := e.pair()
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	w := e.watch(d.behind, d.queue, d.first.Place)
	cut(d.client.Link)
	d.client.Link.Reset()
	d.first = e.convert(d.ahead, d.queue, d.first, "x", "")
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	if e.has(Compact) {
		e.compact()
	}
	e.settle()
	resetAndHeal(d.client.Link)
	e.fires(w, "conversions while its client was disconnected")
}

// lostConversion returns a pair whose second was converted by a call with a
// lost reply.
func (e *env) lostConversion() *pair {
	d := e.pair()
	e.lostReply(d.client,
		converts.request(d.behind, d.queue, d.second),
		e.showsSecond(d, func(entry driver.Entry) bool { return entry.Mode == "p7" }))
	return d
}

// convertLostReply: the first call has removed the place that the second names.
func convertLostReply(e *env) {
	d := e.lostConversion()
	entry := e.list(d.ahead, d.queue)[1]
	own := d.second
	for range 2 {
		if own = e.convert(d.behind, d.queue, d.second, "p7", "changed"); own.Place != entry.Place {
			e.fail(fmt.Sprintf("the place of the first call, %+v", entry.Place),
				"Convert again returned %+v", own.Place)
		}
	}
	e.keeps(d.ahead, d.queue, ids(d.places())...)
	e.showsNow(d.behind, d.queue, 1, own, "changed")
	own = e.convert(d.behind, d.queue, own, "x", "again")
	e.leave(d.behind, d.queue, own.Place)
	e.keeps(d.ahead, d.queue, d.first.Place.ID)
}

// forgetLostConversion: the client knows only the place before the conversion.
func forgetLostConversion(e *env) {
	d := e.lostConversion()
	e.forget(d.behind, d.queue, d.second.Place.ID)
	e.keeps(d.ahead, d.queue, d.first.Place.ID)
}

// joinBehindConverted: a Join sees contenders of any mode, and finds its own
// converted entry.
func joinBehindConverted(e *env) {
	a, b, queue, c := e.open(), e.open(), e.queue(), contender()
	own := e.convert(a, queue, e.joinAs(a, queue, c), "r", "")
	for _, s := range []session{a, b} {
		e.refuse(s, queue)
		second := e.join(s, queue)
		e.notFirst(second, "a converted entry")
		e.same(e.ahead(s, queue, second.Place), []string{own.Place.ID},
			"ahead is the converted entry:")
		e.leave(s, queue, second.Place)
	}
	e.rejoin(a, queue, c, own)
	e.keeps(b, queue, own.Place.ID)
	e.leave(a, queue, own.Place)
	e.awaitQueue(b, queue)
	e.joinAs(b, queue, alone())
}

// leaveRaces: of a Leave and a Convert of the same place exactly one succeeds.
// Forget wins over Convert: the engine forgets a contender when the caller of a
// conversion gives up.
func leaveRaces(e *env) {
	d := e.pair()
	for i := range 40 {
		own := e.join(d.behind, d.queue)
		o := e.start(func() error {
			e.jitter(e.Settle / 100)
			return converts.call(e.soon(), d.behind, d.queue, own)
		})
		e.jitter(e.Settle / 100)
		want := ids(d.places())
		if i%2 == 0 {
			e.ok(d.behind.Forget(e.soon(), d.queue, own.Place.ID), "Forget")
			if err := e.ends(o, e.Patience, "Convert"); err != nil {
				e.is(err, "Convert during a Forget", driver.ErrGone, driver.ErrUnavailable)
			}
		} else {
			left := leaves.call(e.soon(), d.behind, d.queue, own)
			converted := e.ends(o, e.Patience, "Convert")
			if converted == nil {
				want = append(want, own.Place.ID)
				converted, left = left, nil
			}
			if left != nil || !errors.Is(converted, driver.ErrGone) {
				e.fail("ErrGone for exactly one of the two", "Leave and Convert at once: %v, %v",
					left, converted)
			}
		}
		e.same(e.queued(d.behind, d.queue), want,
			"after a leave or forget at the time of a conversion the queue has")
		e.forget(d.behind, d.queue, own.Place.ID)
	}
}

func conversionGivenUp(e *env) {
	q := e.trio()
	for i := range 20 {
		mode := []string{"r", "x"}[i%2]
		_, _ = q.s.Convert(e.brief(), q.queue, q.own, mode, nil)
		q.own = e.convert(q.s, q.queue, q.own, mode, "")
		sleep(e.ctx, e.Settle/20)
		e.showsNow(q.s, q.queue, 1, q.own, "")
	}
}

// writeShows writes to a converted entry at the head, and to another.
func writeShows(e *env) {
	a, b, queue, c := e.open(), e.open(), e.queue(), contender()
	first := e.convert(a, queue, e.join(a, queue), "r", "")
	own := e.joinAs(b, queue, c)
	for _, value := range []string{"one", "", big(), "\x00\xff ü/%"} {
		e.write(a, queue, first.Place, value)
		e.write(b, queue, own.Place, value)
		e.showsNow(a, queue, 0, first, value)
		e.showsNow(b, queue, 1, own, value)
		e.shows(a, queue, 1, own, value)
		e.isHead(e.head(a, queue), first, value, "after a Write")
	}
	e.rejoin(b, queue, c, own) // does not restore its first value
	e.showsNow(b, queue, 1, own, "\x00\xff ü/%")
	e.same(e.ahead(b, queue, own.Place), []string{first.Place.ID}, "ahead of the written entry:")
}

func writeLostReply(e *env) {
	d := e.pair()
	e.lostReply(d.client,
		writes.request(d.behind, d.queue, d.second),
		e.showsSecond(d, func(entry driver.Entry) bool { return string(entry.Value) == "changed" }))
	for _, value := range []string{"changed", "next"} {
		e.write(d.behind, d.queue, d.second.Place, value)
		e.showsNow(d.behind, d.queue, 1, d.second, value)
	}
}

// writeGivenUp: the calls do not overlap, but their requests may.
func writeGivenUp(e *env) {
	q := e.trio()
	for i := range 20 {
		_ = q.s.Write(e.brief(), q.queue, q.own.Place, []byte("given up"))
		value := fmt.Sprint(i)
		e.write(q.s, q.queue, q.own.Place, value)
		sleep(e.ctx, e.Settle/20)
		e.showsNow(q.s, q.queue, 1, q.own, value)
	}
}

// brief returns a context that ends at about the time of a call's answer.
func (e *env) brief() context.Context { return e.in(random(e.Settle / 50)) }

// interference happens to the second of a pair while a request of it is late.
// It returns the resulting value of the entry, or "" if it is gone.
type interference struct {
	what  string
	needs []Lever
	do    func(e *env, d *pair) (value string)
}

var interferences = []interference{
	{"a forget", nil, func(e *env, d *pair) string {
		e.forget(d.behind, d.queue, d.second.Place.ID)
		return ""
	}},
	{"a leave", nil, func(e *env, d *pair) string {
		leaves.repeat(e, d.behind, d.queue, d.second)
		return ""
	}},
	{"a deletion", []Lever{Remove}, func(e *env, d *pair) string {
		e.delete(d.queue, d.second.Place)
		return ""
	}},
	{"a join of the same id", nil, func(e *env, d *pair) string {
		e.forget(d.behind, d.queue, d.second.Place.ID)
		c := driver.Contender{ID: d.second.Place.ID, Mode: "x", Value: []byte("another time")}
		d.second = e.joinAs(d.behind, d.queue, c)
		return "another time"
	}},
	// To the late request only the key has changed.
	{"conversions", []Lever{Converter}, func(e *env, d *pair) string {
		d.second = e.convert(d.behind, d.queue, d.second, "p7", "changed")
		d.second = e.convert(d.behind, d.queue, d.second, "x", "later")
		return "later"
	}},
}

var laterWrite = interference{"a write", []Lever{Writer}, func(e *env, d *pair) string {
	e.write(d.behind, d.queue, d.second.Place, "later")
	return "later"
}}

// lateCases: a Convert or Write arrives at the service after its connection
// broke and something else happened to the contender. No one would remove an
// entry that it makes.
func lateCases() (all []testCase) {
	add := func(clause string, x entryCall, interferences []interference) {
		for _, t := range interferences {
			all = append(all, testCase{
				name:  clause + "/a late " + x.name + " makes nothing after " + t.what,
				needs: slices.Concat(x.needs, t.needs, []Lever{Network}),
				body:  func(e *env) { x.late(e, t) },
			})
		}
	}
	add("M4", converts, interferences)
	add("P1", writes, append(interferences, laterWrite))
	return all
}

func (x entryCall) late(e *env, t interference) {
	for _, stranded := range []bool{true, false} {
		d := e.pair()
		e.awaitQueue(d.ahead, d.queue, ids(d.places())...)
		request := x.request(d.behind, d.queue, d.second)
		if stranded {
			e.strand(d.client, request)
		} else {
			e.cutOff(d.client, request)
		}
		value := t.do(e, d)
		if stranded {
			d.client.Link.Deliver()
		}
		e.settle()
		if value == "" {
			e.same(e.queued(d.behind, d.queue), []string{d.first.Place.ID}, "the queue has")
			next := e.join(d.behind, d.queue) // the session can still join
			e.awaitQueue(d.ahead, d.queue, d.first.Place.ID, next.Place.ID)
			continue
		}
		e.showsNow(d.behind, d.queue, 1, d.second, value)
		e.shows(d.ahead, d.queue, 1, d.second, value)
		e.same(e.queued(d.ahead, d.queue), ids(d.places()), "the queue has")
	}
}

// cutOff makes a call that times out while the link is held, and breaks the
// connection. The client may send the request again on the next one.
func (e *env) cutOff(c Client, call request) {
	cut(c.Link)
	o := e.start(func() error { return call(e.in(e.Settle)) })
	if e.ends(o, e.Settle+e.Patience, "a call while cut off") == nil {
		e.fail("an error", "a call succeeded while the link was held")
	}
	resetAndHeal(c.Link)
}

// closePreventsJoin: no one would remove an entry that appears after Close.
func closePreventsJoin(e *env) {
	j := e.joiner()
	e.strand(j.client, j.join)
	e.closes(j.s)
	j.client.Link.Deliver()
	e.keeps(j.observer, j.queue, j.other)
}

// closePreventsAll: no request of the session outlives it.
func closePreventsAll(e *env) {
	d := e.pair()
	writer := e.join(d.behind, d.queue)
	known := e.setRecord(d.ahead, d.queue, "before", 0) // the first may take more requests
	requests := []request{func(ctx context.Context) error {
		return errOf(d.behind.SetRecord(ctx, d.queue, []byte("late"), known))
	}}
	if e.has(Converter, Writer) {
		requests = append(requests,
			converts.request(d.behind, d.queue, d.second), writes.request(d.behind, d.queue, writer))
	}
	e.strand(d.client, requests...)
	e.closes(d.behind)
	d.client.Link.Deliver()
	e.keeps(d.ahead, d.queue, d.first.Place.ID)
	e.isRecord(d.ahead, d.queue, "before", known, "after requests that were under way at a close")
}
