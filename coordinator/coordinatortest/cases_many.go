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

// contest is a plain mutex over one line, as the recipes do it.
type contest struct {
	e      *env
	line   driver.Line
	modes  []string // to which each is converted while it waits
	inside atomic.Int32
	last   atomic.Int64
}

// take joins, waits for its turn and leaves.
func (c *contest) take(s session) error {
	own, err := s.Join(c.e.soon(), c.line, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range c.modes {
		if own.Place, err = s.Convert(c.e.soon(), c.line, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
	}
	for {
		view, err := s.Ahead(c.e.soon(), c.line, own.Place)
		if err != nil {
			return fmt.Errorf("Ahead: %w", err)
		}
		if len(view.Ahead) == 0 {
			break
		}
		err = c.e.again(func(ctx context.Context) error {
			return s.Watch(ctx, c.line, view.Ahead[len(view.Ahead)-1])
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
func manyGoroutines(e *env, modes ...string) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	c := &contest{e: e, line: e.line(), modes: modes}
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

// count adds one to the number in a line's record.
func count(ctx context.Context, s session, line driver.Line) error {
	for {
		r, err := s.Record(ctx, line, driver.Any)
		if err != nil {
			return fmt.Errorf("Record: %w", err)
		}
		n, _ := strconv.Atoi(string(r.Value)) // none is zero
		_, err = s.SetRecord(ctx, line, []byte(strconv.Itoa(n+1)), r.Version)
		if !errors.Is(err, driver.ErrStale) {
			return err
		}
	}
}

// busy is a contender that changes all it can while it stands in the line.
func (e *env) busy(s session, line driver.Line) error {
	own, err := s.Join(e.soon(), line, contender())
	if err != nil {
		return fmt.Errorf("Join: %w", err)
	}
	for _, mode := range []string{"r", "x", "r"} {
		if err := s.Write(e.soon(), line, own.Place, []byte("in "+own.Place.Mode)); err != nil {
			return fmt.Errorf("Write: %w", err)
		}
		if own.Place, err = s.Convert(e.soon(), line, own, mode, nil); err != nil {
			return fmt.Errorf("Convert: %w", err)
		}
		head, err := s.Head(e.soon(), line, driver.Any)
		if err != nil || head.ID == "" {
			return fmt.Errorf("Head while standing in the line: %+v, %w", head, err)
		}
		if err := count(e.soon(), s, line); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	return s.Leave(e.soon(), line, own.Place)
}

// manyWriters: a conversion or write that goes to another's entry ends that one's, and two writes over one version
// lose a count.
func manyWriters(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open()}
	line := e.line()
	var running []*outcome
	for i := range 9 {
		running = append(running, e.start(func() error { return e.busy(sessions[i%len(sessions)], line) }))
	}
	for _, o := range running {
		e.ok(e.ends(o, 3*e.Patience, "a goroutine that changes its entry"), "a goroutine that changes its entry")
	}
	e.stands(sessions[0], line)
	e.eventually("a count of 27", func() bool { return string(e.record(sessions[0], line).Value) == "27" })
}
