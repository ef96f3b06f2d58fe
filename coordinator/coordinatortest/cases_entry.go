package coordinatortest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// entryCall is a call that removes, changes or checks one entry.
type entryCall struct {
	name    string
	removed string // the clause for an entry that it removes; "" if it removes none
	gone    string // the clause for an entry that is not there
	again   string // the clause for repeating it, if it removes one
	needs   []Lever
	follows bool // its contenders follow each other
	anyone  bool // any session may call it, with key and token
	call    func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error
}

var (
	leaves = entryCall{
		name: "Leave", removed: "L1", gone: "L2", again: "L3",
		call: func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error {
			return s.Leave(ctx, queue, own.Place)
		},
	}
	passes = entryCall{
		name: "Pass", removed: "L1", gone: "L2", again: "L3",
		needs: []Lever{Handoff}, follows: true,
		call: func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error {
			return s.Pass(ctx, queue, own.Place)
		},
	}
	removes = entryCall{
		name: "Remove", removed: "X1", gone: "X2", again: "X3",
		needs: []Lever{Operator}, anyone: true,
		call: func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error {
			return s.Remove(ctx, queue, own.Place.Key, own.Token)
		},
	}
	checks = entryCall{
		name: "Check", gone: "K2", needs: []Lever{Operator}, anyone: true,
		call: func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error {
			return s.Check(ctx, queue, own.Place.Key, own.Token)
		},
	}
	converts = entryCall{
		name: "Convert", gone: "M3", needs: []Lever{Converter},
		call: func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error {
			_, err := s.Convert(ctx, queue, own, "p7", []byte("changed"))
			return err
		},
	}
	writes = entryCall{
		name: "Write", gone: "P2", needs: []Lever{Writer},
		call: func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error {
			return s.Write(ctx, queue, own.Place, []byte("changed"))
		},
	}
	entryCalls = []entryCall{checks, converts, writes, leaves, passes, removes}
)

func entryCallCases() (all []testCase) {
	for _, x := range entryCalls {
		add := func(clause, claim string, body func(*env), needs ...Lever) {
			all = append(all, testCase{
				clause + "/" + x.name + " " + claim, slices.Concat(needs, x.needs), body,
			})
		}
		add(x.gone, "of a place that is gone changes nothing", x.ofGone)
		add(x.gone, "keeps a later entry of the same id", x.ofEarlier)
		add(x.gone, "of a foreign place changes nothing", x.ofForeign)
		if x.removed != "" {
			add(x.removed, "removes the entry", x.removesEntry)
			add(x.again, "may be repeated after a lost reply", x.lostReply, Network)
		}
	}
	return all
}

func (x entryCall) request(s session, queue driver.Queue, own driver.Joined) request {
	return func(ctx context.Context) error { return x.call(ctx, s, queue, own) }
}

func (x entryCall) must(e *env, s session, queue driver.Queue, own driver.Joined) {
	e.ok(x.call(e.soon(), s, queue, own), x.name)
}

// repeat calls as the engine does: it repeats after an unknown outcome.
func (x entryCall) repeat(e *env, s session, queue driver.Queue, own driver.Joined) {
	if err := e.again(x.request(s, queue, own)); err != nil {
		e.is(err, x.name+", repeated while the service is unavailable", driver.ErrGone)
	}
}

func (x entryCall) isGone(e *env, s session, queue driver.Queue, own driver.Joined, what string) {
	e.is(x.call(e.soon(), s, queue, own), x.name+" of "+what, driver.ErrGone)
}

// intact checks that a queue has exactly these entries of joinPair.
func (e *env) intact(s session, queue driver.Queue, want ...driver.Joined) {
	entries := e.list(s, queue)
	same := func(x driver.Entry, j driver.Joined) bool { return sameEntry(x, j, j.Place.ID) }
	if !slices.EqualFunc(entries, want, same) {
		e.fail(fmt.Sprintf("the queue has %+v, with their values", want), "it has %s",
			sprintEntries(entries))
	}
}

// ofGone: an entry made for a contender that has left would block the queue. No
// other entry may be removed in its place.
func (x entryCall) ofGone(e *env) {
	s, other, queue := e.open(), e.open(), e.queue()
	left, forgotten := e.joinPair(s, queue, x.follows), e.joinPair(s, queue, x.follows)
	keep := []driver.Joined{e.joinPair(other, queue, x.follows)}
	out := leaves
	if x.removed != "" {
		out = x
	}
	out.must(e, s, queue, left)
	e.forget(s, queue, forgotten.Place.ID)
	gone := []driver.Joined{left, forgotten}
	if e.has(Remove) {
		deleted := e.joinPair(s, queue, x.follows)
		e.delete(queue, deleted.Place)
		gone = append(gone, deleted)
	}
	if e.has(Converter) { // each conversion makes another entry
		own := e.joinPair(s, queue, x.follows)
		for _, mode := range []string{"r", "x", "r"} {
			gone = append(gone, own)
			own = e.convert(s, queue, own, mode, own.Place.ID)
		}
		keep = append(keep, own)
	}
	keep = append(keep, e.joinPair(other, queue, x.follows))
	for range 2 {
		for i, own := range gone {
			x.isGone(e, s, queue, own,
				fmt.Sprintf("place %d that is gone", i+1))
			if x.anyone {
				x.isGone(e, other, queue, own, "a gone place of another session")
			}
		}
	}
	e.settle()
	e.intact(s, queue, keep...)
}

