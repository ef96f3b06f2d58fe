package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var viewCases = []testCase{
	{name: "V1/a view shows those ahead in order", body: viewInOrder},
	{name: "V1/a view is as new as the own join", body: viewAsNewAsJoin},
	{name: "V1/a view is as new as what watch has told", body: viewAsNewAsTold},
	{name: "V1/a view never lacks one ahead while others come and go", body: viewNeverLacks},
	{name: "V2/a place that was left has no view", body: viewOfLeft},
	{name: "V2/a place of an ended session has no view", needs: []Lever{Expire}, body: viewOfEnded},
}

// viewInOrder: nobody leaves, so there is only one right view for each place.
func viewInOrder(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	var places []driver.Place
	for i := range 6 {
		places = append(places, e.join([]session{a, b}[i%2], queue).Place)
	}
	for i, p := range places {
		e.same(e.ahead([]session{a, b}[i%2], queue, p), ids(places[:i]), fmt.Sprintf("ahead of number %d:", i+1))
	}
}

// viewAsNewAsJoin: the one ahead joined through another client a moment ago, and was acknowledged.
func viewAsNewAsJoin(e *env) {
	a, b := e.open(), e.open()
	for range 20 {
		queue := e.queue()
		first := e.join(a, queue)
		own := e.join(b, queue)
		e.same(e.ahead(b, queue, own.Place), []string{first.Place.ID}, "ahead is the one that joined before:")
	}
}

// viewAsNewAsTold: a view that still shows the one whose leaving ended the wait would be
// waited for again, in a circle.
func viewAsNewAsTold(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	var places []driver.Place
	for range 6 {
		places = append(places, e.join(a, queue).Place)
	}
	own := e.join(b, queue)
	for len(places) > 0 {
		i := len(places) / 2
		e.leave(a, queue, places[i])
		e.ok(e.again(func(ctx context.Context) error {
			return b.Watch(ctx, queue, places[i])
		}), "Watch of a place that was left")
		places = slices.Delete(places, i, i+1)
		e.same(e.ahead(b, queue, own.Place), ids(places), "ahead without those that Watch has told are gone:")
	}
}

// crowd is what a test knows about a queue that others come to and leave.
type crowd struct {
	mu     sync.Mutex
	tokens map[string]driver.Token
}

// standing returns those who stand ahead of a token for sure: their Join has returned and
// their Leave was not called.
func (c *crowd) standing(ahead driver.Token) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for id, token := range c.tokens {
		if token < ahead {
			all[id] = true
		}
	}
	return all
}

func (c *crowd) set(id string, token driver.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token == 0 {
		delete(c.tokens, id)
	} else {
		c.tokens[id] = token
	}
}

