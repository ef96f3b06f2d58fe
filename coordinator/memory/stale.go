package memory

import (
	"cmp"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// keep bounds how many entries a line remembers after they left.
const keep = 64

// past remembers entries that have left a line, for views of an earlier revision.
// It is kept by a service WithStaleViews only.
type past struct {
	departed []departure
	// floor is the oldest revision that can still be shown in full: what left up to it
	// may have been dropped.
	floor driver.Token
}

type departure struct {
	place  driver.Place
	joined driver.Token
	left   driver.Token
}

// record adds an entry that left at a revision. What left before the oldest entry
// of the line joined can never be shown again: a view is at least as new as its
// asker's own entry.
func (p *past) record(e driver.Entry, left, oldest driver.Token) {
	p.departed = append(p.departed, departure{e.Place, e.Token, left})
	p.departed = slices.DeleteFunc(p.departed, func(d departure) bool { return d.left < oldest })
	if over := len(p.departed) - keep; over > 0 {
		p.floor = p.departed[over-1].left
		p.departed = slices.Delete(p.departed, 0, over)
	}
}

// view returns the places ahead of own. seen is the revision below which the
// asker must not be shown the line.
//
// A stale view is the line as it was at one revision, from the newest that the
// asker is entitled to up to now. Joins are never missed by it, since
// those ahead of own joined before own did.
func (s *Service) view(own *entry, seen driver.Token) []driver.Place {
	l := own.line
	n := l.ahead(own)
	if s.stale == nil || len(l.past.departed) == 0 {
		return slices.Clone(l.places[:n])
	}
	oldest := max(own.Token, seen, l.past.floor)
	at := oldest + driver.Token(s.stale.Int64N(int64(s.revision-oldest)+1))
	shown := make([]departure, 0, n)
	for _, e := range l.entries[:n] {
		shown = append(shown, departure{place: e.Place, joined: e.Token})
	}
	for _, d := range l.past.departed {
		if d.joined < own.Token && d.left > at {
			shown = append(shown, d)
		}
	}
	slices.SortFunc(shown, func(a, b departure) int { return cmp.Compare(a.joined, b.joined) })
	places := make([]driver.Place, 0, len(shown))
	for _, d := range shown {
		places = append(places, d.place)
	}
	return places
}
