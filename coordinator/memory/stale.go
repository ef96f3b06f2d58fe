package memory

import (
	"cmp"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// keep bounds how many entries a queue remembers after they left.
const keep = 64

// past remembers entries that have left a queue, for views of an earlier
// revision. Only a service WithStaleViews keeps it.
type past struct {
	departed []departure
	// floor is the oldest revision that can still be shown in full: what left
	// up to it may have been dropped.
	floor driver.Token
}

// departure is an entry that was there from one revision to another. joined is
// its rank in the queue; it was made later than that if it is a conversion.
type departure struct {
	place  driver.Place
	joined driver.Token
	made   driver.Token
	left   driver.Token
}

// record adds an entry that left at a revision. What left before the oldest
// entry of the queue joined can never be shown again: a view is at least as new
// as its asker's own entry.
func (p *past) record(e *entry, left, oldest driver.Token) {
	p.departed = append(p.departed, departure{e.Place, e.Token, e.made, left})
	p.departed = slices.DeleteFunc(p.departed, func(d departure) bool { return d.left < oldest })
	if over := len(p.departed) - keep; over > 0 {
		p.floor = p.departed[over-1].left
		p.departed = slices.Delete(p.departed, 0, over)
	}
}

// view returns the queue as own sees it: if stale, as it was at one revision,
// from the oldest that the asker may be shown (its own entry's, seen) up to
// now. It never misses an entry ahead of own: those joined before own did.
func (s *Service) view(own *entry, seen driver.Token) driver.View {
	l := own.queue
	n := l.ahead(own)
	if s.stale == nil || len(l.past.departed) == 0 {
		return driver.View{Ahead: l.first(n), Last: n+1 == len(l.entries)}
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
	view := driver.View{Ahead: make([]driver.Place, 0, len(shown)), Last: last}
	for _, d := range shown {
		view.Ahead = append(view.Ahead, d.place)
	}
	return view
}
