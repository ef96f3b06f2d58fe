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
	line := e.line()
	var places []driver.Place
	for i := range 6 {
		places = append(places, e.join([]session{a, b}[i%2], line).Place)
	}
	for i, p := range places {
		e.same(e.ahead([]session{a, b}[i%2], line, p), ids(places[:i]), fmt.Sprintf("ahead of number %d:", i+1))
	}
}

// viewAsNewAsJoin: the one ahead joined through another client a moment ago, and was acknowledged.
func viewAsNewAsJoin(e *env) {
	a, b := e.open(), e.open()
	for range 20 {
		line := e.line()
		first := e.join(a, line)
		own := e.join(b, line)
		e.same(e.ahead(b, line, own.Place), []string{first.Place.ID}, "ahead is the one that joined before:")
	}
}

// viewAsNewAsTold: a view that still shows the one whose leaving ended the wait would be
// waited for again, in a circle.
func viewAsNewAsTold(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	var places []driver.Place
	for range 6 {
		places = append(places, e.join(a, line).Place)
	}
	own := e.join(b, line)
	for len(places) > 0 {
		i := len(places) / 2
		e.leave(a, line, places[i])
		e.ok(e.again(func(ctx context.Context) error {
			return b.Watch(ctx, line, places[i])
		}), "Watch of a place that was left")
		places = slices.Delete(places, i, i+1)
		e.same(e.ahead(b, line, own.Place), ids(places), "ahead without those that Watch has told are gone:")
	}
}

// crowd is what a test knows about a line that others come to and leave.
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
func (c *crowd) churn(e *env, s session, line driver.Line, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	var mine []driver.Joined
	for range 40 {
		// A pause of random length mixes the steps with those of the others.
		sleep(e.ctx, time.Duration(random.Int64N(int64(e.Settle/50))))
		if len(mine) < 3 || random.IntN(2) == 0 {
			j, err := s.Join(e.soon(), line, contender())
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
		if err := s.Leave(e.soon(), line, j.Place); err != nil {
			return fmt.Errorf("Leave: %w", err)
		}
	}
	return nil
}

// viewNeverLacks: whoever stood ahead before a view was asked for, and still
// stands when it came, must be in it.
func viewNeverLacks(e *env) {
	line, watcher := e.line(), e.open()
	c := &crowd{tokens: map[string]driver.Token{}}
	var running []*outcome
	for i := range 3 {
		s := e.open()
		running = append(running, e.start(func() error { return c.churn(e, s, line, uint64(i)) }))
	}
	for range 20 {
		own := e.join(watcher, line)
		for range 3 {
			sleep(e.ctx, e.Settle/100)
			before := c.standing(own.Token)
			view := e.ahead(watcher, line, own.Place)
			for id := range c.standing(own.Token) {
				if before[id] && !slices.Contains(view, id) {
					e.fail("all who stand ahead", "the view %s lacks %.6s, who was there all the time", sprint(view), id)
				}
			}
		}
		e.leave(watcher, line, own.Place)
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "others who come and go"), "others who come and go")
	}
}

// viewOfLeft: an empty view for a place that is not in line would read as an admission.
func viewOfLeft(e *env) {
	s := e.open()
	line := e.line()
	own := e.join(s, line)
	e.join(s, line)
	e.leave(s, line, own.Place)
	e.noView(s, line, own.Place)
	if e.has(Remove) {
		own = e.join(s, line)
		e.ok(e.svc.Remove(e.soon(), line, own.Place), "Remove of the harness")
		e.noView(s, line, own.Place)
	}
}

// viewOfEnded: the client need not know yet that its session is over.
func viewOfEnded(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	e.join(other, line)
	own := e.join(s, line)
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	e.noView(s, line, own.Place)
}

// noView waits until Ahead fails: a view may be older than the end of its asker's own entry.
func (e *env) noView(s session, line driver.Line, own driver.Place) {
	var err error
	e.eventually("Ahead fails", func() bool {
		err = e.again(func(ctx context.Context) error {
			_, err := s.Ahead(ctx, line, own)
			return err
		})
		return err != nil
	})
	e.is(err, "Ahead of a place that is gone", driver.ErrGone, driver.ErrSessionLost)
}

var lastCases = []testCase{
	{name: "Last/the end of a line shows nobody behind", body: lastAtEnd},
	{name: "Last/shows that those behind have left", body: lastAgain},
	{name: "V3/last is false in front of others", body: notLast},
	{name: "V3/last is false in front of a converted entry", body: notLastConverted},
	{name: "V3/last is never true while there is always somebody behind", body: lastNeverEarly},
}

