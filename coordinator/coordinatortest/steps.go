package coordinatortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

func contender() driver.Contender {
	return driver.Contender{ID: newID(), Mode: "x"}
}

// alone returns a contender that joins only an empty queue.
func alone() driver.Contender {
	return driver.Contender{ID: newID(), Mode: "x", Alone: true}
}

// knowing returns a contender that joins only at a version of the record.
func knowing(c driver.Contender, version driver.Version) driver.Contender {
	c.Record = version
	return c
}

func (e *env) join(s session, queue driver.Queue) driver.Joined {
	return e.joinAs(s, queue, contender())
}

// joinAs joins as the engine does: it repeats the call after an unknown
// outcome.
func (e *env) joinAs(s session, queue driver.Queue, c driver.Contender) driver.Joined {
	var j driver.Joined
	e.ok(e.again(func(ctx context.Context) (err error) {
		j, err = s.Join(ctx, queue, c)
		c.Again = true
		return err
	}), "Join")
	return j
}

// rejoin joins again with an ID that is in the queue. It must find the entry.
func (e *env) rejoin(s session, queue driver.Queue, c driver.Contender, want driver.Joined) {
	c.Again = true
	if got := e.joinAs(s, queue, c); got.Place != want.Place || got.Token != want.Token {
		e.fail(fmt.Sprintf("the existing entry: %+v, token %d", want.Place, want.Token),
			"Join again returned %+v, token %d", got.Place, got.Token)
	}
}

func (e *env) leave(s session, queue driver.Queue, p driver.Place) {
	e.ok(s.Leave(e.soon(), queue, p), "Leave")
}

func (e *env) forget(s session, queue driver.Queue, id string) {
	e.ok(e.again(func(ctx context.Context) error { return s.Forget(ctx, queue, id) }), "Forget")
}

func (e *env) closes(s session) { e.ok(e.again(s.Close), "Close") }

func (e *env) ahead(s session, queue driver.Queue, own driver.Place) []string {
	return ids(e.view(s, queue, own).Ahead)
}

func (e *env) view(s session, queue driver.Queue, own driver.Place) driver.View {
	view, err := s.Ahead(e.soon(), queue, own)
	e.ok(err, "Ahead")
	return view
}

func (e *env) list(s session, queue driver.Queue) []driver.Entry {
	entries, err := s.List(e.soon(), queue, 0)
	e.ok(err, "List")
	return entries
}

func (e *env) queued(s session, queue driver.Queue) []string {
	return entryIDs(e.list(s, queue))
}

// awaitQueue waits until a queue has exactly these contenders, in order. It
// waits because a session's view may be older than another session's writes.
func (e *env) awaitQueue(s session, queue driver.Queue, want ...string) {
	var got []string
	for end := time.Now().Add(e.Patience); ; time.Sleep(e.Settle / 20) {
		if got = e.queued(s, queue); slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			e.fail("contenders "+sprint(want), "after %v the queue has %s", e.Patience, sprint(got))
		}
	}
}

func (e *env) keeps(s session, queue driver.Queue, want ...string) {
	e.settle()
	e.same(e.queued(s, queue), want, "the queue has")
}

func (e *env) same(got, want []string, what string) {
	if !slices.Equal(got, want) {
		e.fail(what+" "+sprint(want), "%s", sprint(got))
	}
}

func (e *env) notFirst(j driver.Joined, behind string) {
	if j.First {
		e.fail("First is false", "Join behind %s returned First", behind)
	}
}

func (e *env) rises(j driver.Joined, last driver.Token, when string) driver.Token {
	if j.Token <= last {
		e.fail(fmt.Sprintf("a token above %d", last), "Join %s got token %d", when, j.Token)
	}
	return j.Token
}

func (e *env) lost(s session) {
	e.is(e.again(s.Renew), "Renew of an ended session", driver.ErrSessionLost)
}

// waits starts a wait and lets it reach the service. It repeats the call after
// ErrUnavailable, as the engine does.
func (e *env) waits(wait request) *outcome {
	o := e.start(func() error {
		for {
			err := wait(e.ctx)
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				return err
			}
		}
	})
	e.settle()
	return o
}

func (e *env) watch(s session, queue driver.Queue, places ...driver.Place) *outcome {
	return e.waits(func(ctx context.Context) error { return s.Watch(ctx, queue, places...) })
}

func (e *env) stillWaits(w *outcome, after string) {
	e.settle()
	e.waiting(w, "the wait", after)
}

func (e *env) fires(w *outcome, after string) {
	if err := e.ends(w, e.Patience, "a wait after "+after); err != nil {
		e.fail("nil", "a wait after %s: %v", after, err)
	}
}

