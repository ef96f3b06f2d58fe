package recipes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// This file walks through all states of a small queue of readers ("r"), writers ("w") and writers that go on as readers ("d"):
// every order of joining, looking, waiting, converting, leaving and giving up, with every view that is as old as the
// contract allows. What the rules and the conversion promise must hold in each.

// phase is what a contender is about to do.
type phase byte

const (
	away phase = iota
	looking
	waiting // for the entry it watches
	holding
	gone
)

// actor is one contender. Entries are known by the contender's number and how often they were converted.
type actor struct {
	program byte // 'r', 'w' or 'd'
	phase   phase
	mode    byte
	joined  int // index into history: what it may be shown begins here
	watched string
}

// state is the queue at all its revisions, and its contenders.
type state struct {
	history []string // each "0w0 1r0": contender, mode, conversions
	actors  []actor
}

func (s state) line() string { return s.history[len(s.history)-1] }

func (s state) key() string {
	b := []byte(strings.Join(s.history, "|"))
	for _, a := range s.actors {
		b = append(b, '#', byte(a.phase), a.mode, byte(a.joined))
		b = append(b, a.watched...)
	}
	return string(b)
}

// next returns a copy with the queue and one actor changed.
func (s state) next(line string, i int, a actor) state {
	n := state{s.history, slices.Clone(s.actors)}
	if line != s.line() {
		n.history = append(slices.Clone(s.history), line)
	}
	n.actors[i] = a
	return n
}

func entries(line string) []string { return strings.Fields(line) }

// without is the queue when a contender has left, and with when its entry was replaced.
func without(line string, i int) string { return with(line, i, "") }

func with(line string, i int, entry string) string {
	all := entries(line)
	for at, e := range all {
		if int(e[0]-'0') == i {
			all[at] = entry
		}
	}
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}

// rule is the verdict for an actor in one view, and the entry that it waits for.
func (a actor) rule(i int, view string) (admitted bool, watch string) {
	var ahead []driver.Place
	for _, e := range entries(view) {
		if int(e[0]-'0') == i {
			break
		}
		ahead = append(ahead, driver.Place{Key: e, ID: e[:1], Mode: e[1:2]})
	}
	rule := recipes.Rule(recipes.Exclusive)
	if a.mode == 'r' {
		rule = recipes.Shared("r")
	}
	v := rule(ahead)
	if v.Admitted {
		return true, ""
	}
	return false, v.Watch[0].Key
}

// steps returns all states that may follow by a step of actor i.
func (s state) steps(i int) (next []state) {
	a := s.actors[i]
	line := s.line()
	switch a.phase {
	case away:
		a.phase, a.mode = looking, a.program
		if a.program == 'd' {
			a.mode = 'w'
		}
		a.joined = len(s.history)
		entry := fmt.Sprintf("%d%c0", i, a.mode)
		return []state{s.next(strings.TrimSpace(line+" "+entry), i, a)}
	case looking:
		for at := a.joined; at < len(s.history); at++ {
			b := a
			b.phase = holding
			if ok, watch := a.rule(i, s.history[at]); !ok {
				b.phase, b.watched = waiting, watch
			}
			next = append(next, s.next(line, i, b))
		}
	case waiting:
		for at := a.joined; at < len(s.history); at++ {
			if !slices.Contains(entries(s.history[at]), a.watched) { // told at the earliest, so that views may be old
				b := a
				b.phase, b.joined, b.watched = looking, at, ""
				next = append(next, s.next(line, i, b))
				break
			}
		}
		a.phase, a.watched = gone, ""
		next = append(next, s.next(without(line, i), i, a))
	case holding:
		if a.program == 'd' && a.mode == 'w' {
			b := a
			b.mode = 'r'
			next = append(next, s.next(with(line, i, fmt.Sprintf("%dr1", i)), i, b))
		}
		a.phase = gone // a writer that goes on as a reader may die before
		next = append(next, s.next(without(line, i), i, a))
	}
	return next
}

// check is what must be true in every state.
func (s state) check() error {
	for i, a := range s.actors {
		if a.phase != holding {
			continue
		}
		for at := a.joined; at < len(s.history); at++ {
			if ok, _ := a.rule(i, s.history[at]); !ok && s.admittedBefore(i, at) {
				return fmt.Errorf("the admission of %d is taken back", i)
			}
		}
		for j, b := range s.actors[:i] {
			if b.phase == holding && (a.mode == 'w' || b.mode == 'w') {
				return fmt.Errorf("%d and %d hold at once", j, i)
			}
		}
	}
	return s.lostWakeup()
}

// lostWakeup: when nobody looks or is told of anything any more, nobody waits who could hold.
func (s state) lostWakeup() (err error) {
	for i, a := range s.actors {
		switch {
		case a.phase == looking, a.phase == waiting && !slices.Contains(entries(s.line()), a.watched):
			return nil
		case a.phase == waiting:
			if ok, _ := a.rule(i, s.line()); ok {
				err = fmt.Errorf("a lost wake-up: %d could hold, and waits", i)
			}
		}
	}
	return err
}

// admittedBefore: some older view than the one at an index admitted actor i already.
func (s state) admittedBefore(i, index int) bool {
	for at := s.actors[i].joined; at < index; at++ {
		if ok, _ := s.actors[i].rule(i, s.history[at]); ok {
			return true
		}
	}
	return false
}

func TestEveryStateOfAShortQueueIsSafeAndGoesOn(t *testing.T) {
	for _, p := range []string{"rdw", "drr", "ddw", "ddd", "wwr"} { // in every order of joining
		t.Run(p, func(t *testing.T) {
			start := state{history: []string{""}}
			for i := range p {
				start.actors = append(start.actors, actor{program: p[i]})
			}
			seen := map[string]bool{}
			todo := []state{start}
			for len(todo) > 0 {
				s := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				key := s.key()
				if seen[key] {
					continue
				}
				seen[key] = true
				if err := s.check(); err != nil {
					t.Fatalf("%v\n%+v", err, s)
				}
				for i := range s.actors {
					todo = append(todo, s.steps(i)...)
				}
			}
			t.Logf("%d states", len(seen))
		})
	}
}
