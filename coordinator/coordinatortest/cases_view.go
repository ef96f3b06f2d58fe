package coordinatortest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

var viewCases = []testCase{
	{name: "V1/a view is as new as the own join", body: viewAsNewAsJoin},
	{name: "V1/a view is as new as what watch has told", body: viewAsNewAsTold},
	{name: "V1/a view never lacks one ahead while others come and go", body: viewNeverLacks},
	{name: "V2/a place that was left has no view", body: viewOfLeft},
	{name: "V2/a place of an ended session has no view", needs: []Lever{Expire}, body: viewOfEnded},
	{name: "Last/the end of a queue shows nobody behind", body: lastAtEnd},
	{name: "Last/shows that those behind have left", body: lastAgain},
	{name: "V3/last is false in front of others", body: notLast},
	{
		name: "V3/last is never true while there is always somebody behind", needs: []Lever{Converter},
		body: lastNeverEarly,
	},
	{name: "V4/the whole queue is shown to one who does not stand in it", body: wholeQueue},
	{name: "List/shows the first entries in order with their values", body: listEntries},
	{name: "List/a queue that nobody joined is empty", body: listEmpty},
	{name: "S1/a list, a view and the head show what the session has finished", body: listFresh},
}

// viewAsNewAsJoin: the one ahead joined through another client a moment ago, and was acknowledged.
func viewAsNewAsJoin(e *env) {
	a, b := e.open(), e.open()
	for range 20 {
		queue := e.queue()
		first, own := e.join(a, queue), e.join(b, queue)
		e.same(e.ahead(b, queue, own.Place), []string{first.Place.ID}, "ahead is the one that joined before:")
	}
}

// viewAsNewAsTold: a view that still shows the one whose leaving ended the wait would be
// waited for again, in a circle.
func viewAsNewAsTold(e *env) {
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
		e.same(e.ahead(b, queue, own.Place), ids(places), "ahead without those that Watch has told are gone:")
	}
}

// population is what a case knows about a queue that others join and leave.
type population struct {
	mu     sync.Mutex
	tokens map[string]driver.Token
}

// standing returns those who stand ahead of a token for sure: their Join has
// returned and their Leave was not called.
func (p *population) standing(ahead driver.Token) map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]bool{}
	for id, token := range p.tokens {
		if token < ahead {
			all[id] = true
		}
	}
	return all
}

func (p *population) set(id string, token driver.Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token == 0 {
		delete(p.tokens, id)
	} else {
		p.tokens[id] = token
	}
}

// churn joins and leaves at random, a few places at a time.
func (p *population) churn(e *env, s session, queue driver.Queue) error {
	var mine []driver.Joined
	for range 40 {
		e.jitter(e.Settle / 50) // mixes the steps with those of the others
		if len(mine) < 3 || rand.IntN(2) == 0 {
			j, err := s.Join(e.soon(), queue, contender())
			if err != nil {
				return fmt.Errorf("Join: %w", err)
			}
			p.set(j.Place.ID, j.Token)
			mine = append(mine, j)
			continue
		}
		i := rand.IntN(len(mine))
		j := mine[i]
		mine = slices.Delete(mine, i, i+1)
		p.set(j.Place.ID, 0)
		if err := s.Leave(e.soon(), queue, j.Place); err != nil {
			return fmt.Errorf("Leave: %w", err)
		}
	}
	return nil
}

// viewNeverLacks: whoever stood ahead before a view was asked for, and still
// stands when it came, must be in it.
func viewNeverLacks(e *env) {
	queue, watcher := e.queue(), e.open()
	p := &population{tokens: map[string]driver.Token{}}
	var running []*outcome
	for range 3 {
		s := e.open()
		running = append(running, e.start(func() error { return p.churn(e, s, queue) }))
	}
	for range 20 {
		own := e.join(watcher, queue)
		for range 3 {
			sleep(e.ctx, e.Settle/100)
			before := p.standing(own.Token)
			view := e.ahead(watcher, queue, own.Place)
			for id := range p.standing(own.Token) {
				if before[id] && !slices.Contains(view, id) {
					e.fail("all who stand ahead", "the view %s lacks %.6s, who was there all the time", sprint(view), id)
				}
			}
		}
		e.leave(watcher, queue, own.Place)
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "others who come and go"), "others who come and go")
	}
}

