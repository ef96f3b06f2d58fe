package semaphore_test

import (
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/semaphore"
)

// flaw leaves something out of the protocol. The model must find out each of them.
type flaw struct {
	noMark      bool // whoever is admitted keeps its "p"
	noSettle    bool // also if it holds for long
	noRecord    bool // nobody watches the limit
	noVersion   bool // entries do not tell by which record they came
	noBehind    bool // who reads another limit counts those ahead only,
	oldView     bool // or does not look again
	noVerify    bool // who was woken by the one ahead goes by the limit it joined with,
	trustRecord bool // or does so if it watched the record, too, and has not been told of another
	oneHolder   bool // the first who waits watches the nearest holder only
	oldViews    bool // a view may be older than one's own join
	movedIsLast bool // who saw nobody behind does not convert, although the limit was changed
	lateFirst   bool // a repeated join says First of the time of its answer
	barging     bool // those who wait are not counted
}

// model is the protocol, and what was found out about it.
type model struct {
	flaw
	verdicts map[question]verdict
	wakes    int
	grants   int
	spared   int   // grants that are over the limit by an exception that is documented
	err      error // the first thing that went wrong
}

func newModel(f flaw) *model { return &model{flaw: f, verdicts: map[question]verdict{}} }

type question struct {
	m              moment
	i              int
	limit, mine, n int8
	whole          bool
}

type verdict struct {
	admitted, record bool
	watch            uint8
}

func (m *model) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// place is an entry as a view shows it.
func (m *model) place(j int, k mark) driver.Place {
	switch {
	case k < 0:
		return driver.Place{Key: fmt.Sprint(j), Mode: semaphore.HoldingMode(int(k.n()))}
	case m.noVersion:
		return driver.Place{Key: fmt.Sprint(j), Mode: semaphore.AskingMode(int(k.n()), 0)}
	}
	return driver.Place{Key: fmt.Sprint(j), Mode: semaphore.AskingMode(int(k.n()), driver.Version(k.version()))}
}

// rule asks the real rule about a contender and a view, of the whole queue or of those ahead.
func (m *model) rule(w *world, line moment, i int, whole bool) verdict {
	c := &w.who[i]
	q := question{line, i, w.limits[c.mine], c.mine, c.n, whole}
	if v, ok := m.verdicts[q]; ok {
		return v
	}
	var ahead []driver.Place
	for j := i + 1; j < crowd && q.whole; j++ {
		if line[j] < 0 {
			ahead = append(ahead, m.place(j, line[j]))
		}
	}
	for j := range i {
		if k := line[j]; k < 0 || k > 0 && !m.barging {
			ahead = append(ahead, m.place(j, k))
		}
	}
	mine := driver.Version(c.mine)
	if m.noVersion {
		mine = 0
	}
	r := semaphore.Permits(int(q.limit), mine, int(c.n))(ahead)
	v := verdict{admitted: r.Admitted, record: r.Record && !m.noRecord}
	if m.oneHolder && len(r.Watch) > 1 {
		r.Watch = slices.Clone(r.Watch[len(r.Watch)-1:])
	}
	for _, p := range r.Watch {
		v.watch |= 1 << (p.Key[0] - '0')
	}
	m.verdicts[q] = v
	return v
}

// change is a step of the queue: the entry of i gets a mode, or goes with 0. Whoever watches it is woken.
func (m *model) change(w *world, i int, to mark) {
	copy(w.past[1:], w.past[:depth-1])
	w.past[0][i] = to
	for v := range w.version + 1 {
		w.age[v] = min(w.age[v]+1, depth-1)
	}
	oldest := int8(0)
	for j := range w.who {
		c := &w.who[j]
		if c.phase == looking || c.phase == reading || c.phase == sleeping {
			c.floor = min(c.floor+1, depth-1)
			if c.phase == sleeping && c.watch&(1<<i) != 0 {
				m.wakes++
				w.wake(j, w.version)
				c.floor = 0
			}
			oldest = max(oldest, c.floor)
		}
	}
	for r := oldest + 1; r < depth; r++ {
		w.past[r] = moment{} // nobody can see it any more
	}
}

// wake has a contender look again. If it watches the record, it can still be told of a change of that before it looks.
func (w *world) wake(i int, since int8) {
	c := &w.who[i]
	c.phase, c.watch, c.since = looking, 0, since
}

// learn takes a record. A contender that asks for more than that gives up.
func (m *model) learn(w *world, i int, version int8) {
	c := &w.who[i]
	c.mine, c.floor = version, min(c.floor, w.age[version]) // no view is older than what was read
	if c.n > w.limits[version] {
		m.leave(w, i)
	}
}

// set changes the limit. Whoever watches the record is told later.
func (w *world) set(limit int8) {
	w.version++
	w.limits[w.version] = limit
	w.moves--
}

// told tells one who watches the record of a version of it.
func (m *model) told(w *world, i int, version int8) {
	c := &w.who[i]
	if c.record = false; c.phase == sleeping {
		w.wake(i, version)
	}
	m.learn(w, i, version)
}

func (m *model) join(w *world, i int, lost bool) {
	c := &w.who[i]
	if c.n > w.limit() {
		*c = one{phase: gone}
		return
	}
	c.phase, c.joined, c.mine, c.since = looking, w.version, w.version, w.version
	m.change(w, i, asks(c.n, w.version))
	c.floor = 0
	if m.oldViews {
		c.floor = depth - 1
	}
	switch {
	case lost:
		c.lost = true
		w.drops--
	case m.rule(w, w.past[0], i, false).admitted && w.past[0].sum(i) == 0:
		m.admit(w, i, true, w.past[0])
	}
}

func (m *model) leave(w *world, i int) {
	w.who[i] = one{phase: gone}
	m.change(w, i, 0)
}