// churn joins and leaves at random, a few places at a time.
func (c *crowd) churn(e *env, s session, queue driver.Queue, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	var mine []driver.Joined
	for range 40 {
		// A pause of random length mixes the steps with those of the others.
		sleep(e.ctx, time.Duration(random.Int64N(int64(e.Settle/50))))
		if len(mine) < 3 || random.IntN(2) == 0 {
			j, err := s.Join(e.soon(), queue, contender())
			if err != nil {
				return fmt.Errorf("Join: %w", err)
			}
			c.set(j.Place.ID, j.Token)
			mine = append(mine, j)
			continue
		}
		i := random.IntN(len(mine))
		j := mine[i]
		mine = slices.Delete(mine, i, i+1)
		c.set(j.Place.ID, 0)
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
	c := &crowd{tokens: map[string]driver.Token{}}
	var running []*outcome
	for i := range 3 {
		s := e.open()
		running = append(running, e.start(func() error { return c.churn(e, s, queue, uint64(i)) }))
	}
	for range 20 {
		own := e.join(watcher, queue)
		for range 3 {
			sleep(e.ctx, e.Settle/100)
			before := c.standing(own.Token)
			view := e.ahead(watcher, queue, own.Place)
			for id := range c.standing(own.Token) {
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
	s := e.open()
	queue := e.queue()
	own := e.join(s, queue)
	e.join(s, queue)
	e.leave(s, queue, own.Place)
	e.noView(s, queue, own.Place)
	if e.has(Remove) {
		own = e.join(s, queue)
		e.ok(e.svc.Remove(e.soon(), queue, own.Place), "Remove of the harness")
		e.noView(s, queue, own.Place)
	}
}

// viewOfEnded: the client need not know yet that its session is over.
func viewOfEnded(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	e.join(other, queue)
	own := e.join(s, queue)
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	e.noView(s, queue, own.Place)
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

var lastCases = []testCase{
	{name: "Last/the end of a queue shows nobody behind", body: lastAtEnd},
	{name: "Last/shows that those behind have left", body: lastAgain},
	{name: "V3/last is false in front of others", body: notLast},
	{name: "V3/last is false in front of a converted entry", body: notLastConverted},
	{name: "V3/last is never true while there is always somebody behind", body: lastNeverEarly},
}

// last checks Last. The view must be bound to show it: by the own join, or by what Watch has told.
func (e *env) last(s session, queue driver.Queue, own driver.Joined, want bool, where string) {
	if view := e.view(s, queue, own.Place); view.Last != want {
		e.fail(fmt.Sprintf("Last is %t", want), "Last is %t %s", view.Last, where)
	}
}

// lastAtEnd: nobody joins after the one who looks, so every view it may see shows nobody behind.
func lastAtEnd(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	own := e.join(a, queue)
	e.last(a, queue, own, true, "alone in the queue")
	own = e.join(b, queue)
	e.last(b, queue, own, true, "at the end of the queue")
	own = e.join(a, queue)
	e.last(a, queue, own, true, "at the end, with another of the same session ahead")
	own = e.convert(a, queue, own, "r", "")
	e.last(a, queue, own, true, "at the end, converted")
	e.write(a, queue, own.Place, "value")
	e.setRecord(b, queue, "record", 0)
	e.last(a, queue, own, true, "at the end of a queue with a record")
}

// lastAgain: what Watch has told of a leaving behind is in the view.
func lastAgain(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	own := e.join(a, queue)
	for _, mode := range []string{"x", "r"} {
		behind := e.join(b, queue)
		if mode != "x" {
			behind = e.convert(b, queue, behind, mode, "")
		}
		e.catchUp(a, b, queue)
		e.last(a, queue, own, false, "in front of another")
		e.leave(b, queue, behind.Place)
		e.fires(e.watch(a, queue, behind.Place), "the one behind left")
		e.last(a, queue, own, true, "after the one behind has left")
	}
}

func notLast(e *env) {
	q := e.trio()
	e.catchUp(q.ahead, q.behind, q.queue)
	e.last(q.ahead, q.queue, q.first, false, "at the head of three")
	e.catchUp(q.s, q.behind, q.queue)
	e.last(q.s, q.queue, q.own, false, "in the middle of three")
	e.leave(q.behind, q.queue, q.last.Place)
	e.catchUp(q.ahead, q.s, q.queue)
	e.last(q.ahead, q.queue, q.first, false, "at the head of two")
}

// notLastConverted: a converted entry is the newest of the service, wherever it stands.
func notLastConverted(e *env) {
	q := e.trio()
	q.last = e.convert(q.behind, q.queue, q.last, "r", "")
	e.catchUp(q.s, q.ahead, q.queue)
	e.last(q.s, q.queue, q.own, false, "in front of a converted one")
	q.own = e.convert(q.s, q.queue, q.own, "r", "")
	e.catchUp(q.s, q.ahead, q.queue)
	e.last(q.s, q.queue, q.own, false, "when it was converted after the one behind")
	e.last(q.behind, q.queue, q.last, true, "at the end, behind one that was converted later")
}

// lastNeverEarly: those behind relieve each other, and each comes, or is
// converted, before the one before it goes.
func lastNeverEarly(e *env) {
	s, queue := e.open(), e.queue()
	others := []session{e.open(), e.open()}
	first := e.join(others[0], queue)
	own := e.join(s, queue)
	behind := e.join(others[0], queue)
	e.catchUp(s, others[1], queue)
	pause := func() { sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) }
	relay := e.start(func() error {
		for i := range 30 {
			next, err := others[(i+1)%2].Join(e.soon(), queue, contender())
			if err != nil {
				return fmt.Errorf("Join: %w", err)
			}
			pause()
			if err := others[i%2].Leave(e.soon(), queue, behind.Place); err != nil {
				return fmt.Errorf("Leave: %w", err)
			}
			pause()
			if next.Place, err = others[(i+1)%2].Convert(e.soon(), queue, next, "r", nil); err != nil {
				return fmt.Errorf("Convert: %w", err)
			}
			behind = next
		}
		return nil
	})
	for running := true; running; pause() {
		select {
		case <-relay.done:
			running = false
		default:
		}
		view := e.view(s, queue, own.Place)
		e.same(ids(view.Ahead), []string{first.Place.ID}, "ahead while others relieve each other behind:")
		if view.Last {
			e.fail("Last is false", "Last is true although there was always somebody behind")
		}
	}
	e.ok(relay.err, "others who relieve each other")
}

// contest is a plain mutex over one queue, as the recipes do it.
type contest struct {
	e      *env
	queue  driver.Queue
	modes  []string // to which each is converted while it waits
	inside atomic.Int32
	last   atomic.Int64
}

// take joins, waits for its turn and leaves.
func (c *contest) take(s session) error {
	own, err := s.Join(c.e.soon(), c.queue, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range c.modes {
		if own.Place, err = s.Convert(c.e.soon(), c.queue, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
	}
	for {
		view, err := s.Ahead(c.e.soon(), c.queue, own.Place)
		if err != nil {
			return fmt.Errorf("Ahead: %w", err)
		}
		if len(view.Ahead) == 0 {
			break
		}
		err = c.e.again(func(ctx context.Context) error {
			return s.Watch(ctx, c.queue, view.Ahead[len(view.Ahead)-1])
		})
		if err != nil {
			return fmt.Errorf("Watch: %w", err)
		}
	}
	if n := c.inside.Add(1); n != 1 {
		return fmt.Errorf("%d contenders saw nobody ahead at once", n)
	}
	if before := c.last.Swap(int64(own.Token)); before >= int64(own.Token) {
		return fmt.Errorf("token %d was admitted after %d", own.Token, before)
	}
	runtime.Gosched()
	c.inside.Add(-1)
	if err := s.Leave(c.e.soon(), c.queue, own.Place); err != nil {
		return fmt.Errorf("Leave: %w", err)
	}
	return nil
}

// manyGoroutines runs a mutex as recipes do: whatever is not safe for many callers, or
// wrong about who is ahead, lets two in at once or leaves one waiting.
func manyGoroutines(e *env, modes ...string) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	c := &contest{e: e, queue: e.queue(), modes: modes}
	var running []*outcome
	for i := range 24 {
		s := sessions[i%len(sessions)]
		running = append(running, e.start(func() error {
			for range 2 {
				if err := c.take(s); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, o := range running {
		// Each waits for all others: many turns, so more than one patience.
		e.ok(e.ends(o, 3*e.Patience, "a goroutine that joins, waits and leaves"), "a goroutine that joins, waits and leaves")
	}
	e.stands(sessions[0], c.queue)
}

// count adds one to the number in a queue's record.
func count(ctx context.Context, s session, queue driver.Queue) error {
	for {
		r, err := s.Record(ctx, queue, driver.Any)
		if err != nil {
			return fmt.Errorf("Record: %w", err)
		}
		n, _ := strconv.Atoi(string(r.Value)) // none is zero
		_, err = s.SetRecord(ctx, queue, []byte(strconv.Itoa(n+1)), r.Version)
		if !errors.Is(err, driver.ErrStale) {
			return err
		}
	}
}

// busy is a contender that changes all it can while it stands in the queue.
func (e *env) busy(s session, queue driver.Queue) error {
	own, err := s.Join(e.soon(), queue, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range []string{"r", "x", "r"} {
		if err := s.Write(e.soon(), queue, own.Place, []byte("in "+own.Place.Mode)); err != nil {
			return fmt.Errorf("Write: %w", err)
		}
		if own.Place, err = s.Convert(e.soon(), queue, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
		head, err := s.Head(e.soon(), queue, driver.Any)
		if err != nil || head.ID == "" {
			return fmt.Errorf("Head while standing in the queue: %+v, %w", head, err)
		}
		if err := count(e.soon(), s, queue); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	return s.Leave(e.soon(), queue, own.Place)
}

// manyWriters: a conversion or write that goes to another's entry ends that
// one's, and two writes over one version lose a count.
func manyWriters(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	queue := e.queue()
	var running []*outcome
	for i := range 9 {
		running = append(running, e.start(func() error { return e.busy(sessions[i%len(sessions)], queue) }))
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "a goroutine that changes its entry"), "a goroutine that changes its entry")
	}
	e.stands(sessions[0], queue)
	e.eventually("a count of 27", func() bool { return string(e.record(sessions[0], queue).Value) == "27" })
}

// staleCases check J7, and what it must leave alone.
var staleCases = []testCase{
	{name: "J7/a join with the record's version joins", body: versionJoins},
	{name: "J7/a join with another version is refused and leaves no entry", body: versionRefused},
	{name: "J7/a refused join wakes nobody", body: staleWakesNobody},
	{name: "J7/a refused join leaves no watch", needs: []Lever{Watches}, body: staleNoWatch},
	{name: "J7/a join under way meets the record as it is when it arrives", needs: []Lever{Hold, Strand}, body: joinMeetsNewer},
	{name: "J2/joining again finds the entry though the record has changed", body: joinAgainStale},
}

// versionJoins: in a queue where nobody is and in one where somebody is, alone
// and not, and without a version.
func versionJoins(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	version := e.setRecord(a, queue, "one", 0)
	for i, value := range []string{"two", "three"} {
		c := contender()
		c.Record, c.Alone = version, true
		first := e.joinAs(b, queue, c)
		c = contender()
		c.Record = version
		second := e.joinAs(a, queue, c)
		if r := e.record(b, queue); r.Version != version { // who was let in by a version has seen it
			e.fail(fmt.Sprintf("the record of version %d", version), "a session that has joined with that version reads version %d", r.Version)
		}
		third := e.join(b, queue) // who knows no version joins in any
		e.same(e.ahead(b, queue, third.Place), []string{first.Place.ID, second.Place.ID}, fmt.Sprintf("ahead in round %d:", i+1))
		version = e.setRecord(a, queue, value, version)
		e.leave(b, queue, first.Place)
		e.leave(a, queue, second.Place)
		e.leave(b, queue, third.Place)
		e.stands(b, queue)
		e.stands(a, queue)
	}
}

// refuseStale tries to join with a version that the record does not have.
func (e *env) refuseStale(s session, queue driver.Queue, version driver.Version, alone bool) {
	c := contender()
	c.Record, c.Alone = version, alone
	_, err := s.Join(e.soon(), queue, c)
	e.is(err, fmt.Sprintf("Join (Alone: %t) with a version that is not the record's", alone), driver.ErrStale)
}

// versionRefused: an entry that was let in under an old limit would hold what
// is not there any more.
func versionRefused(e *env) {
	a, b := e.open(), e.open()
	queue, other := e.queue(), e.queue()
	elsewhere := e.setRecord(a, other, "other", 0)
	e.refuseStale(a, queue, elsewhere, false) // no record, and a queue that nobody has joined
	e.refuseStale(a, queue, elsewhere, true)
	older := e.setRecord(a, queue, "one", 0)
	version := e.setRecord(a, queue, "two", older)
	e.refuseStale(b, queue, older, false)
	e.refuseStale(b, queue, older, true)
	e.keeps(b, queue)
	c := contender()
	c.Record, c.Alone = version, true
	own := e.joinAs(a, queue, c)
	e.refuseStale(a, queue, older, false)
	e.refuseStale(b, queue, older, false)
	e.keeps(b, queue, own.Place.ID)
	again := contender() // an earlier Join that was never applied
	again.Record, again.Again = older, true
	_, err := b.Join(e.soon(), queue, again)
	e.is(err, "Join again of one who does not stand in the queue", driver.ErrStale)
	e.leave(a, queue, own.Place)
	e.keeps(b, queue)
}

// staleWakesNobody: to join, look and leave would do for the outcome.
func staleWakesNobody(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	older := e.setRecord(a, queue, "one", 0)
	version := e.setRecord(a, queue, "two", older)
	first := e.join(a, queue)
	e.join(b, queue)
	w := e.watch(b, queue, first.Place)
	h := e.start(func() error { _, err := b.Record(e.ctx, queue, version); return err })
	for range 5 {
		e.refuseStale(a, queue, older, false)
		e.refuseStale(e.open(), queue, older, false)
	}
	e.quiet(w, "refused Joins")
	e.waiting(h, "Record", "refused Joins")
	e.leave(a, queue, first.Place)
	e.fires(w, "the leaving")
}

// staleNoWatch: a watch that nobody waits for would wake this client later.
func staleNoWatch(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	older := e.setRecord(a, queue, "one", 0)
	e.setRecord(a, queue, "two", older)
	e.join(a, queue)
	before := e.watches()
	for range 5 {
		e.refuseStale(b, queue, older, false)
	}
	e.settle()
	if now := e.watches(); now > before {
		e.fail(fmt.Sprintf("%d watches as before", before), "%d watches after refused Joins", now)
	}
}

// joinMeetsNewer: the record had the version when the request was sent, and has
// another when it arrives.
func joinMeetsNewer(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue, x := e.queue(), contender()
	stays := e.join(seer, queue)
	x.Record = e.setRecord(seer, queue, "one", 0)
	e.acquaint(s, queue)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, queue, x); return err })
	e.setRecord(seer, queue, "two", x.Record)
	c.Link.Deliver()
	e.keeps(seer, queue, stays.Place.ID)
	x.Again = true
	err := e.again(func(ctx context.Context) error { _, err := s.Join(ctx, queue, x); return err })
	e.is(err, "Join with a version that is not the record's any more", driver.ErrStale)
	e.keeps(seer, queue, stays.Place.ID)
}

// joinAgainStale: the contender was let in when its version was the record's.
// That its reply was lost does not change it.
func joinAgainStale(e *env) {
	s, other := e.open(), e.open()
	queue, c := e.queue(), contender()
	stays := e.join(other, queue)
	c.Record = e.setRecord(other, queue, "one", 0)
	own := e.joinAs(s, queue, c)
	e.setRecord(other, queue, "two", c.Record)
	c.Again = true
	e.same2(e.joinAs(s, queue, c), own)
	e.keeps(s, queue, stays.Place.ID, c.ID)
}

var wholeCases = []testCase{
	{name: "V4/the whole queue is shown to one who does not stand in it", body: wholeQueue},
	{name: "V4/the whole queue is as the session has left it", body: wholeFresh},
}

// nowhere is the place of one who does not stand in the queue.
var nowhere driver.Place

// whole checks the view of one who would come next.
func (e *env) whole(s session, queue driver.Queue, when string, want ...driver.Place) {
	if view := e.view(s, queue, nowhere); !slices.Equal(view.Ahead, want) || !view.Last {
		e.fail(fmt.Sprintf("%+v, and nobody behind", want), "%s the whole queue is %+v, Last %t", when, view.Ahead, view.Last)
	}
}

// wholeLine: to a session that stands in the queue with others, and to one that does not.
func wholeQueue(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	queue := e.queue()
	e.whole(seer, queue, "before anybody has joined")
	var want []driver.Place
	for i, mode := range []string{"x", "r", "abcdefghijklmnop", "x"} {
		c := contender()
		c.Mode, c.Value = mode, []byte("value")
		want = append(want, e.joinAs([]session{a, b}[i%2], queue, c).Place)
	}
	own := e.join(a, queue)
	e.setRecord(b, queue, "record", 0)
	want = append(want, own.Place)
	e.whole(a, queue, "for one who stands in it", want...)
	own = e.convert(a, queue, own, "r", "")
	want[4] = own.Place
	e.whole(a, queue, "with one that was converted", want...)
	e.stands(seer, queue, ids(want)...) // from now on it has seen as much
	e.eventually("the whole queue for one who does not stand in it", func() bool {
		view := e.view(seer, queue, nowhere)
		return slices.Equal(view.Ahead, want) && view.Last
	})
}

// wholeFresh: replicas may lag, but not behind what their own client has done.
// There is no place that says how new it has to be.
func wholeFresh(e *env) {
	s := e.open()
	queue := e.queue()
	for range 10 {
		first, second := e.join(s, queue), e.join(s, queue)
		e.whole(s, queue, "after two joins", first.Place, second.Place)
		first = e.convert(s, queue, first, "r", "")
		e.whole(s, queue, "after a conversion", first.Place, second.Place)
		e.leave(s, queue, first.Place)
		e.whole(s, queue, "after a leave", second.Place)
		e.ok(s.Forget(e.soon(), queue, second.Place.ID), "Forget")
		e.whole(s, queue, "after a forget")
	}
}