// viewOfLeft: an empty view for a place that is not in the queue would read as an admission.
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

// viewOfEnded: the client need not know yet that its session is over.
func viewOfEnded(e *env) {
	d := e.duel()
	e.expire(d.behind)
	e.noView(d.behind, d.queue, d.second.Place)
}

// noView waits until Ahead fails: a view may be older than the end of its asker's own entry.
func (e *env) noView(s session, queue driver.Queue, own driver.Place) {
	var err error
	e.eventually("Ahead fails", func() bool {
		err = e.again(func(ctx context.Context) error {
			_, err := s.Ahead(ctx, queue, own)
			return err
		})
		return err != nil
	})
	e.is(err, "Ahead of a place that is gone", driver.ErrGone, driver.ErrSessionLost)
}

// last checks Last. The view must be bound to show it: by the own join, or by what Watch has told.
func (e *env) last(s session, queue driver.Queue, own driver.Joined, want bool, where string) {
	if view := e.view(s, queue, own.Place); view.Last != want {
		e.fail(fmt.Sprintf("Last is %t", want), "Last is %t %s", view.Last, where)
	}
}

// lastAtEnd: nobody joins after the one who looks, so every view it may see shows nobody behind.
func lastAtEnd(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	e.last(a, queue, e.join(a, queue), true, "alone in the queue")
	e.last(b, queue, e.join(b, queue), true, "at the end of the queue")
	own := e.join(a, queue)
	e.last(a, queue, own, true, "at the end, with another of the same session ahead")
	if e.hasAll([]Lever{Converter, Writer}) {
		own = e.convert(a, queue, own, "r", "")
		e.write(a, queue, own.Place, "value")
		e.last(a, queue, own, true, "at the end, converted and written")
	}
}

// lastAgain: what Watch has told of a leaving behind is in the view.
func lastAgain(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	own := e.join(a, queue)
	for _, converted := range []bool{false, true} {
		behind := e.join(b, queue)
		if converted && e.has(Converter) {
			behind = e.convert(b, queue, behind, "r", "")
		}
		e.catchUp(a, b, queue)
		e.last(a, queue, own, false, "in front of another")
		e.leave(b, queue, behind.Place)
		e.fires(e.watch(a, queue, behind.Place), "the one behind left")
		e.last(a, queue, own, true, "after the one behind has left")
	}
}

// notLast: a converted entry is the newest of the service, wherever it stands.
func notLast(e *env) {
	q := e.trio()
	look := func(when string) {
		e.catchUp(q.ahead, q.behind, q.queue)
		e.last(q.ahead, q.queue, q.first, false, "at the head of three "+when)
		e.catchUp(q.s, q.behind, q.queue)
		e.last(q.s, q.queue, q.own, false, "in the middle of three "+when)
	}
	look("that are as they joined")
	if e.has(Converter) {
		q.last = e.convert(q.behind, q.queue, q.last, "r", "")
		look("whose last was converted")
		q.own = e.convert(q.s, q.queue, q.own, "r", "")
		look("of which the one in the middle was converted last")
		e.catchUp(q.behind, q.ahead, q.queue)
		e.last(q.behind, q.queue, q.last, true, "at the end, behind one that was converted later")
	}
	e.leave(q.behind, q.queue, q.last.Place)
	e.catchUp(q.ahead, q.s, q.queue)
	e.last(q.ahead, q.queue, q.first, false, "at the head of two")
}

// lastNeverEarly: those behind relieve each other.
func lastNeverEarly(e *env) {
	s, a, b, queue := e.open(), e.open(), e.open(), e.queue()
	first := e.join(a, queue)
	own := e.join(s, queue)
	behind := e.join(a, queue)
	e.catchUp(s, b, queue)
	e.relay(queue, a, b, behind, func() {
		view := e.view(s, queue, own.Place)
		e.same(ids(view.Ahead), []string{first.Place.ID}, "ahead while others relieve each other behind:")
		if view.Last {
			e.fail("Last is false", "Last is true although there was always somebody behind")
		}
	})
}

