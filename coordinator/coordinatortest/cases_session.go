package coordinatortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var openCases = []testCase{
	{name: "TTL/is what was asked for", body: ttlGranted},
	{name: "O1/a session lives for its ttl after open", body: func(e *env) { lifetime(e, false) }},
	{name: "O1/a session lives for its ttl after a renewal", body: func(e *env) { lifetime(e, true) }},
	{name: "O1/a session that is renewed lives on", body: renewedLives},
	{name: "O1/a session that is not renewed ends", body: unrenewedEnds},
	{name: "O2/a ttl that is not granted is refused", needs: []Lever{OddTTL}, body: oddTTL},
	{name: "O2/a refused open leaves no session", needs: []Lever{OddTTL, Sessions}, body: oddTTLLeavesNothing},
	{name: "O3/session ids differ", body: idsDiffer},
	{name: "O4/an open whose reply was lost leaves nothing", needs: []Lever{Hold, Sessions}, body: lostOpen},
}

// ttlGranted: package coordinator counts its deadline from TTL, not from what it asked for.
func ttlGranted(e *env) {
	if s := e.open(); s.TTL() != e.TTL {
		e.fail(e.TTL.String(), "TTL() of a session opened with %v is %v", e.TTL, s.TTL())
	}
}

// untended joins a queue with a session that nobody renews, and cuts it off once
// it was opened, or renewed, and seer has seen it. The cut also silences
// clients that ping on their own. It returns when the last acknowledged call
// began, and when it ended.
func untended(e *env, seer session, renew bool) (s session, queue driver.Queue, began, ended time.Time) {
	c := e.connect()
	began = time.Now()
	s = e.openUntended(c)
	queue = e.queue()
	own := e.join(s, queue)
	ended = time.Now()
	e.stands(seer, queue, own.Place.ID) // only from now on does its absence say anything
	if renew {
		time.Sleep(e.TTL / 2)
		began = time.Now()
		e.ok(s.Renew(e.soon()), "Renew")
		ended = time.Now()
	}
	if e.has(Hold) {
		c.Link.HoldRequests()
		c.Link.HoldReplies()
	}
	return s, queue, began, ended
}

// empties returns when a list of the queue first came back empty.
func empties(e *env, seer session, queue driver.Queue, limit time.Time) time.Time {
	for {
		n := len(e.list(seer, queue))
		if now := time.Now(); n == 0 {
			return now
		} else if now.After(limit) {
			e.fail("the session ends soon after its ttl", "its entry is still there, %v late", e.Patience)
		}
		time.Sleep(e.Settle / 10)
	}
}

// lifetime: a list that came back without the entry proves that the session was over by then.
func lifetime(e *env, renew bool) {
	seer := e.open()
	s, queue, began, ended := untended(e, seer, renew)
	gone := empties(e, seer, queue, ended.Add(e.TTL+e.Patience))
	if lived := gone.Sub(began); lived < e.TTL-s.Slack() {
		e.fail(fmt.Sprintf("at least the ttl of %v less the slack of %v", e.TTL, s.Slack()),
			"the entry was gone after %v", lived)
	}
}

// unrenewedEnds: the entries of a dead client must not block others for longer than its
// ttl.
func unrenewedEnds(e *env) {
	seer := e.open()
	_, queue, _, ended := untended(e, seer, true)
	empties(e, seer, queue, ended.Add(e.TTL+e.Patience))
}

// renewedLives watches the entry through another client: what the session says of itself is
// not asked.
func renewedLives(e *env) {
	seer, s := e.open(), e.open()
	queue := e.queue()
	own := e.join(s, queue)
	e.stands(seer, queue, own.Place.ID)
	for end := time.Now().Add(2*e.TTL + e.TTL/2); time.Now().Before(end); time.Sleep(e.TTL / 8) {
		e.same(e.standing(seer, queue), []string{own.Place.ID}, "the renewed session's entry stands:")
	}
}

// oddTTL: a ttl that is rounded in silence moves the moment at which holders must stop.
func oddTTL(e *env) {
	_, err := e.connect().Driver.Open(e.soon(), e.OddTTL)
	e.is(err, "Open", driver.ErrInvalid)
	for _, d := range []time.Duration{e.OddTTL, e.GrantedTTL} {
		if !strings.Contains(err.Error(), d.String()) {
			e.fail(fmt.Sprintf("both values, %v and %v, in the error", e.OddTTL, e.GrantedTTL), "Open: %v", err)
		}
	}
}