// last checks Last. The view must be bound to show it: by the own join, or by what Watch has told.
func (e *env) last(s session, line driver.Line, own driver.Joined, want bool, where string) {
	if view := e.view(s, line, own.Place); view.Last != want {
		e.fail(fmt.Sprintf("Last is %t", want), "Last is %t %s", view.Last, where)
	}
}

// lastAtEnd: nobody joins after the one who looks, so every view it may see shows nobody behind.
func lastAtEnd(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	own := e.join(a, line)
	e.last(a, line, own, true, "alone in the line")
	own = e.join(b, line)
	e.last(b, line, own, true, "at the end of the line")
	own = e.join(a, line)
	e.last(a, line, own, true, "at the end, with another of the same session ahead")
	own = e.convert(a, line, own, "r", "")
	e.last(a, line, own, true, "at the end, converted")
	e.write(a, line, own.Place, "value")
	e.setRecord(b, line, "record", 0)
	e.last(a, line, own, true, "at the end of a line with a record")
}

// lastAgain: what Watch has told of a leaving behind is in the view.
func lastAgain(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	own := e.join(a, line)
	for _, mode := range []string{"x", "r"} {
		behind := e.join(b, line)
		if mode != "x" {
			behind = e.convert(b, line, behind, mode, "")
		}
		e.catchUp(a, b, line)
		e.last(a, line, own, false, "in front of another")
		e.leave(b, line, behind.Place)
		e.fires(e.watch(a, line, behind.Place), "the one behind left")
		e.last(a, line, own, true, "after the one behind has left")
	}
}

func notLast(e *env) {
	q := e.queue()
	e.catchUp(q.ahead, q.behind, q.line)
	e.last(q.ahead, q.line, q.first, false, "at the head of three")
	e.catchUp(q.s, q.behind, q.line)
	e.last(q.s, q.line, q.own, false, "in the middle of three")
	e.leave(q.behind, q.line, q.last.Place)
	e.catchUp(q.ahead, q.s, q.line)
	e.last(q.ahead, q.line, q.first, false, "at the head of two")
}

// notLastConverted: a converted entry is the newest of the service, wherever it stands.
func notLastConverted(e *env) {
	q := e.queue()
	q.last = e.convert(q.behind, q.line, q.last, "r", "")
	e.catchUp(q.s, q.ahead, q.line)
	e.last(q.s, q.line, q.own, false, "in front of a converted one")
	q.own = e.convert(q.s, q.line, q.own, "r", "")
	e.catchUp(q.s, q.ahead, q.line)
	e.last(q.s, q.line, q.own, false, "when it was converted after the one behind")
	e.last(q.behind, q.line, q.last, true, "at the end, behind one that was converted later")
}

