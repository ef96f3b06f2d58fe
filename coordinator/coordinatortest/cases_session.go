package coordinatortest

import (
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

// untended joins a line with a session that nobody renews, and cuts it off once
// it was opened, or renewed, and seer has seen it. The cut also silences clients that ping on their own. It
// returns when the last acknowledged call began, and when it ended.
func untended(e *env, seer session, renew bool) (s session, line driver.Line, began, ended time.Time) {
	c := e.connect()
	began = time.Now()
	s = e.openUntended(c)
	line = e.line()
	own := e.join(s, line)
	ended = time.Now()
	e.stands(seer, line, own.Place.ID) // only from now on does its absence say anything
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
	return s, line, began, ended
}

// empties returns when a list of the line first came back empty.
func empties(e *env, seer session, line driver.Line, limit time.Time) time.Time {
	for {
		n := len(e.list(seer, line))
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
	s, line, began, ended := untended(e, seer, renew)
	gone := empties(e, seer, line, ended.Add(e.TTL+e.Patience))
	if lived := gone.Sub(began); lived < e.TTL-s.Slack() {
		e.fail(fmt.Sprintf("at least the ttl of %v less the slack of %v", e.TTL, s.Slack()),
			"the entry was gone after %v", lived)
	}
}

// unrenewedEnds: the entries of a dead client must not block others for longer than its
// ttl.
func unrenewedEnds(e *env) {
	seer := e.open()
	_, line, _, ended := untended(e, seer, true)
	empties(e, seer, line, ended.Add(e.TTL+e.Patience))
}

// renewedLives watches the entry through another client: what the session says of itself is
// not asked.
func renewedLives(e *env) {
	seer, s := e.open(), e.open()
	line := e.line()
	own := e.join(s, line)
	e.stands(seer, line, own.Place.ID)
	for end := time.Now().Add(2*e.TTL + e.TTL/2); time.Now().Before(end); time.Sleep(e.TTL / 8) {
		e.same(e.standing(seer, line), []string{own.Place.ID}, "the renewed session's entry stands:")
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