// oddTTLLeavesNothing: services say what they grant only once they have granted it.
func oddTTLLeavesNothing(e *env) {
	c := e.connect()
	e.openOn(c)
	before := e.sessions()
	_, err := c.Driver.Open(e.soon(), e.OddTTL)
	e.is(err, "Open", driver.ErrInvalid)
	// Looked at once: waiting would only show that the session ends with its ttl.
	if now := e.sessions(); now > before { // less is what an earlier case left, running out
		e.fail(fmt.Sprintf("%d sessions as before", before), "%d sessions after the refused Open", now)
	}
}

func (e *env) sessions() int {
	n, err := e.svc.Sessions(e.soon())
	e.ok(err, "Sessions of the harness")
	return n
}

// idsDiffer: recipes tell holders apart by session, so one that comes back is taken for
// another.
func idsDiffer(e *env) {
	seen := map[string]bool{}
	for range 2 {
		c := e.connect()
		for range 3 {
			s := e.openOn(c)
			if id := s.ID(); seen[id] || id == "" || strings.Trim(id, "0123456789abcdef") != "" {
				e.fail("a new ID in lower-case hex for each session", "session ID %q after %v", id, seen)
			}
			seen[s.ID()] = true
			e.ok(s.Close(e.soon()), "Close") // its ID must not come back
		}
	}
}

// lostOpen: the service has opened a session of which its client does not know.
func lostOpen(e *env) {
	c := e.connect()
	e.openOn(c)
	before := e.sessions()
	c.Link.HoldReplies()
	ctx := e.in(e.Settle)
	_, err := c.Driver.Open(ctx, e.TTL)
	if err == nil {
		e.fail("an error", "Open succeeded without a reply")
	}
	c.Link.Heal()
	for end := time.Now().Add(e.TTL + e.Patience); e.sessions() > before; time.Sleep(e.Settle / 4) {
		if time.Now().After(end) {
			e.fail(fmt.Sprintf("%d sessions as before, within the ttl", before), "still more, %v late", e.Patience)
		}
	}
}

var renewCases = []testCase{
	{name: "R1/a renewal without the service fails", needs: []Lever{Hold}, body: renewNeedsService},
	{name: "R2/an ended session stays ended", needs: []Lever{Expire}, body: endedStaysEnded},
	{name: "R2/a closed session stays closed", body: closedStaysClosed},
	{name: "Done/is closed once the service has said so", needs: []Lever{Expire}, body: doneCloses},
}

// renewNeedsService: a renewal that is answered from what the client remembers, or counted
// when it was sent, lets a holder go on that the service gave up long ago.
func renewNeedsService(e *env) {
	c := e.connect()
	s := e.openUntended(c)
	e.ok(s.Renew(e.soon()), "Renew")
	for what, hold := range map[string]func(){"request": c.Link.HoldRequests, "reply": c.Link.HoldReplies} {
		hold()
		if err := s.Renew(e.in(e.Settle)); err == nil {
			e.fail("an error", "Renew succeeded although its %s did not pass", what)
		}
		c.Link.Heal()
		e.ok(e.again(s.Renew), "Renew after healing")
	}
}

// endedStaysEnded: some clients go on with a new session in silence. The old one's calls
// must not be answered by it.
func endedStaysEnded(e *env) {
	c := e.connect()
	s, other := e.openOn(c), e.open()
	queue := e.queue()
	stands := e.join(other, queue)
	own := e.join(s, queue)
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	e.lost(s)
	e.dead(s, queue, own.Place, stands)
	e.openOn(c) // the client goes on with a new one
	e.dead(s, queue, own.Place, stands)
	e.stands(other, queue, stands.Place.ID)
}

// closedStaysClosed: the connection may live on for other sessions.
func closedStaysClosed(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	stands := e.join(other, queue)
	own := e.join(s, queue)
	e.ok(s.Close(e.soon()), "Close")
	e.dead(s, queue, own.Place, stands)
	e.stands(other, queue, stands.Place.ID)
}