// each maps the elements of a list. It never returns nil.
func each[T, U any](list []T, f func(T) U) []U {
	all := []U{}
	for _, x := range list {
		all = append(all, f(x))
	}
	return all
}

func ids(places []driver.Place) []string {
	return each(places, func(p driver.Place) string { return p.ID })
}

func entryIDs(entries []driver.Entry) []string {
	return each(entries, func(x driver.Entry) string { return x.ID })
}

func placesOf(joined []driver.Joined) []driver.Place {
	return each(joined, func(j driver.Joined) driver.Place { return j.Place })
}

// sprint shortens IDs for messages.
func sprint(list []string) string { return fmt.Sprintf("%.6s", list[:min(8, len(list))]) }

// convert converts as the engine does, and returns own with the new place.
func (e *env) convert(
	s session, queue driver.Queue, own driver.Joined, mode, value string,
) driver.Joined {
	var p driver.Place
	e.ok(e.again(func(ctx context.Context) (err error) {
		p, err = s.Convert(ctx, queue, own, mode, []byte(value))
		return err
	}), "Convert")
	if p.ID != own.Place.ID || p.Session != own.Place.Session || p.Mode != mode ||
		p.Key == own.Place.Key {
		e.fail(fmt.Sprintf("%+v with mode %s and another key", own.Place, mode),
			"Convert returned %+v", p)
	}
	own.Place, own.First = p, false
	return own
}

func (e *env) write(s session, queue driver.Queue, own driver.Place, value string) {
	e.ok(e.again(func(ctx context.Context) error {
		return s.Write(ctx, queue, own, []byte(value))
	}), "Write")
}

// shows waits until a list of s has this entry at an index.
func (e *env) shows(s session, queue driver.Queue, at int, own driver.Joined, value string) {
	e.eventually(fmt.Sprintf("number %d is %s", at+1, sprintEntry(own, value)), func() bool {
		entries := e.list(s, queue)
		return len(entries) > at && sameEntry(entries[at], own, value)
	})
}

// showsNow checks the same at once, after a change by s itself.
func (e *env) showsNow(s session, queue driver.Queue, at int, own driver.Joined, value string) {
	entries := e.list(s, queue)
	if len(entries) <= at || !sameEntry(entries[at], own, value) {
		e.fail(fmt.Sprintf("number %d is %s", at+1, sprintEntry(own, value)),
			"the session that changed it lists %s", sprintEntries(entries))
	}
}

func sameEntry(x driver.Entry, own driver.Joined, value string) bool {
	return x.Place == own.Place && x.Token == own.Token && bytes.Equal(x.Value, []byte(value))
}

func sprintEntry(own driver.Joined, value string) string {
	return sprintEntries([]driver.Entry{{Place: own.Place, Token: own.Token, Value: []byte(value)}})
}

func sprintEntries(entries []driver.Entry) string {
	return fmt.Sprint(each(entries, func(x driver.Entry) string {
		return fmt.Sprintf("%+v with token %d and value %.20q", x.Place, x.Token, x.Value)
	}))
}

// catchUp makes the views of s current: its Watch returns a later leaving (V1),
// of a place that it has seen.
func (e *env) catchUp(s, other session, queue driver.Queue) {
	passing := e.join(other, queue)
	e.eventually("a list shows a join of another session", func() bool {
		return slices.Contains(e.queued(s, queue), passing.Place.ID)
	})
	e.leave(other, queue, passing.Place)
	e.ok(e.again(func(ctx context.Context) error { return s.Watch(ctx, queue, passing.Place) }),
		"Watch of a place that was left")
}

// pair is one contender behind another, each on its own client.
type pair struct {
	queue         driver.Queue
	ahead, behind session
	first, second driver.Joined
	client        Client         // of behind
	follow        bool           // all contenders of the queue follow
	known         driver.Version // of the head or record, see wait
}

// value is the value of the second, and of changes that it waits for.
func (d *pair) value() string { return d.second.Place.ID }

func (e *env) pair() *pair { return e.pairOf(false) }

func (e *env) pairOf(follow bool) *pair {
	d := &pair{queue: e.queue(), ahead: e.open(), client: e.connect(), follow: follow}
	d.behind = e.openOn(d.client)
	d.first = e.joinPair(d.ahead, d.queue, follow)
	d.second = e.joinPair(d.behind, d.queue, follow)
	return d
}

// joinPair joins a contender whose value is its ID.
func (e *env) joinPair(s session, queue driver.Queue, follow bool) driver.Joined {
	c := contender()
	c.Value, c.Follows = []byte(c.ID), follow
	return e.joinAs(s, queue, c)
}

