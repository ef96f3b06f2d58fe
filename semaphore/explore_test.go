package semaphore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// step is something that can happen next.
type step struct {
	what string
	i, x int
}

func (s step) String() string { return fmt.Sprintf("%s %d %d", s.what, s.i, s.x) }

// inner are the steps that happen by themselves, sooner or later.
func (m *model) inner(w *world, steps []step) []step {
	for i := range w.who {
		switch c := &w.who[i]; {
		case c.phase == looking:
			for r := range c.floor + 1 {
				steps = append(steps, step{"look", i, int(r)})
			}
		case c.phase == reading:
			for v := max(c.mine, c.since); v <= w.version; v++ {
				steps = append(steps, step{"read", i, int(v)})
			}
		case c.phase == holding && c.marks[0] != 0:
			steps = append(steps, step{"mark", i, 0})
		}
		if c := &w.who[i]; c.record && (c.phase == looking || c.phase == sleeping) {
			for v := c.mine + 1; v <= w.version; v++ {
				steps = append(steps, step{"told", i, int(v)})
			}
		}
	}
	return steps
}

// settling are those that happen when a hold lasts.
func (m *model) settling(w *world, steps []step) []step {
	for i := range w.who {
		if w.who[i].phase == holding && w.who[i].marks[0] == 0 && w.past[0][i] > 0 && !m.noSettle {
			steps = append(steps, step{"settle", i, 0})
		}
	}
	return steps
}

// outer are those that users, operators and faults decide about.
func (m *model) outer(w *world, most int8, steps []step) []step {
	joining := false
	for i := range w.who {
		c := &w.who[i]
		switch c.phase {
		case outside:
			if !joining && c.n > 0 {
				steps = append(steps, step{"join", i, 0})
				if w.drops > 0 {
					steps = append(steps, step{"lost join", i, 0})
				}
			}
			joining = true
			continue
		case gone:
			continue
		case holding:
			if w.parts > 0 && w.left(i) > 1 && c.marks[1] == 0 {
				steps = append(steps, step{"part", i, 0})
			}
		}
		steps = append(steps, step{"leave", i, 0})
	}
	for l := int8(1); l <= most && w.moves > 0; l++ {
		if l != w.limit() {
			steps = append(steps, step{"limit", 0, int(l)})
		}
	}
	return steps
}

// left is what a holder has when all its conversions are done.
func (w *world) left(i int) int8 {
	k := w.past[0][i]
	for _, mark := range w.who[i].marks {
		if mark != 0 {
			k = mark
		}
	}
	return k.n()
}

func (m *model) do(w *world, s step) {
	c := &w.who[s.i]
	switch s.what {
	case "look":
		m.look(w, s.i, s.x)
	case "read":
		m.read(w, s.i, int8(s.x))
	case "told":
		m.told(w, s.i, int8(s.x))
	case "mark":
		to := c.marks[0]
		c.marks = [2]mark{c.marks[1], 0}
		m.change(w, s.i, to)
	case "settle":
		c.marks[0] = mark(-w.past[0][s.i].n())
	case "part":
		k := 0
		if c.marks[0] != 0 {
			k = 1
		}
		c.marks[k] = mark(1 - w.left(s.i))
		w.parts--
	case "join", "lost join":
		m.join(w, s.i, s.what != "join")
	case "leave":
		m.leave(w, s.i)
	case "limit":
		w.set(int8(s.x))
	}
}

// checkRest is for a world in which nothing happens by itself any more: the first who waits does not fit.
func (m *model) checkRest(w *world) {
	for i := range w.who {
		if c := &w.who[i]; c.phase == sleeping {
			if others := w.past[0].sum(i) + w.past[0].held(i); others+c.n <= w.limit() {
				m.fail("contender %d sleeps and would have %d of %d beside %d", i, c.n, w.limit(), others)
			}
			return
		}
	}
}

// checkWakes lets each holder leave a world at rest, and counts whom that wakes.
func (m *model) checkWakes(w *world) {
	for i := range w.who {
		if w.who[i].phase != holding {
			continue
		}
		after := *w
		m.wakes, m.grants = 0, 0
		m.leave(&after, i)
		for {
			steps := m.inner(&after, nil)
			if len(steps) == 0 {
				break
			}
			m.do(&after, steps[0])
		}
		if m.wakes > m.grants+1 {
			m.fail("when %d leaves, %d are woken and %d admitted", i, m.wakes, m.grants)
		}
	}
}

// rest checks what must hold when nothing is under way. Whoever is admitted says so at once if it
// matters, so there is no waiting for a hold to settle, unless the limit was changed since.
func (m *model) rest(w *world, moved bool) {
	if len(m.inner(w, nil)) > 0 || w.version > 0 && slices.ContainsFunc(m.settling(w, nil), func(s step) bool { return !w.who[s.i].late }) {
		return
	}
	m.checkRest(w)
	if !moved && len(m.settling(w, nil)) == 0 && m.flaw == (flaw{}) {
		m.checkWakes(w)
	}
}

// explore walks through every world that can follow from one, and returns how many there are.
func (m *model) explore(start world, most int8) (int, []step) {
	seen := map[world]struct{}{}
	var path []step
	var visit func(w world) bool
	visit = func(w world) bool {
		if _, ok := seen[w]; ok {
			return true
		}
		seen[w] = struct{}{}
		m.rest(&w, w.moves != start.moves)
		steps := m.outer(&w, most, m.settling(&w, m.inner(&w, nil)))
		for _, s := range steps {
			if m.err != nil {
				return false
			}
			next := w
			path = append(path, s)
			m.do(&next, s)
			if m.err != nil || !visit(next) {
				return false
			}
			path = path[:len(path)-1]
		}
		return m.err == nil
	}
	visit(start)
	return len(seen), path
}

// wander takes random steps and returns them.
func (m *model) wander(r *rand.Rand, w world, most int8) []step {
	var path []step
	start := w.moves
	for m.err == nil {
		m.rest(&w, w.moves != start)
		steps := m.settling(&w, m.inner(&w, nil))
		if len(steps) == 0 || r.IntN(3) == 0 {
			steps = m.outer(&w, most, steps)
		}
		if len(steps) == 0 {
			break
		}
		s := steps[r.IntN(len(steps))]
		path = append(path, s)
		m.do(&w, s)
	}
	return path
}