// dead checks that no call succeeds on a session that is over.
func (e *env) dead(s session, queue driver.Queue, own driver.Place, other driver.Joined) {
	stands, token := other.Place, other.Token
	joined := driver.Joined{Place: own}
	for name, call := range map[string]func(ctx context.Context) error{
		"Renew":           s.Renew,
		"Join":            func(ctx context.Context) error { _, err := s.Join(ctx, queue, contender()); return err },
		"Ahead":           func(ctx context.Context) error { _, err := s.Ahead(ctx, queue, own); return err },
		"Watch":           func(ctx context.Context) error { return s.Watch(ctx, queue, stands) },
		"Follow":          func(ctx context.Context) error { _, err := s.Follow(ctx, queue, own, stands); return err },
		"Pass":            func(ctx context.Context) error { return s.Pass(ctx, queue, own) },
		"Leave":           func(ctx context.Context) error { return s.Leave(ctx, queue, own) },
		"Forget":          func(ctx context.Context) error { return s.Forget(ctx, queue, own.ID) },
		"Check":           func(ctx context.Context) error { return s.Check(ctx, queue, stands.Key, token) },
		"List":            func(ctx context.Context) error { _, err := s.List(ctx, queue, 0); return err },
		"Ahead of nobody": func(ctx context.Context) error { _, err := s.Ahead(ctx, queue, nowhere); return err },
		"Convert":         func(ctx context.Context) error { _, err := s.Convert(ctx, queue, joined, "r", nil); return err },
		"Write":           func(ctx context.Context) error { return s.Write(ctx, queue, own, []byte("dead")) },
		"Head":            func(ctx context.Context) error { _, err := s.Head(ctx, queue, driver.Any); return err },
		"Record":          func(ctx context.Context) error { _, err := s.Record(ctx, queue, driver.Any); return err },
		"SetRecord": func(ctx context.Context) error {
			_, err := s.SetRecord(ctx, queue, []byte("dead"), 0)
			return err
		},
	} {
		ctx := e.in(e.Patience)
		err := call(ctx)
		if err == nil {
			e.fail("an error", "%s succeeded on a session that is over", name)
		}
		e.classified(ctx, err, name+" on a session that is over")
	}
}

// doneCloses: Done is how holders hear of a loss that nobody asked about.
func doneCloses(e *env) {
	s := e.open()
	select {
	case <-s.Done():
		e.fail("an open channel", "Done of a live session is closed")
	default:
	}
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	e.lost(s)
	select {
	case <-s.Done():
	case <-time.After(e.Patience):
		e.fail("Done is closed", "Done is open, %v after Renew returned ErrSessionLost", e.Patience)
	}
}

var listCases = []testCase{
	{name: "List/shows the first entries in order with their values", body: listEntries},
	{name: "Empty/a queue that nobody joined is empty", body: listEmpty},
	{name: "S1/a list shows what the session has finished", body: listFresh},
}

var closeCases = []testCase{
	{name: "C1/after close all entries are gone at once", body: closeRemoves},
	{name: "C1/a join under way is not applied after close", needs: []Lever{Hold, Strand}, body: closeBeatsJoin},
	{name: "C2/close ends without the service", needs: []Lever{Hold}, body: closeCutOff},
}

// listEntries: values may hold any bytes, and what one session wrote another must read.
func listEntries(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	big := make([]byte, 64<<10) // the largest allowed, with every byte there is
	for i := range big {
		big[i] = byte(i)
	}
	var want []driver.Entry
	for i, value := range [][]byte{[]byte("host-1"), nil, big, []byte("\x00\xff ü/%")} {
		c := contender()
		c.Value = value
		j := e.joinAs([]session{a, b}[i%2], queue, c)
		want = append(want, driver.Entry{Place: j.Place, Token: j.Token, Value: value})
	}
	e.stands(a, queue, entryIDs(want)...)
	for limit, n := range []int{4, 1, 2, 3, 4, 4} {
		got, err := a.List(e.soon(), queue, limit)
		e.ok(err, "List")
		e.same(entryIDs(got), entryIDs(want[:n]), fmt.Sprintf("List with limit %d has", limit))
		for i, x := range got {
			if x.Place != want[i].Place || x.Token != want[i].Token || !bytes.Equal(x.Value, want[i].Value) {
				e.fail(fmt.Sprintf("%+v, token %d, %d bytes", want[i].Place, want[i].Token, len(want[i].Value)),
					"List shows %+v, token %d, %d bytes or other ones", x.Place, x.Token, len(x.Value))
			}
		}
	}
}

// listEmpty: on some services a queue is a thing that must exist before it can be read.
func listEmpty(e *env) {
	s := e.open()
	e.same(e.standing(s, e.queue()), []string{}, "a queue that nobody joined has")
	got, err := s.List(e.soon(), e.queue(), 3)
	e.ok(err, "List with a limit")
	e.same(entryIDs(got), []string{}, "a queue that nobody joined has")
}