func (d *pair) places() []driver.Place { return []driver.Place{d.first.Place, d.second.Place} }

// trio is a contender between two others of other sessions.
type trio struct {
	queue            driver.Queue
	ahead, s, behind session
	first, own, last driver.Joined
}

func (e *env) trio() *trio {
	q := &trio{queue: e.queue(), ahead: e.open(), s: e.open(), behind: e.open()}
	q.first, q.own = e.join(q.ahead, q.queue), e.join(q.s, q.queue)
	q.last = e.join(q.behind, q.queue)
	return q
}

func (q *trio) ids() []string { return ids(q.places()) }

func (q *trio) places() []driver.Place {
	return []driver.Place{q.first.Place, q.own.Place, q.last.Place}
}

// lostReply runs a call whose request is applied and whose reply is lost.
// applied reports whether the service has applied it.
func (e *env) lostReply(c Client, call request, applied func() bool) {
	c.Link.HoldReplies()
	o := e.start(func() error { return call(e.soon()) })
	e.eventually("the request is applied while its reply is held", applied)
	e.held(o)
	resetAndHeal(c.Link)
	_ = e.ends(o, e.Patience, "a call whose connection broke")
}

// showsSecond returns whether the first contender's session shows an entry of
// the second that is as wanted. Its view may be older than the second's join.
func (e *env) showsSecond(d *pair, wanted func(driver.Entry) bool) func() bool {
	return func() bool {
		list := e.list(d.ahead, d.queue)
		return len(list) == 2 && wanted(list[1])
	}
}

// seeNonEmpty lets a session see that a queue is not empty. A driver may join a
// queue of unknown state with other, or more, requests.
func (e *env) seeNonEmpty(s session, queue driver.Queue) {
	e.leave(s, queue, e.join(s, queue).Place)
}

// strand runs calls whose requests stay on a connection that the client has
// lost. Before a Join the session must seeNonEmpty the queue: else a driver may
// have to make the queue first.
func (e *env) strand(c Client, calls ...request) {
	c.Link.HoldRequests()
	var running []*outcome
	for _, call := range calls {
		running = append(running, e.start(func() error { return call(e.soon()) }))
	}
	e.settle()
	for _, o := range running {
		e.held(o)
	}
	c.Link.Strand()
	for _, o := range running {
		_ = e.ends(o, e.Patience, "a call whose connection broke")
	}
}

type call struct {
	name  string
	needs []Lever
	do    request
}

// calls returns all calls of a session but Close. own is behind other.
func (e *env) calls(s session, queue driver.Queue, own, other driver.Joined) []call {
	all := []call{
		{"Renew", nil, s.Renew},
		{"Join", nil, func(ctx context.Context) error {
			return errOf(s.Join(ctx, queue, contender()))
		}},
		{"Ahead", nil, func(ctx context.Context) error {
			return errOf(s.Ahead(ctx, queue, own.Place))
		}},
		{"Ahead of the zero Place", nil, func(ctx context.Context) error {
			return errOf(s.Ahead(ctx, queue, noPlace))
		}},
		{"Watch", nil, func(ctx context.Context) error { return s.Watch(ctx, queue, other.Place) }},
		{"List", nil, func(ctx context.Context) error { return errOf(s.List(ctx, queue, 0)) }},
		{"Record", nil, func(ctx context.Context) error {
			return errOf(s.Record(ctx, queue, driver.Any))
		}},
		{"SetRecord", nil, func(ctx context.Context) error {
			return errOf(s.SetRecord(ctx, queue, []byte("value"), 0))
		}},
		{"Forget", nil, func(ctx context.Context) error { return s.Forget(ctx, queue, newID()) }},
		{"Follow", []Lever{Handoff}, func(ctx context.Context) error {
			return errOf(s.Follow(ctx, queue, own.Place, other.Place))
		}},
		{"Head", []Lever{HeadWatcher}, func(ctx context.Context) error {
			return errOf(s.Head(ctx, queue, driver.Any))
		}},
		{"WatchQueue", []Lever{QueueWatcher}, func(ctx context.Context) error {
			return s.WatchQueue(ctx, queue, func([]driver.Place) bool { return true })
		}},
		{"Queues", []Lever{Operator}, func(ctx context.Context) error {
			return errOf(s.Queues(ctx))
		}},
	}
	for _, x := range entryCalls {
		all = append(all, call{x.name, x.needs, x.request(s, queue, own)})
	}
	return slices.DeleteFunc(all, func(x call) bool { return !e.has(x.needs...) })
}
