package coordinatortest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// join lets a new contender join.
func (e *env) join(s session, line driver.Line) driver.Joined {
	return e.joinAs(s, line, contender())
}

func (e *env) joinAs(s session, line driver.Line, c driver.Contender) driver.Joined {
	j, err := s.Join(e.soon(), line, c)
	e.ok(err, "Join")
	return j
}

// leave leaves, which must succeed.
func (e *env) leave(s session, line driver.Line, p driver.Place) {
	e.ok(s.Leave(e.soon(), line, p), "Leave")
}

// ahead returns the IDs ahead of a place.
func (e *env) ahead(s session, line driver.Line, own driver.Place) []string {
	return ids(e.view(s, line, own).Ahead)
}

func (e *env) view(s session, line driver.Line, own driver.Place) driver.View {
	view, err := s.Ahead(e.soon(), line, own)
	e.ok(err, "Ahead")
	return view
}

// list returns all entries.
func (e *env) list(s session, line driver.Line) []driver.Entry {
	entries, err := s.List(e.soon(), line, 0)
	e.ok(err, "List")
	return entries
}

// standing returns the IDs of a line in order.
func (e *env) standing(s session, line driver.Line) []string {
	return entryIDs(e.list(s, line))
}

// stands waits until a line, seen by any session, has exactly these contenders in this order. It
// waits because no clause makes one session's view as new as another's writes.
func (e *env) stands(s session, line driver.Line, want ...string) {
	var got []string
	for end := time.Now().Add(e.Patience); ; time.Sleep(e.Settle / 20) {
		if got = e.standing(s, line); slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			e.fail("contenders "+sprint(want), "after %v the line has %s", e.Patience, sprint(got))
		}
	}
}

// keeps checks that a line has exactly these contenders after things have settled.
func (e *env) keeps(s session, line driver.Line, want ...string) {
	e.settle()
	if got := e.standing(s, line); !slices.Equal(got, want) {
		e.fail("contenders "+sprint(want), "the line has %s", sprint(got))
	}
}

// same fails unless two lists of IDs are equal.
func (e *env) same(got, want []string, what string) {
	if !slices.Equal(got, want) {
		e.fail(what+" "+sprint(want), "%s", sprint(got))
	}
}

// lost waits until the session has been told that it is over.
func (e *env) lost(s session) {
	err := e.again(func(ctx context.Context) error {
		err := s.Renew(ctx)
		if err == nil {
			e.fail("ErrSessionLost", "Renew of an ended session succeeded")
		}
		return err
	})
	e.is(err, "Renew of an ended session", driver.ErrSessionLost)
}

// outcome is a call that runs on its own.
type outcome struct {
	done chan struct{}
	err  error
}

// start runs a call in a goroutine of the case.
func (e *env) start(call func() error) *outcome {
	o := &outcome{done: make(chan struct{})}
	e.group.spawn(func() {
		defer close(o.done)
		defer func() {
			switch p := recover().(type) {
			case nil:
			case lacking:
				e.lacks.Store(&p)
			default:
				panic(p)
			}
		}()
		o.err = call()
	})
	return o
}

// ends waits for a call that must end within d.
func (e *env) ends(o *outcome, d time.Duration, what string) error {
	select {
	case <-o.done:
	case <-time.After(d):
		e.fail(what+" ends", "%s was still waiting after %v", what, d)
	}
	return o.err
}

// watch starts a Watch and lets it reach the service. It goes on while the service is unavailable, as
// clause W4 wants package coordinator to do.
func (e *env) watch(s session, line driver.Line, places ...driver.Place) *outcome {
	o := e.start(func() error {
		for {
			err := s.Watch(e.ctx, line, places...)
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				return err
			}
		}
	})
	e.settle()
	return o
}

// quiet fails if the watch ends although nothing has happened to its places.
func (e *env) quiet(w *outcome, while string) {
	e.settle()
	e.waiting(w, "Watch", while)
}

// waiting fails if a call has returned that has to wait.
func (e *env) waiting(o *outcome, what, while string) {
	select {
	case <-o.done:
		e.fail(what+" goes on waiting", "%s returned %v after %s", what, o.err, while)
	default:
	}
}

// fires waits for the watch to report a leaving.
func (e *env) fires(w *outcome, after string) {
	if err := e.ends(w, e.Patience, "Watch after "+after); err != nil {
		e.fail("nil", "Watch after %s: %v", after, err)
	}
}

func ids(places []driver.Place) []string {
	all := []string{}
	for _, p := range places {
		all = append(all, p.ID)
	}
	return all
}

func entryIDs(entries []driver.Entry) []string {
	all := []string{}
	for _, x := range entries {
		all = append(all, x.ID)
	}
	return all
}

// sprint shortens IDs, which are long and random, for messages.
func sprint(list []string) string {
	short := make([]byte, 0, 64)
	for i, id := range list {
		if i == 8 {
			short = append(short, " ..."...)
			break
		}
		if i > 0 {
			short = append(short, ' ')
		}
		short = append(short, id[:min(6, len(id))]...)
	}
	return "[" + string(short) + "]"
}
