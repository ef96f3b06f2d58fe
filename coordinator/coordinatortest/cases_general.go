package coordinatortest

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

var generalCases = []testCase{
	{name: "G1/many goroutines share sessions and a line", body: func(e *env) { manyGoroutines(e) }},
	{name: "G1/many goroutines share a line and convert while they wait", body: func(e *env) { manyGoroutines(e, "r", "x") }},
	{name: "G1/many goroutines convert, write and count in a record", body: manyWriters},
	{name: "G2/calls end with their context while nothing passes", needs: []Lever{Hold}, body: callsEnd},
	{name: "G3/every error is classified", needs: []Lever{Hold, Reset}, body: errorsClassified},
	{name: "Line/similar names do not see each other", body: similarNames},
	{name: "Mode/every view shows it", body: modeShown},
	{name: "Key/is never used for another entry", body: keyUnique},
}

// callsEnd: with both directions held no call can be answered. Clients that queue requests
// without a bound, or wait for a connection, tend to miss the end of their context.
func callsEnd(e *env) {
	c := e.connect()
	s := e.openUntended(c)
	line := e.line()
	first := e.join(e.open(), line)
	own := e.join(s, line)
	c.Link.HoldRequests()
	c.Link.HoldReplies()
	calls := []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"Driver.Open", func(ctx context.Context) error { _, err := c.Driver.Open(ctx, e.TTL); return err }},
		{"Renew", s.Renew},
		{"Join", func(ctx context.Context) error { _, err := s.Join(ctx, line, contender()); return err }},
		{"Ahead", func(ctx context.Context) error { _, err := s.Ahead(ctx, line, own.Place); return err }},
		{"Watch", func(ctx context.Context) error { return s.Watch(ctx, line, first.Place) }},
		{"Follow", func(ctx context.Context) error {
			_, err := s.Follow(ctx, line, own.Place, first.Place)
			return err
		}},
		{"Convert", func(ctx context.Context) error { _, err := s.Convert(ctx, line, own, "r", nil); return err }},
		{"Write", func(ctx context.Context) error { return s.Write(ctx, line, own.Place, []byte("value")) }},
		{"Head", func(ctx context.Context) error { _, err := s.Head(ctx, line, driver.Any); return err }},
		{"Record", func(ctx context.Context) error { _, err := s.Record(ctx, line, driver.Any); return err }},
		{"SetRecord", func(ctx context.Context) error { _, err := s.SetRecord(ctx, line, []byte("value"), 0); return err }},
		{"List", func(ctx context.Context) error { _, err := s.List(ctx, line, 0); return err }},
		{"Check", func(ctx context.Context) error { return s.Check(ctx, line, own.Place.Key, own.Token) }},
		{"Forget", func(ctx context.Context) error { return s.Forget(ctx, line, newID()) }},
		{"Leave", func(ctx context.Context) error { return s.Leave(ctx, line, own.Place) }},
		{"Pass", func(ctx context.Context) error { return s.Pass(ctx, line, own.Place) }},
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
	line := e.line()
	own := e.join(s, line)
	dead, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := s.Join(dead, line, contender())
	e.classified(dead, err, "Join with a context that had ended")
	taken := contender()
	taken.Alone = true
	_, err = s.Join(e.soon(), line, taken)
	e.classified(e.ctx, err, "Join alone in a taken line")
	e.leave(s, line, own.Place)
	e.classified(e.ctx, s.Leave(e.soon(), line, own.Place), "Leave repeated")
	e.classified(e.ctx, s.Pass(e.soon(), line, own.Place), "Pass of a place that was left")
	_, err = s.Follow(dead, line, own.Place, own.Place)
	e.classified(dead, err, "Follow with a context that had ended")
	_, err = s.Ahead(e.soon(), line, own.Place)
	e.classified(e.ctx, err, "Ahead of a place that was left")
	_, err = s.Convert(e.soon(), line, own, "r", nil)
	e.classified(e.ctx, err, "Convert of a place that was left")
	e.classified(e.ctx, s.Write(e.soon(), line, own.Place, nil), "Write to a place that was left")
	e.classified(e.ctx, s.Check(e.soon(), line, own.Place.Key, own.Token), "Check of a place that was left")
	_, err = s.SetRecord(e.soon(), line, []byte("value"), e.setRecord(s, e.line(), "value", 0))
	e.classified(e.ctx, err, "SetRecord with another version")
	_, err = s.Head(dead, line, driver.Any)
	e.classified(dead, err, "Head with a context that had ended")
	_, err = s.Record(dead, line, driver.Any)
	e.classified(dead, err, "Record with a context that had ended")
	if e.has(OddTTL) {
		_, err = c.Driver.Open(e.soon(), e.OddTTL)
		e.classified(e.ctx, err, "Open with a ttl that is not granted")
	}

	c.Link.HoldRequests()
	short := e.in(e.Settle)
	e.classified(short, s.Renew(short), "Renew that timed out")
	broken := e.start(func() error { return s.Leave(e.soon(), line, own.Place) })
	e.settle()
	c.Link.Reset()
	c.Link.Heal()
	e.classified(e.ctx, e.ends(broken, e.Patience, "Leave over a broken connection"), "Leave over a broken connection")

	if e.has(Expire) {
		e.ok(e.svc.Expire(e.soon(), s), "Expire of the harness")
		_, err = s.Join(e.soon(), line, contender())
		e.classified(e.ctx, err, "Join of an ended session")
		e.classified(e.ctx, s.Renew(e.soon()), "Renew of an ended session")
		e.classified(e.ctx, s.Pass(e.soon(), line, own.Place), "Pass of an ended session")
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
