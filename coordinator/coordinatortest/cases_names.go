package coordinatortest

import (
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// similarNames joins alone in lines whose names contain, extend, escape or
// spell each other: any that saw another's entry would be refused.
func similarNames(e *env) {
	s, lines := e.open(), similarLines(newID())
	var all []driver.Joined
	for _, line := range lines {
		c := contender()
		c.Alone = true
		j, err := s.Join(e.soon(), line, c)
		e.ok(err, fmt.Sprintf("Join alone in %s, with others in %v", line, lines[:len(all)]))
		all = append(all, j)
	}
	for i, line := range lines {
		e.same(e.standing(s, line), []string{all[i].Place.ID}, "List of "+string(line)+" has")
		e.same(e.ahead(s, line, all[i].Place), []string{}, "Ahead in "+string(line)+" has")
	}
	last := len(lines) - 1
	w := e.watch(s, lines[last], all[last].Place)
	for i, line := range lines[:last] {
		e.leave(s, line, all[i].Place)
	}
	e.quiet(w, "leavings in lines of similar names")
	e.keeps(s, lines[last], all[last].Place.ID)
}

// modeShown: the mode decides who waits for whom, so a view that loses it admits wrongly.
func modeShown(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	var want []driver.Place
	for _, mode := range []string{"x", "r", "p3", "abcdefghijklmnop", "1234567890123456"} {
		c := contender()
		c.Mode = mode
		j := e.joinAs(a, line, c)
		if p := j.Place; p.ID != c.ID || p.Mode != mode || p.Session != a.ID() {
			e.fail(fmt.Sprintf("ID %s, mode %s, session %s", c.ID, mode, a.ID()), "Join returned %+v", p)
		}
		want = append(want, j.Place)
	}
	own := e.join(b, line)
	if view := e.view(b, line, own.Place); !slices.Equal(view.Ahead, want) {
		e.fail(fmt.Sprintf("%+v, as Join returned them", want), "Ahead: %+v", view.Ahead)
	}
	for i, x := range e.list(b, line)[:len(want)] {
		if x.Place != want[i] {
			e.fail(fmt.Sprintf("%+v, as Join returned it", want[i]), "List: %+v", x.Place)
		}
	}
}

// keyUnique: a key that comes back makes a stale Leave delete the entry of somebody else.
func keyUnique(e *env) {
	a, b := e.open(), e.open()
	line, seen := e.line(), map[string]bool{}
	fresh := func(p driver.Place) {
		if seen[p.Key] {
			e.fail("a new key for each entry", "key %q is used again", p.Key)
		}
		seen[p.Key] = true
	}
	for range 3 {
		// The line is empty in between: keys made of counters would repeat.
		one, other := e.join(a, line), e.join(b, line)
		fresh(one.Place)
		fresh(other.Place)
		e.leave(a, line, one.Place)
		e.leave(b, line, other.Place)
		time.Sleep(e.Settle / 20) // services that clean up empty lines get a chance
	}
	// One ID comes back to a line that somebody keeps: keys made of IDs would repeat.
	e.join(b, line)
	for c := contender(); len(seen) < 9; {
		again := e.joinAs(a, line, c)
		fresh(again.Place)
		e.leave(a, line, again.Place)
	}
}