// nowhere is the place of one who does not stand in the queue.
var nowhere driver.Place

// whole checks the view of one who would come next.
func (e *env) whole(s session, queue driver.Queue, when string, want ...driver.Place) {
	if view := e.view(s, queue, nowhere); !slices.Equal(view.Ahead, want) || !view.Last {
		e.fail(fmt.Sprintf("%+v, and nobody behind", want), "%s the whole queue is %+v, Last %t", when, view.Ahead, view.Last)
	}
}

// wholeQueue: to a session that stands in the queue with others, and to one that does not.
func wholeQueue(e *env) {
	a, b, seer, queue := e.open(), e.open(), e.open(), e.queue()
	e.whole(seer, queue, "before anybody has joined")
	var want []driver.Place
	for i, mode := range []string{"x", "r", "abcdefghijklmnop", "x", "x"} {
		c := contender()
		c.Mode, c.Value = mode, []byte("value")
		want = append(want, e.joinAs([]session{a, b}[i%2], queue, c).Place)
	}
	e.whole(a, queue, "for one who stands in it", want...)
	e.stands(seer, queue, ids(want)...) // from now on it has seen as much
	e.whole(seer, queue, "for one who has seen it all", want...)
}

// listEntries: values may hold any bytes, and what one session wrote another must read.
func listEntries(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	var want []driver.Entry
	for i, value := range []string{"host-1", "", big(), "\x00\xff ü/%"} {
		c := contender()
		c.Value = []byte(value)
		j := e.joinAs([]session{a, b}[i%2], queue, c)
		want = append(want, driver.Entry{Place: j.Place, Token: j.Token, Value: c.Value})
	}
	e.stands(a, queue, entryIDs(want)...)
	for limit, n := range []int{4, 1, 2, 3, 4, 4} {
		got, err := a.List(e.soon(), queue, limit)
		e.ok(err, "List")
		if !slices.EqualFunc(got, want[:n], func(x, y driver.Entry) bool {
			return x.Place == y.Place && x.Token == y.Token && bytes.Equal(x.Value, y.Value)
		}) {
			e.fail(sprintEntries(want[:n]), "List with limit %d has %s", limit, sprintEntries(got))
		}
	}
}

// listEmpty: on some services a queue is a thing that must exist before it can be read.
func listEmpty(e *env) {
	s := e.open()
	for _, limit := range []int{0, 3} {
		got, err := s.List(e.soon(), e.queue(), limit)
		e.ok(err, "List of a queue that nobody joined")
		e.same(entryIDs(got), []string{}, "a queue that nobody joined has")
	}
}

// listFresh: replicas may lag, but not behind what their own client has done.
// With no place of its own there is none that says how new a view has to be.
func listFresh(e *env) {
	s, queue := e.open(), e.queue()
	look := func(after, value string, want ...driver.Joined) {
		var places []driver.Place
		for _, j := range want {
			places = append(places, j.Place)
		}
		e.same(e.standing(s, queue), ids(places), "after "+after+" the queue has")
		e.whole(s, queue, "after "+after, places...)
		switch {
		case !e.has(HeadWatcher):
		case len(want) == 0:
			e.isNobody(e.head(s, queue), "after "+after)
		default:
			e.isHead(e.head(s, queue), want[0], value, "after "+after)
		}
	}
	for i := range 10 {
		first, second := e.join(s, queue), e.join(s, queue)
		look("two joins", "", first, second)
		value := fmt.Sprint(i)
		if e.has(Writer) {
			e.write(s, queue, first.Place, value)
			look("a write", value, first, second)
		}
		if e.has(Converter) {
			first = e.convert(s, queue, first, "r", "converted")
			look("a conversion", "converted", first, second)
		}
		e.leave(s, queue, first.Place)
		look("a leave", "", second)
		e.ok(s.Forget(e.soon(), queue, second.Place.ID), "Forget")
		look("a forget", "")
	}
}