// listFresh: replicas may lag, but not behind what their own client has done.
func listFresh(e *env) {
	s := e.open()
	queue := e.queue()
	for range 10 {
		a, b := e.join(s, queue), e.join(s, queue)
		e.same(e.standing(s, queue), []string{a.Place.ID, b.Place.ID}, "after two joins the queue has")
		e.leave(s, queue, a.Place)
		e.same(e.standing(s, queue), []string{b.Place.ID}, "after a leave the queue has")
		e.ok(s.Forget(e.soon(), queue, b.Place.ID), "Forget")
		e.same(e.standing(s, queue), []string{}, "after a forget the queue has")
	}
}

// closeRemoves: waiting out the ttl would do for the outcome, and make every shutdown slow.
func closeRemoves(e *env) {
	d := e.duel()
	elsewhere := e.queue()
	e.join(d.ahead, elsewhere)
	e.join(d.ahead, d.queue)
	e.closeAhead(d, "the closed session's entries", elsewhere)
}

// closeAhead closes the session of the one ahead. What it has in that queue, and
// in others where nobody else stands, must be gone at once, and not after its
// ttl.
func (e *env) closeAhead(d *duel, what string, others ...driver.Queue) {
	e.ok(d.ahead.Close(e.soon()), "Close")
	closed := time.Now()
	e.stands(d.behind, d.queue, d.second.Place.ID)
	for _, queue := range others {
		e.stands(d.behind, queue)
	}
	if took := time.Since(closed); took > e.TTL/2 {
		e.fail("entries are gone at once", "%s were gone after %v, the ttl is %v", what, took, e.TTL)
	}
}

// closeBeatsJoin: an entry that appears after Close belongs to a process that may be gone.
func closeBeatsJoin(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue := e.queue()
	stays := e.join(seer, queue)
	e.acquaint(s, queue)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, queue, contender()); return err })
	e.ok(e.again(s.Close), "Close")
	c.Link.Deliver()
	e.keeps(seer, queue, stays.Place.ID)
}

// closeCutOff: a client that goes on pinging a session that nobody holds any more would
// keep its entries for ever.
func closeCutOff(e *env) {
	c, seer := e.connect(), e.open()
	s := e.openUntended(c)
	queue := e.queue()
	e.stands(seer, queue, e.join(s, queue).Place.ID)
	c.Link.HoldRequests()
	c.Link.HoldReplies()
	ctx := e.in(e.Settle)
	o := e.start(func() error { return s.Close(ctx) })
	err := e.ends(o, e.Settle+e.Patience, "Close without the service")
	e.is(err, "Close without the service", driver.ErrUnavailable, context.DeadlineExceeded)
	healed := time.Now()
	c.Link.Heal()
	empties(e, seer, queue, healed.Add(e.TTL+e.Patience))
}

var generalCases = []testCase{
	{name: "G1/many goroutines share sessions and a queue", body: func(e *env) { manyGoroutines(e) }},
	{name: "G1/many goroutines share a queue and convert while they wait", body: func(e *env) { manyGoroutines(e, "r", "x") }},
	{name: "G1/many goroutines convert, write and count in a record", body: manyWriters},
	{name: "G2/calls end with their context while nothing passes", needs: []Lever{Hold}, body: callsEnd},
	{name: "G3/every error is classified", needs: []Lever{Hold, Reset}, body: errorsClassified},
	{name: "Queue/similar names do not see each other", body: similarNames},
	{name: "Mode/every view shows it", body: modeShown},
	{name: "Key/is never used for another entry", body: keyUnique},
}

