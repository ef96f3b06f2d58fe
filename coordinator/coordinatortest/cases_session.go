package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var sessionCases = []testCase{
	{"G2/calls end with their context while the link is held", []Lever{Network}, callsEnd},
	{"G3/every error is classified", []Lever{Network}, errorsClassified},
	{"O1/a session lives for its ttl after open", nil, func(e *env) { lifetime(e, e.connect(), false) }},
	{"O1/a session lives for its ttl after a renewal", nil, func(e *env) { lifetime(e, e.connect(), true) }},
	{"O1/an external session lives for its ttl after open", []Lever{External}, externalLifetime},
	{"O1/a renewed session stays alive", nil, renewedLives},
	{"O2/a ttl that is not granted is refused", []Lever{OddTTL}, oddTTL},
	{"O3,TTL/sessions have new ids and the requested ttl", nil, idsDiffer},
	{"O4/an open whose reply was lost leaves nothing", []Lever{Network, Sessions}, lostOpen},
	{"R1/a renewal without the service fails", []Lever{Network}, renewNeedsService},
	{"R2/an ended session stays ended", []Lever{Expire}, endedStaysEnded},
	{"R2/a closed session stays closed", nil, closedStaysClosed},
	{"Done/is closed after the session ends", []Lever{Expire}, doneCloses},
}

// callsEnd: client libraries that queue requests or wait for a connection tend
// to miss the end of a context.
func callsEnd(e *env) {
	c, queue := e.connect(), e.queue()
	s := e.openUnrenewed(c)
	first, own := e.join(e.open(), queue), e.join(s, queue)
	cut(c.Link)
	calls := append(e.calls(s, queue, own, first), call{"Open", nil, func(ctx context.Context) error {
		return errOf(c.Driver.Open(ctx, e.TTL))
	}})
	var running []*outcome
	for _, x := range calls {
		running = append(running, e.start(func() error { return x.do(e.in(e.Settle)) }))
	}
	for i, o := range running {
		_ = e.ends(o, e.Settle+e.Patience, calls[i].name+" with a context that ended")
	}
	for i, end := range []request{s.Close, c.Driver.Close} {
		o := e.start(func() error { return end(e.in(e.Settle)) })
		what := []string{"Session", "Driver"}[i] + ".Close with a context that ended"
		_ = e.ends(o, e.Settle+e.Patience, what)
	}
}

