package coordinatortest

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

var headCases = []testCase{
	{"Version,Head/each state has its own", []Lever{HeadWatcher, Writer, Converter}, headVersions},
	{"H1/head follows a queue with many heads", []Lever{HeadWatcher, Converter}, headRelay},
}

func (e *env) head(s session, queue driver.Queue) driver.Head {
	head, err := s.Head(e.soon(), queue, driver.Any)
	e.ok(err, "Head of any version")
	return head
}

func (e *env) isHead(head driver.Head, own driver.Joined, value, when string) {
	if !sameEntry(head.Entry, own, value) || head.Version == 0 || head.Version == driver.Any {
		e.fail("Head is "+sprintEntry(own, value)+", and has a version",
			"%s Head is %+v", when, head)
	}
}

func (e *env) isNoHead(head driver.Head, when string) {
	none := head.Place == (driver.Place{}) && head.Token == 0 && head.Version == 0
	if !none || len(head.Value) != 0 {
		e.fail("a zero Head", "%s Head is %+v", when, head)
	}
}

// headVersions: a caller that knows one of two states with the same version
// would wait for ever for the other, even if it saw that state long ago.
func headVersions(e *env) {
	s, queue := e.open(), e.queue()
	seen := map[driver.Version]string{0: "empty", driver.Any: "any"}
	note := func(what string) {
		head := e.head(s, queue)
		if before, again := seen[head.Version]; again {
			e.fail("a new version", "the state %q has version %d, as the state %q", what,
				head.Version, before)
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
		for _, mode := range []string{"r", "x"} {
			own = e.convert(s, queue, own, mode, "a")
			note(fmt.Sprintf("converted to %s %d", mode, i))
		}
		e.leave(s, queue, own.Place)
	}
	own := e.join(s, queue)
	for known, what := range seen {
		head, err := s.Head(e.soon(), queue, known)
		e.ok(err, "Head that knows an earlier state")
		e.isHead(head, own, "", "for a caller that knows "+what)
	}
	e.leave(s, queue, own.Place)
	delete(seen, 0)
	for known, what := range seen {
		head, err := s.Head(e.soon(), queue, known)
		e.ok(err, "Head that knows an earlier state")
		e.isNoHead(head, "for a caller that knows "+what)
	}
}

// relay replaces own again and again: the next contender joins before the last
// one is converted and leaves. Meanwhile it repeats check. It returns the last
// contender, and its session.
func (e *env) relay(
	queue driver.Queue, a, b session, own driver.Joined, check func(),
) (session, driver.Joined) {
	o := e.start(func() error {
		for range 30 {
			next := e.join(b, queue)
			e.jitter(e.Settle / 100)
			e.leave(a, queue, e.convert(a, queue, own, "r", "").Place)
			e.jitter(e.Settle / 100)
			a, b, own = b, a, next
		}
		return nil
	})
	for !o.ended() {
		check()
		e.jitter(e.Settle / 100)
	}
	e.ok(o.err, "contenders that replace each other")
	return a, own
}

// headRelay: the first entry often leaves between a driver's read of the queue
// and its read of the value. The queue is never empty, and the tokens of its
// heads rise.
func headRelay(e *env) {
	a, b, observer, queue := e.open(), e.open(), e.open(), e.queue()
	own := e.join(a, queue)
	e.awaitQueue(observer, queue, own.Place.ID)
	var readers []*outcome
	for _, s := range []session{observer, observer, b} {
		readers = append(readers,
			e.start(func() error { return headWaits.reach(e.ctx, s, queue, driver.Any, "last") }))
	}
	var latest driver.Token
	s, own := e.relay(queue, a, b, own, func() {
		head := e.head(observer, queue)
		if head.Token < latest || head.Token == 0 {
			e.fail(fmt.Sprintf("a head with a token of %d at least", latest),
				"Head is %+v with token %d", head.Place, head.Token)
		}
		latest = head.Token
	})
	e.leave(s, queue, own.Place) // the queue may be empty
	c := contender()
	c.Value = []byte("last")
	final := e.joinAs(a, queue, c)
	for _, o := range readers {
		e.fires(o, "contenders that replaced each other")
	}
	e.isHead(e.head(observer, queue), final, "last", "after contenders that replaced each other")
}

// stateCases are the cases of Head and Record about several states.
func stateCases() (all []testCase) {
	for _, x := range []wait{headWaits, recordWaits} {
		needs := x.needs
		if x.change == nil {
			needs = []Lever{HeadWatcher, Writer}
		}
		add := func(clause, claim string, body func(*env), needs []Lever) {
			all = append(all, testCase{clause + "/" + x.name + ": " + claim, needs, body})
		}
		add(x.ends, "it shows the last of many changes, in order", x.many, needs)
		add(x.others+","+x.over, "a wait for the first state leaves at most one watch", x.forFirst, x.needs)
	}
	return all
}

// many: several readers, on one client and on others, over reconnects, are
// slower than the changes. Replicas of different age must not show a reader an
// older state after a newer one.
func (x wait) many(e *env) {
	d := x.pair(e)
	const last = 30
	var readers []*outcome
	for _, s := range []session{d.behind, e.openOn(d.client), d.ahead, e.open()} {
		readers = append(readers, e.start(func() error {
			return e.again(func(ctx context.Context) error {
				return x.reach(ctx, s, d.queue, driver.Any, fmt.Sprintf("%04d", last))
			})
		}))
	}
	observer, latest := e.open(), ""
	for i := range last + 1 {
		value := fmt.Sprintf("%04d", i)
		if x.change == nil {
			e.write(d.ahead, d.queue, d.first.Place, value)
		} else {
			e.overwrite(d.ahead, d.queue, value)
		}
		if e.has(Network) && i%10 == 5 {
			d.client.Link.Reset()
		}
		now, err := x.read(e.soon(), observer, d.queue, driver.Any)
		e.ok(err, x.name)
		if shown := string(now.Value); len(shown) == 4 {
			if shown < latest {
				e.fail("at least as new as before", "%s shows %q after %q", x.name, shown, latest)
			}
			latest = shown
		}
		e.jitter(e.Settle / 50)
	}
	for _, o := range readers {
		e.fires(o, "the last of many changes")
	}
}

// forFirst waits for a head or record that does not exist yet. The watch ends
// when it appears.
func (x wait) forFirst(e *env) {
	d := x.pair(e)
	d.queue, d.known = e.queue(), 0
	now, err := x.read(e.soon(), d.behind, d.queue, driver.Any)
	e.ok(err, x.name+" of any version")
	if now.Version != 0 {
		e.fail("version 0", "%s of a new queue has version %d", x.name, now.Version)
	}
	before := x.cancelWaits(e, d)
	f := x.begin(e, d.behind, d)
	e.seeNonEmpty(d.ahead, d.queue) // may make and delete the queue
	e.seeNonEmpty(d.ahead, e.queue())
	e.stillWaits(f.outcome, "a contender that has left, and one elsewhere")
	c := contender()
	c.ID, c.Value = d.value(), []byte(d.value())
	own := e.joinAs(d.ahead, d.queue, c)
	if x.change != nil {
		x.change(e, d)
	}
	e.fires(f.outcome, "the first state")
	e.leave(d.ahead, d.queue, own.Place)
	x.changeLast(e, d)
	e.fewWatches(before, "after the queue is empty again")
}
