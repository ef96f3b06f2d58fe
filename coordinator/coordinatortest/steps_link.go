package coordinatortest

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// lostReply runs a call whose request is applied and whose reply is lost with the connection. applied
// says when the service has done it.
func (e *env) lostReply(c Client, call func(ctx context.Context) error, applied func() bool) {
	c.Link.HoldReplies()
	o := e.start(func() error { return call(e.soon()) })
	e.eventually("the request is applied while its reply is held", applied)
	e.waits(o, "HoldReplies")
	c.Link.Reset()
	c.Link.Heal()
	_ = e.ends(o, e.Patience, "a call whose connection broke")
}

// lostJoin joins behind another, with a reply that is lost. It returns the one who stays. Without that one the
// line need not exist, and a driver may have to make it first: then the lost reply is not that of the join.
func (e *env) lostJoin(c Client, s, seer session, line driver.Line, x driver.Contender) (stays string) {
	stays = e.join(seer, line).Place.ID
	e.acquaint(s, line)
	e.lostReply(c,
		func(ctx context.Context) error { _, err := s.Join(ctx, line, x); return err },
		func() bool { return len(e.list(seer, line)) == 2 })
	return stays
}

// acquaint lets a session see that somebody is in a line. A driver may send another request to join one of which it does not
// know that, and a second one when the first is refused.
func (e *env) acquaint(s session, line driver.Line) {
	e.leave(s, line, e.join(s, line).Place)
}

// strand runs calls whose requests stay on the wire of a connection that the client has lost. For a Join
// somebody must stand in the line, see lostJoin.
func (e *env) strand(c Client, calls ...func(ctx context.Context) error) {
	c.Link.HoldRequests()
	var running []*outcome
	for _, call := range calls {
		running = append(running, e.start(func() error { return call(e.soon()) }))
	}
	e.settle()
	for _, o := range running {
		e.waits(o, "HoldRequests")
	}
	c.Link.Strand()
	for _, o := range running {
		_ = e.ends(o, e.Patience, "a call whose connection broke")
	}
}

// waits makes sure that a lever held a call up: else the case would check nothing.
func (e *env) waits(o *outcome, lever string) {
	select {
	case <-o.done:
		e.fail("the harness holds the call up", "the call returned %v in spite of %s", o.err, lever)
	default:
	}
}