// errorsClassified checks the errors of calls whose context ends or connection
// breaks. Other cases check those of refusals.
func errorsClassified(e *env) {
	c, queue := e.connect(), e.queue()
	s := e.openOn(c)
	first, own := e.join(e.open(), queue), e.join(s, queue)
	dead, cancel := context.WithCancel(e.ctx)
	cancel()
	calls := e.calls(s, queue, own, first)
	for _, x := range calls {
		if err := x.do(dead); err != nil {
			e.classified(dead, err, x.name+" with a context that had ended")
		}
	}
	c.Link.HoldRequests()
	short := e.in(e.Settle)
	e.classified(short, s.Renew(short), "Renew that timed out")
	var running []*outcome
	for _, x := range calls {
		running = append(running, e.start(func() error { return x.do(e.in(3 * e.Settle)) }))
	}
	e.settle()
	resetAndHeal(c.Link)
	for i, o := range running {
		err := e.ends(o, 3*e.Settle+e.Patience, calls[i].name+" over a broken connection")
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			e.classified(e.ctx, err, calls[i].name+" over a broken connection")
		}
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

// lifetime cuts off a session that is not renewed after its opening, or after
// one renewal; the cut also stops clients that ping on their own. A list
// without its entry shows that the session is over.
func lifetime(e *env, c Client, renew bool) {
	observer, queue := e.open(), e.queue()
	began := time.Now()
	s := e.openUnrenewed(c)
	own := e.join(s, queue)
	ended := time.Now()
	e.awaitQueue(observer, queue, own.Place.ID) // from now on its absence means the end
	if renew {
		time.Sleep(e.TTL / 2)
		began = time.Now()
		e.ok(s.Renew(e.soon()), "Renew")
		ended = time.Now()
	}
	if e.has(Network) {
		cut(c.Link)
	}
	gone := e.empties(observer, queue, ended.Add(e.TTL))
	if lived := gone.Sub(began); lived < e.TTL-s.Slack() {
		e.fail(fmt.Sprintf("at least the ttl of %v less the slack of %v", e.TTL, s.Slack()),
			"the entry was gone after %v", lived)
	}
}

// externalLifetime opens a session when half of the external one's time to live
// has passed: the engine's deadline counts from the Open.
func externalLifetime(e *env) {
	c := e.connect()
	d, err := c.External(e.soon())
	e.ok(err, "External of the harness")
	external := Client{Driver: d, Link: c.Link}
	e.clients = append(e.clients, external)
	time.Sleep(e.TTL / 2)
	lifetime(e, external, false)
}

// empties returns the time of the first empty list, which must be soon after
// the end of the ttl.
func (e *env) empties(observer session, queue driver.Queue, end time.Time) time.Time {
	e.within(time.Until(end)+e.Patience, "the session ends soon after its ttl",
		func() bool { return len(e.list(observer, queue)) == 0 })
	return time.Now()
}

func renewedLives(e *env) {
	observer, s, queue := e.open(), e.open(), e.queue()
	own := e.join(s, queue)
	e.awaitQueue(observer, queue, own.Place.ID)
	for end := time.Now().Add(2*e.TTL + e.TTL/2); time.Now().Before(end); time.Sleep(e.TTL / 8) {
		e.same(e.queued(observer, queue), []string{own.Place.ID},
			"the queue has the renewed session's entry:")
	}
}

// oddTTL: a silently rounded ttl would move the moment at which holders must
// stop. Services return the granted ttl only with the opened session.
func oddTTL(e *env) {
	c := e.connect()
	e.openOn(c)
	e.settle() // until the service counts it
	before := e.sessions()
	_, err := c.Driver.Open(e.soon(), e.OddTTL)
	e.is(err, "Open", driver.ErrInvalid)
	// At once: later the session ends with its ttl. Sessions of earlier cases
	// may end meanwhile.
	if now := e.sessions(); now > before {
		e.fail(fmt.Sprintf("%d sessions as before", before),
			"%d sessions after the refused Open", now)
	}
	for _, d := range []time.Duration{e.OddTTL, e.GrantedTTL} {
		if !strings.Contains(err.Error(), d.String()) {
			e.fail(fmt.Sprintf("both values, %v and %v, in the error", e.OddTTL, e.GrantedTTL),
				"Open: %v", err)
		}
	}
}

func idsDiffer(e *env) {
	seen := map[string]bool{}
	for range 2 {
		c := e.connect()
		for range 3 {
			s := e.openOn(c)
			if id := s.ID(); seen[id] || id == "" || strings.Trim(id, "0123456789abcdef") != "" {
				e.fail("a new ID in lower-case hex for each session", "session ID %q after %v", id,
					seen)
			}
			seen[s.ID()] = true
			if s.TTL() != e.TTL { // the engine computes its deadline from it
				e.fail(e.TTL.String(), "TTL() of a session opened with %v is %v", e.TTL, s.TTL())
			}
			e.closes(s) // its ID must not be used again
		}
	}
}

// lostOpen: the service has opened a session that its client does not know.
func lostOpen(e *env) {
	c := e.connect()
	e.openOn(c)
	before := e.sessions()
	c.Link.HoldReplies()
	if _, err := c.Driver.Open(e.in(e.Settle), e.TTL); err == nil {
		e.fail("an error", "Open succeeded without a reply")
	}
	c.Link.Heal()
	e.within(e.TTL+e.Patience, fmt.Sprintf("%d sessions as before, soon after the ttl", before),
		func() bool { return e.sessions() <= before })
}

// renewNeedsService: a renewal that the client answers by itself would keep a
// holder whose session the service has ended.
func renewNeedsService(e *env) {
	c := e.connect()
	s := e.openUnrenewed(c)
	e.ok(s.Renew(e.soon()), "Renew")
	for what, hold := range map[string]func(){"request": c.Link.HoldRequests,
		"reply": c.Link.HoldReplies} {
		hold()
		if err := s.Renew(e.in(e.Settle)); err == nil {
			e.fail("an error", "Renew succeeded although its %s did not pass", what)
		}
		c.Link.Heal()
		e.ok(e.again(s.Renew), "Renew after healing")
	}
}

// endedStaysEnded: some client libraries silently open a new session. It must
// not answer calls of the old one.
func endedStaysEnded(e *env) {
	c, other, queue := e.connect(), e.open(), e.queue()
	s := e.openOn(c)
	first, own := e.join(other, queue), e.join(s, queue)
	e.expire(s)
	e.lost(s)
	e.dead(s, queue, own, first)
	e.openOn(c)
	e.dead(s, queue, own, first)
	e.awaitQueue(other, queue, first.Place.ID)
}

// closedStaysClosed: the connection may stay open for other sessions.
func closedStaysClosed(e *env) {
	d := e.pair()
	e.ok(d.behind.Close(e.soon()), "Close")
	e.dead(d.behind, d.queue, d.second, d.first)
	e.awaitQueue(d.ahead, d.queue, d.first.Place.ID)
}

func (e *env) dead(s session, queue driver.Queue, own, other driver.Joined) {
	for _, x := range e.calls(s, queue, own, other) {
		ctx := e.soon()
		err := x.do(ctx)
		if err == nil {
			e.fail("an error", "%s succeeded on a session that is over", x.name)
		}
		e.classified(ctx, err, x.name+" on a session that is over")
	}
}

func doneCloses(e *env) {
	s := e.open()
	if closed(s.Done()) {
		e.fail("an open channel", "Done of a live session is closed")
	}
	e.expire(s)
	e.lost(s)
	e.eventually("Done is closed after Renew returned ErrSessionLost",
		func() bool { return closed(s.Done()) })
}