// ofEarlier: the later entry has the same ID, session and queue, and even the
// mode that a conversion asks for.
func (x entryCall) ofEarlier(e *env) {
	// The pair keeps the service from deleting the queue and its counters.
	s, d := e.open(), e.pairOf(x.follows)
	c := contender()
	c.Follows, c.Value = x.follows, []byte(c.ID)
	old := e.joinAs(s, d.queue, c)
	e.leave(s, d.queue, old.Place)
	modes := []string{"x"}
	if x.name == converts.name {
		modes = append(modes, "p7")
	}
	for _, mode := range modes {
		c.Mode = mode
		later := e.joinAs(s, d.queue, c)
		x.isGone(e, s, d.queue, old, "an earlier entry of the same ID")
		if x.anyone {
			mixed := driver.Joined{Place: old.Place, Token: later.Token}
			x.isGone(e, d.behind, d.queue, mixed,
				"the key of an earlier entry with the token of a later one")
			mixed = driver.Joined{Place: later.Place, Token: old.Token}
			x.isGone(e, d.behind, d.queue, mixed,
				"the key of a later entry with the token of an earlier one")
		}
		e.settle()
		e.intact(s, d.queue, d.first, d.second, later)
		e.forget(s, d.queue, c.ID)
	}
}

// ofForeign: a place is valid only in its queue and, but for anyone's calls, on
// its session.
func (x entryCall) ofForeign(e *env) {
	d := e.pairOf(x.follows)
	longer := driver.Queue(string(d.queue) + "-")
	elsewhere := e.joinPair(d.ahead, longer, x.follows)
	x.isGone(e, d.ahead, e.queue(), d.first, "a place of another queue")
	x.isGone(e, d.ahead, longer, d.first, "a place of a queue with a shorter name")
	x.isGone(e, d.ahead, d.queue, elsewhere, "a place of a queue with a longer name")
	if x.anyone {
		x.ofForged(e, d)
	} else {
		x.isGone(e, d.behind, d.queue, d.first, "a place of another session")
		mixed := d.first
		mixed.Place.ID, mixed.Place.Session = d.second.Place.ID, d.second.Place.Session
		x.isGone(e, d.behind, d.queue, mixed, "another's key with the own ID and session")
	}
	e.settle()
	e.intact(d.behind, d.queue, d.first, d.second)
	e.intact(d.ahead, longer, elsewhere)
}

// ofForged tries other tokens and malformed keys.
func (x entryCall) ofForged(e *env, d *pair) {
	for _, token := range []driver.Token{0, -1, 1, d.first.Token - 1, d.first.Token + 1,
		d.second.Token} {
		if forged := d.first; token != forged.Token {
			forged.Token = token
			x.isGone(e, d.behind, d.queue, forged,
				fmt.Sprintf("token %d instead of %d", token, d.first.Token))
		}
	}
	key := d.first.Place.Key
	for _, odd := range []string{
		"", ".", "..", "/", "../" + key, key + "/", key + "x", "x" + key, key[:len(key)-1],
		strings.ToUpper(key) + "Z", "@", "@1", string(d.queue), "\x00", "a\x00b", "\xff\xfe",
		strings.Repeat("k", 3000),
	} {
		forged := d.first
		forged.Place.Key = odd
		x.isGone(e, d.behind, d.queue, forged,
			fmt.Sprintf("the key %.40q instead of %q", odd, key))
	}
}

func (x entryCall) removesEntry(e *env) {
	d := e.pairOf(x.follows)
	x.must(e, d.ahead, d.queue, d.first)
	e.same(e.queued(d.ahead, d.queue), ids(d.places()[1:]), "its own session lists")
	e.fires(e.watch(d.behind, d.queue, d.first.Place), x.name+" returned nil")
	e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{}, "ahead of the next contender:")
	e.awaitQueue(d.behind, d.queue, d.second.Place.ID)
}

