package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// chainCases pass a line on to its end, as an exclusive recipe does.
var chainCases = []testCase{
	{name: "N1/a line is passed on to its end", body: chained(nil)},
	{name: "N1/a line is passed on past one who gives up", body: chained((*chain).giveUp)},
	{name: "N1/a line is passed on past one who expires", needs: []Lever{Expire}, body: chained((*chain).expire)},
	{name: "N1/a line is passed on past one who is removed", needs: []Lever{Remove}, body: chained((*chain).remove)},
	{name: "N1/a line is passed on past one who is converted", body: chained((*chain).convert)},
	{name: "G1/many goroutines follow, pass on and give up", body: manyFollow},
}

// relay is a line in which everybody follows the one ahead.
type relay struct {
	*env
	line   driver.Line
	inside atomic.Int32
	last   atomic.Int64
}

// turn waits until own is first in line: by a pass to it, or by a look after any other leaving.
func (r *relay) turn(ctx context.Context, s session, own driver.Joined) error {
	for ahead := own.Nearest; !own.First; ahead = (driver.Place{}) {
		if ahead == (driver.Place{}) {
			v, err := s.Ahead(ctx, r.line, own.Place)
			if err != nil {
				return fmt.Errorf("Ahead: %w", err)
			}
			if len(v.Ahead) == 0 {
				break
			}
			ahead = v.Ahead[len(v.Ahead)-1]
		}
		passed, err := s.Follow(ctx, r.line, own.Place, ahead)
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return fmt.Errorf("Follow: %w", err)
		}
		if err == nil && passed {
			break
		}
	}
	if n := r.inside.Add(1); n != 1 {
		return fmt.Errorf("%d contenders are first at once", n)
	}
	if before := r.last.Swap(int64(own.Token)); before >= int64(own.Token) {
		return fmt.Errorf("token %d came after %d", own.Token, before)
	}
	return nil
}

// on passes on.
func (r *relay) on(s session, own driver.Joined) error {
	r.inside.Add(-1)
	if err := s.Pass(r.soon(), r.line, own.Place); err != nil {
		return fmt.Errorf("Pass: %w", err)
	}
	return nil
}

// chain is a relay of five contenders. The one in the middle has a session of its own.
type chain struct {
	relay
	all [5]link
}

type link struct {
	s     session
	own   driver.Joined
	turn  *outcome
	leave context.CancelFunc // ends the wait
}

const middle = 2

// chained lets something happen to the one in the middle while all wait, and passes the line on to its end.
func chained(happen func(c *chain)) func(e *env) {
	return func(e *env) {
		c := &chain{relay: relay{env: e, line: e.line()}}
		a, b, own := e.open(), e.open(), e.open()
		for i, s := range []session{a, b, own, a, b} {
			c.all[i].s, c.all[i].own = s, e.joinBehind(s, c.line)
			c.wait(i)
		}
		e.settle()
		if happen != nil {
			happen(c)
		}
		e.settle()
		for i := range c.all {
			if l := &c.all[i]; l.turn != nil {
				e.ok(e.ends(l.turn, e.Patience, "the wait of one to whom all ahead have passed"), fmt.Sprintf("the wait of number %d", i+1))
				e.settle() // for those to whom nobody has passed
				e.ok(c.on(l.s, l.own), fmt.Sprintf("number %d", i+1))
			}
		}
		e.alone(c.line)
	}
}

func (c *chain) wait(i int) {
	l := &c.all[i]
	ctx, cancel := context.WithCancel(c.ctx)
	l.leave, l.turn = cancel, c.start(func() error { return c.turn(ctx, l.s, l.own) })
}

// out makes sure that the one in the middle waits no more.
func (c *chain) out(want ...error) *link {
	l := &c.all[middle]
	c.is(c.ends(l.turn, c.Patience, "the wait of one who is out"), "the wait of one who is out", want...)
	l.turn = nil
	return l
}

func (c *chain) giveUp() {
	c.all[middle].leave()
	l := c.out(context.Canceled)
	c.leave(l.s, c.line, l.own.Place)
}

func (c *chain) expire() {
	c.ok(c.svc.Expire(c.soon(), c.all[middle].s), "Expire of the harness")
	c.out(driver.ErrSessionLost, driver.ErrGone)
}

func (c *chain) remove() {
	c.ok(c.svc.Remove(c.soon(), c.line, c.all[middle].own.Place), "Remove of the harness")
	c.all[middle].leave() // it need not notice by itself
	c.out(context.Canceled, driver.ErrGone, driver.ErrSessionLost)
}

// convert: it stays in line, and waits on with its new place.
func (c *chain) convert() {
	c.all[middle].leave()
	l := c.out(context.Canceled)
	l.own = c.env.convert(l.s, c.line, l.own, "r", "")
	l.own.Nearest = driver.Place{}
	c.wait(middle)
}

// manyFollow: whoever takes a leaving for a pass that is none comes in while another is there.
func manyFollow(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	r := &relay{env: e, line: e.line()}
	var running []*outcome
	for i := range 18 {
		s := sessions[i%len(sessions)]
		running = append(running, e.start(func() error {
			for round := range 4 {
				if err := r.take(s, (i+round)%3 == 0); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "a goroutine that follows and passes on"), "a goroutine that follows and passes on")
	}
	e.alone(r.line)
}

// take joins, waits for its turn, unless it has no patience, and passes on.
func (r *relay) take(s session, impatient bool) error {
	c := contender()
	c.Follows = true
	own, err := s.Join(r.soon(), r.line, c)
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	ctx := r.in(3 * r.Patience)
	if impatient {
		ctx = r.in(time.Duration(rand.Int64N(int64(r.Settle / 5))))
	}
	switch err := r.turn(ctx, s, own); {
	case err == nil:
		sleep(r.ctx, r.Settle/100)
		return r.on(s, own)
	case ctx.Err() != nil && r.ctx.Err() == nil:
		return s.Leave(r.soon(), r.line, own.Place)
	default:
		return err
	}
}
