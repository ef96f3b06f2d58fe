package semaphore_test

// look is one view of a contender, and what it does next.
func (m *model) look(w *world, i, r int) {
	c := &w.who[i]
	if c.lost { // First comes with the second reply: it must not count
		c.lost = false
		if m.lateFirst && w.past[0].sum(i) == 0 {
			m.admit(w, i, true, w.past[0])
			return
		}
	}
	seen := w.past[r]
	v := m.rule(w, seen, i, c.moved() && !m.noBehind)
	last := !seen.behind(i) && (!c.moved() || m.movedIsLast)
	verify := c.slept && !m.noVerify && (!m.trustRecord || !c.record)
	c.floor = min(c.floor, int8(r)) // the next view is no older
	switch {
	case v.admitted && verify:
		c.phase, c.last, c.record = reading, last, false
		return
	case v.admitted:
		m.admit(w, i, last, seen)
		return
	}
	c.phase, c.watch, c.record, c.slept = sleeping, v.watch, v.record, true
	for j := range w.who {
		if v.watch&(1<<j) != 0 && seen[j] != w.past[0][j] { // it has gone: there is no sleep
			w.wake(i, w.version)
			c.floor = 0
			return
		}
	}
}

// read is the last look at the record before a contender is admitted. It may show any since that contender was woken.
func (m *model) read(w *world, i int, version int8) {
	c := &w.who[i]
	before, last := c.mine, c.last
	c.phase, c.slept, c.last = looking, false, false
	seen := w.past[c.floor]
	m.learn(w, i, version)
	switch {
	case c.phase == gone:
	case c.mine == before:
		m.admit(w, i, last, seen)
	case m.oldView && m.rule(w, seen, i, false).admitted:
		m.admit(w, i, false, seen)
	}
}

// admit checks everything that a grant must be. seen is the view that it comes from.
func (m *model) admit(w *world, i int, last bool, seen moment) {
	m.grants++
	c := &w.who[i]
	mine := w.limits[c.mine]
	if c.mine < c.since {
		m.fail("contender %d was admitted by a limit of %d, which was changed before it was woken", i, mine)
	}
	if ahead := w.past[0].sum(i); ahead+c.n > mine {
		m.fail("contender %d was admitted for %d of %d with %d ahead", i, c.n, mine, ahead)
	}
	held, young := c.n, int8(0)
	for j := range w.who {
		if j == i || w.who[j].phase != holding {
			continue
		}
		n := w.past[0][j].n()
		// The exception: it goes by another record than it came by, and does not count whoever is behind it, came by
		// the same one, and did not say, in what it saw, that it holds.
		if held += n; j > i && c.moved() && seen[j] >= 0 && w.who[j].joined == c.joined {
			young += n
		}
	}
	if most := w.most(c.since); held > most {
		if m.spared++; held-young > most {
			m.fail("%d are held, of which %d are excepted, when contender %d is admitted by a limit of %d", held, young, i, mine)
		}
	}
	n := c.n
	*c = one{phase: holding, joined: c.joined, late: c.moved()} // what it knew does not matter any more
	if !last && !m.noMark {
		c.marks[0] = mark(-n)
	}
}
