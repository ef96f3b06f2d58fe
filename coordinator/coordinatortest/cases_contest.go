package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

// contestCases have many goroutines on three sessions use one queue as recipes do.
var contestCases = []testCase{
	{name: "G1/many goroutines share sessions and a queue", body: func(e *env) { manyGoroutines(e, leaves) }},
	{
		name: "G1/many goroutines share a queue and convert while they wait", needs: []Lever{Converter},
		body: func(e *env) { manyGoroutines(e, leaves, "r", "x") },
	},
	{
		name: "G1/many goroutines follow, pass on and give up", needs: passes.needs,
		body: func(e *env) { manyGoroutines(e, passes) },
	},
	{
		name: "G1/many goroutines convert, write and count in a record", needs: []Lever{Converter, Writer, HeadWatcher},
		body: manyWriters,
	},
}

// contest is a plain mutex over one queue.
type contest struct {
	*env
	queue  driver.Queue
	by     deed     // by which the holder releases
	modes  []string // to which each is converted while it waits
	inside atomic.Int32
	last   atomic.Int64
}

// manyGoroutines: whatever is not safe for many callers, or wrong about who is
// ahead, lets two in at once or leaves one waiting.
func manyGoroutines(e *env, by deed, modes ...string) {
	sessions := e.three()
	c := &contest{env: e, queue: e.queue(), by: by, modes: modes}
	e.crowd(24, "a goroutine that joins, waits and leaves", func(i int) error {
		for round := range 3 {
			if err := c.take(sessions[i%len(sessions)], by.follows && (i+round)%3 == 0); err != nil {
				return err
			}
		}
		return nil
	})
	e.stands(sessions[0], c.queue)
}

// take joins, waits for its turn, unless it has no patience, and leaves.
func (c *contest) take(s session, impatient bool) error {
	x := contender()
	x.Follows = c.by.follows
	own, err := s.Join(c.soon(), c.queue, x)
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range c.modes {
		if own.Place, err = s.Convert(c.soon(), c.queue, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
	}
	ctx := c.in(3 * c.Patience)
	if impatient {
		ctx = c.in(random(c.Settle / 5))
	}
	if err := c.turn(ctx, s, own); err != nil {
		if ctx.Err() != nil && c.ctx.Err() == nil {
			return s.Leave(c.soon(), c.queue, own.Place)
		}
		return err
	}
	if n := c.inside.Add(1); n != 1 {
		return fmt.Errorf("%d contenders are first at once", n)
	}
	if before := c.last.Swap(int64(own.Token)); before >= int64(own.Token) {
		return fmt.Errorf("token %d was admitted after %d", own.Token, before)
	}
	runtime.Gosched()
	if c.by.follows {
		sleep(c.ctx, c.Settle/100)
	}
	c.inside.Add(-1)
	if err := c.by.call(c.soon(), s, c.queue, own); err != nil {
		return fmt.Errorf("%s: %w", c.by.name, err)
	}
	return nil
}

// turn waits until own is first in the queue: by a pass to it, or by a look after
// any other leaving.
func (c *contest) turn(ctx context.Context, s session, own driver.Joined) error {
	for ahead := own.Nearest; !own.First; ahead = (driver.Place{}) {
		if ahead == (driver.Place{}) {
			view, err := s.Ahead(ctx, c.queue, own.Place)
			if err != nil {
				return fmt.Errorf("Ahead: %w", err)
			}
			if len(view.Ahead) == 0 {
				return nil
			}
			ahead = view.Ahead[len(view.Ahead)-1]
		}
		var err error
		if c.by.follows {
			own.First, err = s.Follow(ctx, c.queue, own.Place, ahead)
		} else {
			err = s.Watch(ctx, c.queue, ahead)
		}
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return fmt.Errorf("a wait: %w", err)
		}
	}
	return nil
}

// count adds one to the number in a queue's record.
func count(ctx context.Context, s session, queue driver.Queue) error {
	for {
		r, err := s.Record(ctx, queue, driver.Any)
		if err != nil {
			return fmt.Errorf("Record: %w", err)
		}
		n, _ := strconv.Atoi(string(r.Value)) // none is zero
		_, err = s.SetRecord(ctx, queue, []byte(strconv.Itoa(n+1)), r.Version)
		if !errors.Is(err, driver.ErrStale) {
			return err
		}
	}
}

// busy is a contender that changes all it can while it stands in the queue.
func (e *env) busy(s session, queue driver.Queue) error {
	own, err := s.Join(e.soon(), queue, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range []string{"r", "x", "r"} {
		if err := s.Write(e.soon(), queue, own.Place, []byte("in "+own.Place.Mode)); err != nil {
			return fmt.Errorf("Write: %w", err)
		}
		if own.Place, err = s.Convert(e.soon(), queue, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
		head, err := s.Head(e.soon(), queue, driver.Any)
		if err != nil || head.ID == "" {
			return fmt.Errorf("Head while standing in the queue: %+v, %w", head, err)
		}
		if err := count(e.soon(), s, queue); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	return s.Leave(e.soon(), queue, own.Place)
}

// manyWriters: a conversion or write that goes to another's entry ends that
// one's, and two writes over one version lose a count.
func manyWriters(e *env) {
	sessions, queue := e.three(), e.queue()
	e.crowd(9, "a goroutine that changes its entry", func(i int) error {
		return e.busy(sessions[i%len(sessions)], queue)
	})
	e.stands(sessions[0], queue)
	e.eventually("a count of 27", func() bool { return string(e.record(sessions[0], queue).Value) == "27" })
}
