package coordinatortest

import (
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

var operatorCases = []testCase{
	{"K2/a check finds an entry that was converted", []Lever{Converter}, checkConverted},
	{"X1/a removed contender gets ErrGone", nil, removedGetsGone},
	{"X1/a queue works after a removal", []Lever{Handoff}, removeGoesOn},
	{"E1/queues shows queues of all sessions", nil, queuesOfAll},
	{"E1/queues shows queues after a long one", nil, queuesBehindLong},
	{"E2/queues shows no queue that all have left", []Lever{Handoff}, queuesLeft},
	{"E2/queues shows no queue with only a record", nil, queuesRecords},
}

func checkCases() (all []testCase) {
	ways := append(slices.Clone(waysOut), way{what: "a conversion", needs: []Lever{Converter},
		happen: func(e *env, d *pair, _ func()) { e.convert(d.ahead, d.queue, d.first, "r", "") }})
	for _, w := range ways {
		all = append(all, testCase{
			name: "K1/a check fails right after " + w.what, needs: w.needs,
			body: func(e *env) {
				d, third := e.pair(), e.open()
				for _, s := range []session{d.behind, third} {
					checks.must(e, s, d.queue, d.first)
				}
				w.happen(e, d, nil)
				for _, s := range []session{d.behind, third} {
					checks.isGone(e, s, d.queue, d.first, "an entry after "+w.what)
				}
			},
		})
	}
	return all
}

func checkConverted(e *env) {
	d := e.pair()
	for _, mode := range []string{"r", "s"} {
		d.first = e.convert(d.ahead, d.queue, d.first, mode, "")
		for _, s := range []session{d.ahead, d.behind} {
			checks.must(e, s, d.queue, d.first)
		}
	}
	d.first.Token++
	checks.isGone(e, d.behind, d.queue, d.first, "a converted entry and another token")
}

func removedGetsGone(e *env) {
	d, third := e.pairOf(e.has(Handoff)), e.open()
	w := e.watch(d.behind, d.queue, d.second.Place)
	removes.must(e, third, d.queue, d.second)
	e.fires(w, "its own entry was removed")
	e.is(errOf(d.behind.Ahead(e.soon(), d.queue, d.second.Place)),
		"Ahead of a removed entry", driver.ErrGone)
	removes.must(e, third, d.queue, d.first)
	e.noView(d.ahead, d.queue, d.first.Place) // a replica may lag
	for _, x := range []entryCall{writes, passes, leaves} {
		if e.has(x.needs...) {
			x.isGone(e, d.ahead, d.queue, d.first, "a removed entry")
		}
	}
	for _, s := range []session{d.ahead, d.behind} {
		e.ok(s.Renew(e.soon()), "Renew of a session whose entry was removed")
	}
}

// removeGoesOn: joins, handoffs and removals work after the removal of a
// waiter.
func removeGoesOn(e *env) {
	d, third := e.pairOf(true), e.open()
	removes.must(e, third, d.queue, d.second)
	next := e.joinPair(third, d.queue, true)
	e.notFirst(next, "another")
	e.near(next, "behind a removed entry:", d.first.Place, d.second.Place)
	f := e.followed(third, d.queue, next.Place, d.first.Place)
	passes.must(e, d.ahead, d.queue, d.first)
	e.followEnds(f, "its predecessor passed", true)
	removes.must(e, d.ahead, d.queue, next)
	e.awaitQueue(d.behind, d.queue) // to an older view it is taken
	c := alone()
	e.joinAs(d.behind, d.queue, c)
	e.keeps(third, d.queue, c.ID)
}

// hasQueues checks which of some queues Queues returns. It may also return
// those of other cases.
func (e *env) hasQueues(of, want []driver.Queue, after string, sessions ...session) {
	for _, s := range sessions {
		got, err := s.Queues(e.soon())
		e.ok(err, "Queues")
		other := func(queue driver.Queue) bool { return !slices.Contains(of, queue) }
		got = slices.DeleteFunc(got, other)
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			e.fail(fmt.Sprintf("%s Queues has %q, each once", after, want), "it has %q", got)
		}
	}
}

// queuesOfAll: the operator's replica must not lag behind the joins.
func queuesOfAll(e *env) {
	a, b, observer := e.open(), e.open(), e.open()
	all := similarQueues()
	e.hasQueues(all, []driver.Queue{}, "before the first join", observer)
	for i, queue := range all {
		e.join([]session{a, b}[i%2], queue)
		e.join(b, queue)
		e.hasQueues(all, all[:i+1], "after each join", observer)
	}
	e.hasQueues(all, all, "at last", a, b)
}

// queuesBehindLong: a driver that skips the entries of a long queue must
// continue right after it.
func queuesBehindLong(e *env) {
	s, observer, id := e.open(), e.open(), newID()
	var all []driver.Queue
	for i := range 7 {
		all = append(all, driver.Queue(fmt.Sprintf("m/%s%d", id, i)))
		e.join(s, all[i])
	}
	e.concurrently(600, "one of many Joins", func(int) { e.join(s, all[3]) })
	e.hasQueues(all, all, "with a long one", observer, s)
}

func queuesLeft(e *env) {
	a, b, observer := e.open(), e.open(), e.open()
	all := similarQueues()
	for i, queue := range all {
		own, behind := e.joinPair(a, queue, true), e.joinPair(b, queue, true)
		f := e.start(func() error { return errOf(b.Follow(e.ctx, queue, behind.Place, own.Place)) })
		switch i % 3 {
		case 0:
			passes.must(e, a, queue, own)
		case 1:
			leaves.must(e, a, queue, own)
		case 2:
			e.forget(a, queue, own.Place.ID)
		}
		e.fires(f, "its predecessor left")
		e.hasQueues(all[i:i+1], all[i:i+1], "with one contender left", observer, a, b)
		[]entryCall{passes, leaves}[i%2].must(e, b, queue, behind)
		e.hasQueues(all[:i+1], []driver.Queue{}, "after all have left", observer, a, b)
	}
}

func queuesRecords(e *env) {
	s, observer, queue := e.open(), e.open(), e.queue()
	only := []driver.Queue{queue}
	e.setRecord(s, queue, "value", 0)
	e.hasQueues(only, []driver.Queue{}, "with only a record", observer)
	own := e.join(s, queue)
	e.hasQueues(only, only, "with a record and a contender", observer)
	if e.has(Converter) {
		own = e.convert(s, queue, own, "r", "")
		e.hasQueues(only, only, "with a converted entry", observer, s)
	}
	e.leave(s, queue, own.Place)
	e.hasQueues(only, []driver.Queue{}, "with only a record again", observer)
}