// callsEnd: with both directions held no call can be answered. Clients that queue requests
// without a bound, or wait for a connection, tend to miss the end of their context.
func callsEnd(e *env) {
	c := e.connect()
	s := e.openUntended(c)
	queue := e.queue()
	first := e.join(e.open(), queue)
	own := e.join(s, queue)
	c.Link.HoldRequests()
	c.Link.HoldReplies()
	calls := []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"Driver.Open", func(ctx context.Context) error { _, err := c.Driver.Open(ctx, e.TTL); return err }},
		{"Renew", s.Renew},
		{"Join", func(ctx context.Context) error { _, err := s.Join(ctx, queue, contender()); return err }},
		{"Ahead", func(ctx context.Context) error { _, err := s.Ahead(ctx, queue, own.Place); return err }},
		{"Watch", func(ctx context.Context) error { return s.Watch(ctx, queue, first.Place) }},
		{"Follow", func(ctx context.Context) error {
			_, err := s.Follow(ctx, queue, own.Place, first.Place)
			return err
		}},
		{"Convert", func(ctx context.Context) error { _, err := s.Convert(ctx, queue, own, "r", nil); return err }},
		{"Write", func(ctx context.Context) error { return s.Write(ctx, queue, own.Place, []byte("value")) }},
		{"Head", func(ctx context.Context) error { _, err := s.Head(ctx, queue, driver.Any); return err }},
		{"Record", func(ctx context.Context) error { _, err := s.Record(ctx, queue, driver.Any); return err }},
		{"SetRecord", func(ctx context.Context) error { _, err := s.SetRecord(ctx, queue, []byte("value"), 0); return err }},
		{"List", func(ctx context.Context) error { _, err := s.List(ctx, queue, 0); return err }},
		{"Check", func(ctx context.Context) error { return s.Check(ctx, queue, own.Place.Key, own.Token) }},
		{"Forget", func(ctx context.Context) error { return s.Forget(ctx, queue, newID()) }},
		{"Leave", func(ctx context.Context) error { return s.Leave(ctx, queue, own.Place) }},
		{"Pass", func(ctx context.Context) error { return s.Pass(ctx, queue, own.Place) }},
		{"Session.Close", s.Close},
		{"Driver.Close", c.Driver.Close},
	}
	for _, x := range calls {
		ctx := e.in(e.Settle)
		o := e.start(func() error { return x.call(ctx) })
		_ = e.ends(o, e.Settle+e.Patience, x.name+" with a context that ended")
	}
}

// errorsClassified looks at one error of each kind that can be had without harm to the
// service.
func errorsClassified(e *env) {
	c := e.connect()
	s := e.openOn(c)
	queue := e.queue()
	own := e.join(s, queue)
	dead, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := s.Join(dead, queue, contender())
	e.classified(dead, err, "Join with a context that had ended")
	taken := contender()
	taken.Alone = true
	_, err = s.Join(e.soon(), queue, taken)
	e.classified(e.ctx, err, "Join alone in a taken queue")
	e.leave(s, queue, own.Place)
	e.classified(e.ctx, s.Leave(e.soon(), queue, own.Place), "Leave repeated")
	e.classified(e.ctx, s.Pass(e.soon(), queue, own.Place), "Pass of a place that was left")
	_, err = s.Follow(dead, queue, own.Place, own.Place)
	e.classified(dead, err, "Follow with a context that had ended")
	_, err = s.Ahead(e.soon(), queue, own.Place)
	e.classified(e.ctx, err, "Ahead of a place that was left")
	_, err = s.Convert(e.soon(), queue, own, "r", nil)
	e.classified(e.ctx, err, "Convert of a place that was left")
	e.classified(e.ctx, s.Write(e.soon(), queue, own.Place, nil), "Write to a place that was left")
	e.classified(e.ctx, s.Check(e.soon(), queue, own.Place.Key, own.Token), "Check of a place that was left")
	_, err = s.SetRecord(e.soon(), queue, []byte("value"), e.setRecord(s, e.queue(), "value", 0))
	e.classified(e.ctx, err, "SetRecord with another version")
	_, err = s.Head(dead, queue, driver.Any)
	e.classified(dead, err, "Head with a context that had ended")
	_, err = s.Record(dead, queue, driver.Any)
	e.classified(dead, err, "Record with a context that had ended")
	if e.has(OddTTL) {
		_, err = c.Driver.Open(e.soon(), e.OddTTL)
		e.classified(e.ctx, err, "Open with a ttl that is not granted")
	}

	c.Link.HoldRequests()
	short := e.in(e.Settle)
	e.classified(short, s.Renew(short), "Renew that timed out")
	broken := e.start(func() error { return s.Leave(e.soon(), queue, own.Place) })
	e.settle()
	c.Link.Reset()
	c.Link.Heal()
	e.classified(e.ctx, e.ends(broken, e.Patience, "Leave over a broken connection"), "Leave over a broken connection")

	if e.has(Expire) {
		e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
		_, err = s.Join(e.soon(), queue, contender())
		e.classified(e.ctx, err, "Join of an ended session")
		e.classified(e.ctx, s.Renew(e.soon()), "Renew of an ended session")
		e.classified(e.ctx, s.Pass(e.soon(), queue, own.Place), "Pass of an ended session")
	}
}

// classified checks clause G3 for the error of a call with ctx.
func (e *env) classified(ctx context.Context, err error, what string) {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return
	}
	e.is(err, what, driver.ErrUnavailable, driver.ErrSessionLost, driver.ErrGone,
		driver.ErrTaken, driver.ErrStale, driver.ErrRefused, driver.ErrInvalid)
}
