package memory

import (
	"cmp"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// keep is the number of entries that a queue remembers after they left.
const keep = 64

// past remembers entries that have left a queue, for views of an earlier
// revision. Only a service WithStaleViews keeps it.
type past struct {
	departed []departure
	floor    driver.Token // the oldest revision that can still be shown in full
}

// departure is an entry that existed from revision made to revision left.
// joined is its token; a converted entry was made later.
type departure struct {
	place  driver.Place
	joined driver.Token
	made   driver.Token
	left   driver.Token
}

// record adds an entry that left at a revision. It drops entries that left
// before the oldest entry of the queue joined, since a view is at least as new
// as its caller's own entry.
func (p *past) record(e *entry, left, oldest driver.Token) {
	p.departed = append(p.departed, departure{e.Place, e.Token, e.made, left})
	p.departed = slices.DeleteFunc(p.departed, func(d departure) bool { return d.left < oldest })
	if over := len(p.departed) - keep; over > 0 {
		p.floor = p.departed[over-1].left
		p.departed = slices.Delete(p.departed, 0, over)
	}
}

// view returns the queue as own sees it. A stale view is of a random revision,
// at least that of own's entry and seen. It lacks no entry ahead of own, since
// those joined before.
func (s *Service) view(own *entry, seen driver.Token) driver.View {
	l := own.queue
	n := l.ahead(own)
	if s.stale == nil || len(l.past.departed) == 0 {
		return driver.View{
			Ahead: l.first(n), Last: n+1 == len(l.entries),
			Record: s.recordAt(l.name, s.revision),
		}
	}
	oldest := max(own.made, seen, l.past.floor)
	at := oldest + driver.Token(s.stale.Int64N(int64(s.revision-oldest)+1))
	shown, last := make([]departure, 0, n), true
	show := func(d departure) {
		switch {
		case d.made > at || d.left <= at || d.joined == own.Token:
		case d.joined > own.Token:
			last = false
		default:
			shown = append(shown, d)
		}
	}
	for _, e := range l.entries {
		show(departure{place: e.Place, joined: e.Token, made: e.made, left: s.revision + 1})
	}
	for _, d := range l.past.departed {
		show(d)
	}
	slices.SortFunc(shown, func(a, b departure) int { return cmp.Compare(a.joined, b.joined) })
	view := driver.View{
		Ahead: make([]driver.Place, 0, len(shown)), Last: last, Record: s.recordAt(l.name, at),
	}
	for _, d := range shown {
		view.Ahead = append(view.Ahead, d.place)
	}
	return view
}

// recordAt returns the version of a record at a revision, or zero if that is
// not known: it is the revision of its writing.
func (s *Service) recordAt(queue driver.Queue, at driver.Token) driver.Version {
	if v := s.records[queue].Version; v <= driver.Version(at) && s.hints() {
		return v
	}
	return 0
}
