package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

var generalCases = []testCase{
	{name: "G1/many goroutines share sessions and a line", body: manyGoroutines},
	{name: "G2/calls end with their context while nothing passes", needs: []Lever{Hold}, body: callsEnd},
	{name: "G3/every error is classified", needs: []Lever{Hold, Reset}, body: errorsClassified},
	{name: "Line/similar names do not see each other", body: similarNames},
	{name: "Mode/every view shows it", body: modeShown},
	{name: "Key/is never used for another entry", body: keyUnique},
}

// contest is a plain mutex over one line, as the recipes do it.
type contest struct {
	e      *env
	line   driver.Line
	inside atomic.Int32
	last   atomic.Int64
}

// take joins, waits for its turn and leaves.
func (c *contest) take(s driver.Session) error {
	own, err := s.Join(c.e.soon(), c.line, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for {
		places, err := s.Ahead(c.e.soon(), c.line, own.Place)
		if err != nil {
			return fmt.Errorf("Ahead: %w", err)
		}
		if len(places) == 0 {
			break
		}
		err = c.e.again(func(ctx context.Context) error {
			return s.Watch(ctx, c.line, places[len(places)-1])
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
func manyGoroutines(e *env) {
	shared := e.connect()
	sessions := []driver.Session{e.openOn(shared), e.openOn(shared), e.open()}
	c := &contest{e: e, line: e.line()}
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
		{"List", func(ctx context.Context) error { _, err := s.List(ctx, line, 0); return err }},
		{"Forget", func(ctx context.Context) error { return s.Forget(ctx, line, newID()) }},
		{"Leave", func(ctx context.Context) error { return s.Leave(ctx, line, own.Place) }},
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
	_, err = s.Ahead(e.soon(), line, own.Place)
	e.classified(e.ctx, err, "Ahead of a place that was left")
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
	}
}

// classified checks clause G3 for the error of a call with ctx.
func (e *env) classified(ctx context.Context, err error, what string) {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return
	}
	e.is(err, what, driver.ErrUnavailable, driver.ErrSessionLost, driver.ErrGone,
		driver.ErrTaken, driver.ErrRefused, driver.ErrInvalid)
}
