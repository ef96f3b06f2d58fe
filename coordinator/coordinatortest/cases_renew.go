package coordinatortest

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

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
	line := e.line()
	stands := e.join(other, line)
	own := e.join(s, line)
	e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
	e.lost(s)
	e.dead(s, line, own.Place, stands)
	e.openOn(c) // the client goes on with a new one
	e.dead(s, line, own.Place, stands)
	e.stands(other, line, stands.Place.ID)
}

// closedStaysClosed: the connection may live on for other sessions.
func closedStaysClosed(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	stands := e.join(other, line)
	own := e.join(s, line)
	e.ok(s.Close(e.soon()), "Close")
	e.dead(s, line, own.Place, stands)
	e.stands(other, line, stands.Place.ID)
}

// dead checks that no call succeeds on a session that is over.
func (e *env) dead(s session, line driver.Line, own driver.Place, other driver.Joined) {
	stands, token := other.Place, other.Token
	joined := driver.Joined{Place: own}
	for name, call := range map[string]func(ctx context.Context) error{
		"Renew":           s.Renew,
		"Join":            func(ctx context.Context) error { _, err := s.Join(ctx, line, contender()); return err },
		"Ahead":           func(ctx context.Context) error { _, err := s.Ahead(ctx, line, own); return err },
		"Watch":           func(ctx context.Context) error { return s.Watch(ctx, line, stands) },
		"Follow":          func(ctx context.Context) error { _, err := s.Follow(ctx, line, own, stands); return err },
		"Pass":            func(ctx context.Context) error { return s.Pass(ctx, line, own) },
		"Leave":           func(ctx context.Context) error { return s.Leave(ctx, line, own) },
		"Forget":          func(ctx context.Context) error { return s.Forget(ctx, line, own.ID) },
		"Check":           func(ctx context.Context) error { return s.Check(ctx, line, stands.Key, token) },
		"List":            func(ctx context.Context) error { _, err := s.List(ctx, line, 0); return err },
		"Ahead of nobody": func(ctx context.Context) error { _, err := s.Ahead(ctx, line, nowhere); return err },
		"Convert":         func(ctx context.Context) error { _, err := s.Convert(ctx, line, joined, "r", nil); return err },
		"Write":           func(ctx context.Context) error { return s.Write(ctx, line, own, []byte("dead")) },
		"Head":            func(ctx context.Context) error { _, err := s.Head(ctx, line, driver.Any); return err },
		"Record":          func(ctx context.Context) error { _, err := s.Record(ctx, line, driver.Any); return err },
		"SetRecord": func(ctx context.Context) error {
			_, err := s.SetRecord(ctx, line, []byte("dead"), 0)
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