// lastNeverEarly: those behind relieve each other, and each comes, or is
// converted, before the one before it goes.
func lastNeverEarly(e *env) {
	s, line := e.open(), e.line()
	others := []session{e.open(), e.open()}
	first := e.join(others[0], line)
	own := e.join(s, line)
	behind := e.join(others[0], line)
	e.catchUp(s, others[1], line)
	pause := func() { sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) }
	relay := e.start(func() error {
		for i := range 30 {
			next, err := others[(i+1)%2].Join(e.soon(), line, contender())
			if err != nil {
				return fmt.Errorf("Join: %w", err)
			}
			pause()
			if err := others[i%2].Leave(e.soon(), line, behind.Place); err != nil {
				return fmt.Errorf("Leave: %w", err)
			}
			pause()
			if next.Place, err = others[(i+1)%2].Convert(e.soon(), line, next, "r", nil); err != nil {
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
		view := e.view(s, line, own.Place)
		e.same(ids(view.Ahead), []string{first.Place.ID}, "ahead while others relieve each other behind:")
		if view.Last {
			e.fail("Last is false", "Last is true although there was always somebody behind")
		}
	}
	e.ok(relay.err, "others who relieve each other")
}

// contest is a plain mutex over one line, as the recipes do it.
type contest struct {
	e      *env
	line   driver.Line
	modes  []string // to which each is converted while it waits
	inside atomic.Int32
	last   atomic.Int64
}

// take joins, waits for its turn and leaves.
func (c *contest) take(s session) error {
	own, err := s.Join(c.e.soon(), c.line, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range c.modes {
		if own.Place, err = s.Convert(c.e.soon(), c.line, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
	}
	for {
		view, err := s.Ahead(c.e.soon(), c.line, own.Place)
		if err != nil {
			return fmt.Errorf("Ahead: %w", err)
		}
		if len(view.Ahead) == 0 {
			break
		}
		err = c.e.again(func(ctx context.Context) error {
			return s.Watch(ctx, c.line, view.Ahead[len(view.Ahead)-1])
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
	if err := s.Leave(c.e.soon(), c.line, own.Place); err != nil {
		return fmt.Errorf("Leave: %w", err)
	}
	return nil
}

// manyGoroutines runs a mutex as recipes do: whatever is not safe for many callers, or
// wrong about who is ahead, lets two in at once or leaves one waiting.
func manyGoroutines(e *env, modes ...string) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	c := &contest{e: e, line: e.line(), modes: modes}
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
	e.stands(sessions[0], c.line)
}

// count adds one to the number in a line's record.
func count(ctx context.Context, s session, line driver.Line) error {
	for {
		r, err := s.Record(ctx, line, driver.Any)
		if err != nil {
			return fmt.Errorf("Record: %w", err)
		}
		n, _ := strconv.Atoi(string(r.Value)) // none is zero
		_, err = s.SetRecord(ctx, line, []byte(strconv.Itoa(n+1)), r.Version)
		if !errors.Is(err, driver.ErrStale) {
			return err
		}
	}
}

// busy is a contender that changes all it can while it stands in the line.
func (e *env) busy(s session, line driver.Line) error {
	own, err := s.Join(e.soon(), line, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range []string{"r", "x", "r"} {
		if err := s.Write(e.soon(), line, own.Place, []byte("in "+own.Place.Mode)); err != nil {
			return fmt.Errorf("Write: %w", err)
		}
		if own.Place, err = s.Convert(e.soon(), line, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
		head, err := s.Head(e.soon(), line, driver.Any)
		if err != nil || head.ID == "" {
			return fmt.Errorf("Head while standing in the line: %+v, %w", head, err)
		}
		if err := count(e.soon(), s, line); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	return s.Leave(e.soon(), line, own.Place)
}

// manyWriters: a conversion or write that goes to another's entry ends that
// one's, and two writes over one version lose a count.
func manyWriters(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	line := e.line()
	var running []*outcome
	for i := range 9 {
		running = append(running, e.start(func() error { return e.busy(sessions[i%len(sessions)], line) }))
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "a goroutine that changes its entry"), "a goroutine that changes its entry")
	}
	e.stands(sessions[0], line)
	e.eventually("a count of 27", func() bool { return string(e.record(sessions[0], line).Value) == "27" })
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

// versionJoins: in a line where nobody is and in one where somebody is, alone
// and not, and without a version.
func versionJoins(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	version := e.setRecord(a, line, "one", 0)
	for i, value := range []string{"two", "three"} {
		c := contender()
		c.Record, c.Alone = version, true
		first := e.joinAs(b, line, c)
		c = contender()
		c.Record = version
		second := e.joinAs(a, line, c)
		if r := e.record(b, line); r.Version != version { // who was let in by a version has seen it
			e.fail(fmt.Sprintf("the record of version %d", version), "a session that has joined with that version reads version %d", r.Version)
		}
		third := e.join(b, line) // who knows no version joins in any
		e.same(e.ahead(b, line, third.Place), []string{first.Place.ID, second.Place.ID}, fmt.Sprintf("ahead in round %d:", i+1))
		version = e.setRecord(a, line, value, version)
		e.leave(b, line, first.Place)
		e.leave(a, line, second.Place)
		e.leave(b, line, third.Place)
		e.stands(b, line)
		e.stands(a, line)
	}
}

// refuseStale tries to join with a version that the record does not have.
func (e *env) refuseStale(s session, line driver.Line, version driver.Version, alone bool) {
	c := contender()
	c.Record, c.Alone = version, alone
	_, err := s.Join(e.soon(), line, c)
	e.is(err, fmt.Sprintf("Join (Alone: %t) with a version that is not the record's", alone), driver.ErrStale)
}

// versionRefused: an entry that was let in under an old limit would hold what
// is not there any more.
func versionRefused(e *env) {
	a, b := e.open(), e.open()
	line, other := e.line(), e.line()
	elsewhere := e.setRecord(a, other, "other", 0)
	e.refuseStale(a, line, elsewhere, false) // no record, and a line that nobody has joined
	e.refuseStale(a, line, elsewhere, true)
	older := e.setRecord(a, line, "one", 0)
	version := e.setRecord(a, line, "two", older)
	e.refuseStale(b, line, older, false)
	e.refuseStale(b, line, older, true)
	e.keeps(b, line)
	c := contender()
	c.Record, c.Alone = version, true
	own := e.joinAs(a, line, c)
	e.refuseStale(a, line, older, false)
	e.refuseStale(b, line, older, false)
	e.keeps(b, line, own.Place.ID)
	again := contender() // an earlier Join that was never applied
	again.Record, again.Again = older, true
	_, err := b.Join(e.soon(), line, again)
	e.is(err, "Join again of one who does not stand in the line", driver.ErrStale)
	e.leave(a, line, own.Place)
	e.keeps(b, line)
}

// staleWakesNobody: to join, look and leave would do for the outcome.
func staleWakesNobody(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	older := e.setRecord(a, line, "one", 0)
	version := e.setRecord(a, line, "two", older)
	first := e.join(a, line)
	e.join(b, line)
	w := e.watch(b, line, first.Place)
	h := e.start(func() error { _, err := b.Record(e.ctx, line, version); return err })
	for range 5 {
		e.refuseStale(a, line, older, false)
		e.refuseStale(e.open(), line, older, false)
	}
	e.quiet(w, "refused Joins")
	e.waiting(h, "Record", "refused Joins")
	e.leave(a, line, first.Place)
	e.fires(w, "the leaving")
}

// staleNoWatch: a watch that nobody waits for would wake this client later.
func staleNoWatch(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	older := e.setRecord(a, line, "one", 0)
	e.setRecord(a, line, "two", older)
	e.join(a, line)
	before := e.watches()
	for range 5 {
		e.refuseStale(b, line, older, false)
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
	line, x := e.line(), contender()
	stays := e.join(seer, line)
	x.Record = e.setRecord(seer, line, "one", 0)
	e.acquaint(s, line)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, line, x); return err })
	e.setRecord(seer, line, "two", x.Record)
	c.Link.Deliver()
	e.keeps(seer, line, stays.Place.ID)
	x.Again = true
	err := e.again(func(ctx context.Context) error { _, err := s.Join(ctx, line, x); return err })
	e.is(err, "Join with a version that is not the record's any more", driver.ErrStale)
	e.keeps(seer, line, stays.Place.ID)
}

// joinAgainStale: the contender was let in when its version was the record's.
// That its reply was lost does not change it.
func joinAgainStale(e *env) {
	s, other := e.open(), e.open()
	line, c := e.line(), contender()
	stays := e.join(other, line)
	c.Record = e.setRecord(other, line, "one", 0)
	own := e.joinAs(s, line, c)
	e.setRecord(other, line, "two", c.Record)
	c.Again = true
	e.same2(e.joinAs(s, line, c), own)
	e.keeps(s, line, stays.Place.ID, c.ID)
}

var wholeCases = []testCase{
	{name: "V4/the whole line is shown to one who does not stand in it", body: wholeLine},
	{name: "V4/the whole line is as the session has left it", body: wholeFresh},
}

// nowhere is the place of one who does not stand in the line.
var nowhere driver.Place

// whole checks the view of one who would come next.
func (e *env) whole(s session, line driver.Line, when string, want ...driver.Place) {
	if view := e.view(s, line, nowhere); !slices.Equal(view.Ahead, want) || !view.Last {
		e.fail(fmt.Sprintf("%+v, and nobody behind", want), "%s the whole line is %+v, Last %t", when, view.Ahead, view.Last)
	}
}

// wholeLine: to a session that stands in the line with others, and to one that does not.
func wholeLine(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	line := e.line()
	e.whole(seer, line, "before anybody has joined")
	var want []driver.Place
	for i, mode := range []string{"x", "r", "abcdefghijklmnop", "x"} {
		c := contender()
		c.Mode, c.Value = mode, []byte("value")
		want = append(want, e.joinAs([]session{a, b}[i%2], line, c).Place)
	}
	own := e.join(a, line)
	e.setRecord(b, line, "record", 0)
	want = append(want, own.Place)
	e.whole(a, line, "for one who stands in it", want...)
	own = e.convert(a, line, own, "r", "")
	want[4] = own.Place
	e.whole(a, line, "with one that was converted", want...)
	e.stands(seer, line, ids(want)...) // from now on it has seen as much
	e.eventually("the whole line for one who does not stand in it", func() bool {
		view := e.view(seer, line, nowhere)
		return slices.Equal(view.Ahead, want) && view.Last
	})
}

// wholeFresh: replicas may lag, but not behind what their own client has done.
// There is no place that says how new it has to be.
func wholeFresh(e *env) {
	s := e.open()
	line := e.line()
	for range 10 {
		first, second := e.join(s, line), e.join(s, line)
		e.whole(s, line, "after two joins", first.Place, second.Place)
		first = e.convert(s, line, first, "r", "")
		e.whole(s, line, "after a conversion", first.Place, second.Place)
		e.leave(s, line, first.Place)
		e.whole(s, line, "after a leave", second.Place)
		e.ok(s.Forget(e.soon(), line, second.Place.ID), "Forget")
		e.whole(s, line, "after a forget")
	}
}