// lostReply: another contender joins before the call is repeated.
func (x entryCall) lostReply(e *env) {
	c, observer := e.connect(), e.open()
	s, queue := e.openOn(c), e.queue()
	own := e.joinPair(s, queue, x.follows)
	e.awaitQueue(observer, queue, own.Place.ID)
	e.lostReply(c,
		x.request(s, queue, own),
		func() bool {
			if x.anyone { // may read first, and never send the removal
				e.settle()
				return true
			}
			return len(e.list(observer, queue)) == 0
		})
	next := e.joinPair(observer, queue, x.follows)
	x.repeat(e, s, queue, own)
	e.keeps(observer, queue, next.Place.ID)
}

var forgetCases = []testCase{
	{"F1/forget removes the entry, if any", nil, forgetRemoves},
	{"F1/forget after a lost reply leaves nothing", []Lever{Network}, forgetLostReply},
	{"F2/others keep their places", nil, forgetSparesOthers},
}

// forgetRemoves: mostly there is no entry, since the engine calls Forget after
// each unknown outcome.
func forgetRemoves(e *env) {
	d := e.pair()
	e.forget(d.ahead, e.queue(), newID()) // in a new queue
	e.forget(d.ahead, d.queue, newID())
	e.keeps(d.ahead, d.queue, ids(d.places())...)
	for range 2 {
		e.forget(d.ahead, d.queue, d.first.Place.ID)
		e.same(e.queued(d.ahead, d.queue), ids(d.places()[1:]), "its own session lists")
	}
	e.awaitQueue(d.behind, d.queue, d.second.Place.ID)
}

func forgetLostReply(e *env) {
	j := e.lostJoin()
	e.forget(j.s, j.queue, j.x.ID)
	e.keeps(j.observer, j.queue, j.other)
}

func forgetSparesOthers(e *env) {
	d := e.pair()
	third, fourth := e.join(d.ahead, d.queue), e.join(d.ahead, d.queue)
	elsewhere := e.queue()
	other := e.join(d.ahead, elsewhere)
	e.forget(d.ahead, d.queue, third.Place.ID)
	// A contender of another session stays.
	_ = d.ahead.Forget(e.soon(), d.queue, d.second.Place.ID)
	e.keeps(d.ahead, d.queue, d.first.Place.ID, d.second.Place.ID, fourth.Place.ID)
	e.keeps(d.ahead, elsewhere, other.Place.ID)
}

var closeCases = []testCase{
	{"C1/after close all entries are gone at once", nil, closeRemoves},
	{"C1/a join under way is not applied after close", []Lever{Network}, closePreventsJoin},
	{"C1/requests under way are not applied after close", []Lever{Network}, closePreventsAll},
	{"C2/close ends without the service", []Lever{Network}, closeCutOff},
	{"C2/close succeeds after it has failed", []Lever{Network}, closeAgain},
}

// closeRemoves checks the time, too: entries that stay for the ttl would make
// every shutdown slow.
func closeRemoves(e *env) {
	d, elsewhere := e.pair(), e.queue()
	e.join(d.ahead, d.queue)
	other := e.join(d.ahead, elsewhere)
	if e.has(Converter) {
		e.convert(d.ahead, elsewhere, other, "r", "")
	}
	e.ok(d.ahead.Close(e.soon()), "Close")
	closed := time.Now()
	e.awaitQueue(d.behind, d.queue, d.second.Place.ID)
	e.awaitQueue(d.behind, elsewhere)
	if took := time.Since(closed); took > e.TTL/2 {
		e.fail("entries are gone at once", "they were gone after %v, the ttl is %v", took, e.TTL)
	}
}

// closeAgain: a Close that works once would leave the entries until the ttl has
// passed.
func closeAgain(e *env) {
	c, observer, queue := e.connect(), e.open(), e.queue()
	s := e.openUnrenewed(c)
	e.awaitQueue(observer, queue, e.join(s, queue).Place.ID)
	cut(c.Link)
	if err := s.Close(e.in(e.Settle)); err == nil {
		e.fail("an error", "Close succeeded without the service")
	}
	resetAndHeal(c.Link)
	e.closes(s)
	closed := time.Now()
	e.awaitQueue(observer, queue)
	if took := time.Since(closed); took > e.TTL/2 {
		e.fail("entries are gone at once", "they were gone after %v, the ttl is %v", took, e.TTL)
	}
}

// closeCutOff: a client that still pings a closed session would keep its
// entries for ever.
func closeCutOff(e *env) {
	c, observer, queue := e.connect(), e.open(), e.queue()
	s := e.openUnrenewed(c)
	e.awaitQueue(observer, queue, e.join(s, queue).Place.ID)
	cut(c.Link)
	o := e.start(func() error { return s.Close(e.in(e.Settle)) })
	err := e.ends(o, e.Settle+e.Patience, "Close without the service")
	e.is(err, "Close without the service", driver.ErrUnavailable, context.DeadlineExceeded)
	c.Link.Heal()
	e.empties(observer, queue, time.Now().Add(e.TTL))
}
