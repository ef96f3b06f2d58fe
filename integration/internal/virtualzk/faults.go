package virtualzk

import (
	"maps"
	"slices"
	"time"
)

// This file has what an operator does to the ensemble, and its members' faults.

// Sessions returns the live sessions.
func (e *Ensemble) Sessions() []int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessionIDs()
}

// Expire ends a session as an operator would, and reports whether it lived.
func (e *Ensemble) Expire(id int64) (found bool) {
	e.locked(func() {
		if s := e.sessions[id]; s != nil && e.leader != nobody {
			found = true
			e.end(s, ByOperator)
		}
	})
	return found
}

// Delete deletes a node as an operator would, and reports whether it did.
func (e *Ensemble) Delete(path string) (done bool) {
	e.locked(func() {
		r := request{op: opDelete, by: ByOperator, body: appendInt32(appendText(nil, path), -1)}
		done = e.operate(r) == 0
	})
	return done
}

// Create makes a node as an operator would, a container or a plain one, and
// reports whether it did.
func (e *Ensemble) Create(path string, data []byte, container bool) (done bool) {
	op, flags := opCreate, int32(0)
	if container {
		op, flags = opCreateContainer, 4
	}
	e.locked(func() {
		body := appendBytes(appendText(nil, path), data)
		body = appendInt32(appendInt32(body, 1), permAll)
		body = appendInt32(appendText(appendText(body, world.scheme), world.id), flags)
		done = e.operate(request{op: op, by: ByOperator, body: body}) == 0
	})
	return done
}

// Stats are figures of an ensemble.
type Stats struct {
	Sessions, Watches, Nodes int
}

// Stats returns the present figures.
func (e *Ensemble) Stats() (s Stats) {
	e.locked(func() {
		s = Stats{Sessions: len(e.sessions), Nodes: len(e.head.nodes)}
		for _, m := range e.members {
			for _, watching := range m.watches {
				s.Watches += len(watching)
			}
		}
	})
	return s
}

// Watched returns how many watches there are on each node and its children.
func (e *Ensemble) Watched() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]int{}
	for _, m := range e.members {
		for spot, watching := range m.watches {
			all[spot.path] += len(watching)
		}
	}
	return all
}

// Members returns how many members there are.
func (e *Ensemble) Members() int { return len(e.members) }

// Leader returns the leader, or -1.
func (e *Ensemble) Leader() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leader
}

// Shorten has a member grant at most so much to sessions that continue there,
// as with a smaller maxSessionTimeout than the others'. Zero ends that.
func (e *Ensemble) Shorten(member int, most time.Duration) {
	e.locked(func() { e.members[member].short = most })
}

// Lag sets how much later than the leader a member applies transactions.
func (e *Ensemble) Lag(member int, lag time.Duration) {
	e.locked(func() { e.members[member].lag = lag })
}

// Stall has a member apply nothing, or all that it has not applied. Meanwhile
// it answers pings and reads, and passes requests on.
func (e *Ensemble) Stall(member int, stalled bool) {
	e.locked(func() {
		m := e.members[member]
		if m.stalled = stalled; !stalled {
			e.catchUp(m)
		}
	})
}

// catchUp applies what a member has missed.
func (e *Ensemble) catchUp(m *member) {
	for n := m.applied + 1; n <= len(e.log); n++ {
		m.applyTo(n)
	}
}

// Stop stops a member, or all for -1, as kill -9 does. Data stay. Without a
// majority there is no leader, and nobody serves.
func (e *Ensemble) Stop(member int) {
	e.locked(func() {
		for _, m := range e.chosen(member) {
			m.up = false
			m.reset()
		}
		e.elect(nobody)
	})
}

// Start starts a member, or all for -1. It has everything that was committed.
func (e *Ensemble) Start(member int) {
	e.locked(func() {
		for _, m := range e.chosen(member) {
			m.up = true
			e.catchUp(m)
		}
		if e.leader == nobody {
			e.elect(nobody)
		}
	})
}

// Move gives a member that is stopped another address. Packets to the old one
// are dropped.
func (e *Ensemble) Move(member int) {
	e.locked(func() {
		m := e.members[member]
		m.moves, m.moved = (m.moves+1)%250, time.Now()
	})
}

func (e *Ensemble) chosen(member int) []*member {
	if member == -1 {
		return e.members
	}
	return e.members[member : member+1]
}

// reset ends all that a member does.
func (m *member) reset() {
	m.disconnect()
	m.stalled, m.paused, m.alone, m.deposed, m.inbox = false, false, false, false, nil
	m.watches = watches{}
	m.heard = map[int64]time.Duration{}
}

// Elect has another member lead, at once. All members that know it close their
// connections. Nothing changes if the member is not up.
func (e *Ensemble) Elect(member int) { e.locked(func() { e.elect(member) }) }

// elect elects a leader if the present one cannot lead, or another is wanted.
func (e *Ensemble) elect(want int) {
	able := func(i int) bool { return i != nobody && e.members[i].up && !e.members[i].alone }
	voters := 0
	for i := range e.members {
		if able(i) {
			voters++
		}
	}
	switch {
	case voters <= len(e.members)/2:
		want = nobody
	case want == nobody && able(e.leader):
		return
	case !able(want):
		want = slices.IndexFunc(e.members, func(m *member) bool { return able(m.index) })
	}
	e.epoch++
	e.leader = want
	for i, m := range e.members {
		if m.up && !m.alone {
			m.reset()
		}
		if able(i) && want != nobody {
			e.catchUp(m)
		}
	}
	if want != nobody {
		e.restartClocks()
	}
}

// Isolate has a member lose the others without noticing it, until Rejoin. It
// answers reads and pings. A leader is deposed: the others elect another, if
// they are a majority, and it goes on to answer what a leader answers alone.
func (e *Ensemble) Isolate(member int) {
	e.locked(func() {
		m := e.members[member]
		if !m.up || m.alone {
			return
		}
		m.alone = true
		if e.leader != member {
			return
		}
		m.deposed, m.believes = true, map[int64][]byte{}
		for id, s := range e.sessions {
			m.believes[id] = s.password
		}
		e.elect(nobody)
	})
}

// Rejoin has an isolated member notice that, and follow the leader.
func (e *Ensemble) Rejoin(member int) {
	e.locked(func() {
		m := e.members[member]
		if !m.alone {
			return
		}
		m.reset()
		if e.leader == nobody {
			e.elect(nobody)
		} else {
			e.catchUp(m)
		}
	})
}

// Pause has a member do nothing, until Resume. What comes meanwhile waits.
func (e *Ensemble) Pause(member int) { e.locked(func() { e.members[member].paused = true }) }

// Resume ends Pause.
func (e *Ensemble) Resume(member int) {
	e.locked(func() {
		m := e.members[member]
		if !m.paused {
			return
		}
		inbox := m.inbox
		m.paused, m.inbox = false, nil
		for _, f := range inbox {
			f()
		}
		if !m.alone {
			e.catchUp(m)
		}
	})
}

// Connected returns the members to which a session has connections.
func (e *Ensemble) Connected(id int64) []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[int]struct{}{}
	for _, m := range e.members {
		for _, c := range m.conns {
			if c.session == id {
				all[m.index] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}
