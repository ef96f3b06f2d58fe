// Package plan decides which member of a partition holds which shards. It does
// no I/O: every member computes the same plan from the same facts.
package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Plan says which member holds which shards. It is stored as JSON.
type Plan struct {
	Number int64 `json:"number"` // one more for each plan; 0: there is none
	Shards int   `json:"shards"`
	// Crashes is how many members died after they had taken shards, but before
	// they had settled, since the last that settled.
	Crashes int      `json:"crashes,omitempty"`
	Members []Member `json:"members"` // in the order of their joins
}

// Member is a member of a plan.
type Member struct {
	Token   int64 `json:"token"`
	Weight  int   `json:"weight"`            // at least 1
	Max     int   `json:"max"`               // the most shards it takes
	Leaving bool  `json:"leaving,omitempty"` // it takes no shards any more
	// Settling is the step of a member that settles: with 1 it takes no shards,
	// with 2 one, with 3 two, with 4 four, and so on. 0: it has settled.
	Settling int   `json:"settling,omitempty"`
	Seat     int   `json:"seat"`            // its number while it is a member
	Shards   []int `json:"holds,omitempty"` // sorted
}

// Share is the value of a member in the group of the partition.
type Share struct {
	Weight int `json:"weight"`
	Max    int `json:"max"`
	Shards int `json:"shards"` // of the partition, the same for all
	// Settles: the member joins with Settling 1. It is false once it has
	// settled.
	Settles bool `json:"settles,omitempty"`
}

// Wish is what a member wants to change in the plan, in its own part.
type Wish struct {
	Token    int64 `json:"token"`
	Leaving  bool  `json:"leaving,omitempty"`
	Settling *int  `json:"settling,omitempty"` // the next step; nil: no change
}

// Has reports whether the plan has the wish of a member.
func (p Plan) Has(w Wish) bool {
	m := p.Find(w.Token)
	switch {
	case m == nil:
		return w.Leaving
	case w.Leaving && !m.Leaving:
		return false
	}
	return w.Settling == nil || m.Settling == 0 || *w.Settling > 0 && m.Settling >= *w.Settling
}

// Parse parses a stored plan; no text is no plan yet.
func Parse(text []byte) (p Plan, err error) {
	if len(text) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, err
	}
	taken := make(map[int]bool)
	for _, m := range p.Members {
		if m.Settling < 0 {
			return p, fmt.Errorf("step %d of member %d; want 0 or more", m.Settling, m.Token)
		}
		for _, s := range m.Shards {
			if s < 0 || s >= p.Shards || taken[s] {
				return p, fmt.Errorf("shard %d of member %d; there are %d, with one member each",
					s, m.Token, p.Shards)
			}
			taken[s] = true
		}
	}
	if p.Crashes < 0 || p.Crashes > mostCrashes {
		return p, fmt.Errorf("%d crashes; want 0 to %d", p.Crashes, mostCrashes)
	}
	if p.Number < 1 {
		return p, fmt.Errorf("number %d; want 1 or more", p.Number)
	}
	return p, nil
}

// Find returns the member with a token, or nil.
func (p Plan) Find(token int64) *Member {
	i := slices.IndexFunc(p.Members, func(m Member) bool { return m.Token == token })
	if i < 0 {
		return nil
	}
	return &p.Members[i]
}

// Predecessor returns the member that the member with a token watches: the
// nearest before it that is not leaving, and for the first the last. A member
// that leaves watches none, since it plans no more. It is not watched either,
// since the plan gives it no shards. 0: there is no such member.
func (p Plan) Predecessor(token int64) int64 {
	n := len(p.Members)
	i := slices.IndexFunc(p.Members, func(m Member) bool { return m.Token == token })
	if i < 0 || p.Members[i].Leaving {
		return 0
	}
	for back := 1; back < n; back++ {
		if m := p.Members[(i+n-back)%n]; !m.Leaving {
			return m.Token
		}
	}
	return 0
}

// Same reports whether two plans differ in their numbers at most.
func (p Plan) Same(other Plan) bool {
	other.Number = p.Number
	return reflect.DeepEqual(p, other)
}

// Changed returns the members of p for which p differs from the plan before:
// in the shards or in the member to watch. It leaves out members that the plan
// before lacks, since they read p when they join.
func (p Plan) Changed(before Plan) (changed []Member) {
	for _, m := range p.Members {
		old := before.Find(m.Token)
		if old != nil && (!slices.Equal(old.Shards, m.Shards) ||
			before.Predecessor(m.Token) != p.Predecessor(m.Token)) {
			changed = append(changed, m)
		}
	}
	return changed
}

// Turnover returns how many members only one of two plans has.
func (p Plan) Turnover(before Plan) int {
	both := 0
	for _, m := range p.Members {
		if before.Find(m.Token) != nil {
			both++
		}
	}
	return len(p.Members) + len(before.Members) - 2*both
}

// Next returns the plan for the members that are alive, in the order of their
// joins, with the wishes of some. A member of p keeps its seat, its Leaving,
// its Settling, and as many shards as its target allows. Only the surplus and
// the shards of dead members move.
func (p Plan) Next(shards int, alive []Member, wishes ...Wish) Plan {
	next := Plan{Shards: shards, Members: slices.Clone(alive), Crashes: p.crashes(alive)}
	seats := make(map[int]bool)
	for i := range next.Members {
		m := &next.Members[i]
		m.Seat, m.Shards = -1, nil
		if old := p.Find(m.Token); old != nil {
			m.Seat, m.Shards, m.Leaving = old.Seat, slices.Clone(old.Shards), m.Leaving || old.Leaving
			m.Settling = old.Settling
			seats[m.Seat] = true
		}
	}
	for _, w := range wishes {
		if m := next.Find(w.Token); m != nil && !next.Has(w) {
			m.Leaving = m.Leaving || w.Leaving
			if w.Settling != nil && *w.Settling >= 0 { // else it is another program's
				if m.Settling = *w.Settling; m.Settling == 0 {
					next.Crashes = 0
				}
			}
		}
	}
	targets, taken := next.targets(), make([]bool, shards)
	for i, seat := 0, 0; i < len(next.Members); i++ {
		m := &next.Members[i]
		for m.Seat < 0 {
			if !seats[seat] {
				m.Seat = seat
			}
			seat++
		}
		m.Shards = keep(m.Shards, targets[i], next.Crashes)
		for _, s := range m.Shards {
			taken[s] = true
		}
	}
	next.fill(targets, taken)
	return next
}

// crashes returns Crashes of the plan for the members that are alive. Members
// that share all shards because none has settled are not counted.
func (p Plan) crashes(alive []Member) int {
	n := p.Crashes
	if !p.settled() {
		return n
	}
	for _, m := range p.Members {
		gone := !slices.ContainsFunc(alive, func(a Member) bool { return a.Token == m.Token })
		if gone && !m.Leaving && m.Settling > 0 && len(m.Shards) > 0 {
			n++
		}
	}
	return min(n, mostCrashes)
}

// mostCrashes is the greatest value of Crashes: a member that joins then takes
// its first shard after 16 times as long.
const mostCrashes = 2

// Patience returns how many times as long as usual a member waits that settles
// before it takes its first shard.
func (p Plan) Patience() int { return 1 << (2 * p.Crashes) }

// settled reports whether a member has settled.
func (p Plan) settled() bool {
	return slices.ContainsFunc(p.Members, func(m Member) bool {
		return m.Settling == 0 && !m.Leaving
	})
}

// keep returns so many of the shards of a member. After a crash others are
// given up than before it, so that one that crashes again and again does not
// take the same shard down each time.
func keep(shards []int, n, crashes int) []int {
	if n >= len(shards) {
		return shards
	}
	at := len(shards) - crashes%len(shards)
	return append(slices.Clone(shards[at:]), shards[:at]...)[:n]
}

// fill gives the shards that are not taken to the members below their targets,
// one each in turn.
func (p Plan) fill(targets []int, taken []bool) {
	i, full := 0, 0
	for s := 0; s < len(taken) && full < len(p.Members); i = (i + 1) % len(p.Members) {
		m := &p.Members[i]
		for s < len(taken) && taken[s] {
			s++
		}
		if len(m.Shards) >= targets[i] || s == len(taken) {
			full++
			continue
		}
		m.Shards, full = append(m.Shards, s), 0
		s++
	}
	for _, m := range p.Members {
		slices.Sort(m.Shards)
	}
}

// targets returns how many shards each member should hold. It deals them one by
// one to the member with the smallest (2t+1)/weight, where t is what the member
// has got, and of equals to the first: the method of Webster and Sainte-Laguë.
// So members of equal weight differ by at most one, unless Max or Settling is
// in the way.
//
// That is the beginning of a list of all (member, t), whose order depends on no
// other member. So when a member leaves, no other gives up a shard, and when
// one joins, no other gets one.
//
// A member that settles keeps what it has. While no member has settled, all are
// dealt to as if they had, and so is each if the others take no more.
func (p Plan) targets() []int {
	t, most, limits := make([]int, len(p.Members)), make([]int, len(p.Members)), make([]int, len(p.Members))
	settled := p.settled()
	for i, m := range p.Members {
		most[i], limits[i] = m.Max, m.Max
		if settled && m.Settling > 0 {
			limits[i] = min(m.Max, max(len(m.Shards), takes(m.Settling)))
		}
	}
	p.deal(p.deal(p.Shards, t, limits), t, most)
	return t
}

// deal adds shards to t, at most so many for each member, and returns the
// number of those that no member takes.
func (p Plan) deal(shards int, t, most []int) (left int) {
	for ; shards > 0; shards-- {
		best := -1
		for i, m := range p.Members {
			if m.Leaving || t[i] >= most[i] {
				continue
			}
			if best < 0 || (2*t[i]+1)*p.Members[best].Weight < (2*t[best]+1)*m.Weight {
				best = i
			}
		}
		if best < 0 {
			break // no member takes more
		}
		t[best]++
	}
	return shards
}

// takes returns how many shards a member takes in a step of Settling.
func takes(step int) int {
	if step < 2 {
		return 0
	}
	return 1 << min(step-2, 20)
}

// Grown returns the step after that of a member, in which it takes more shards
// than it has, or 0 if it has fewer than it might have: then it has settled.
func (m Member) Grown() int {
	step := m.Settling
	if step == 0 || takes(step) > len(m.Shards) {
		return 0
	}
	for takes(step) <= len(m.Shards) {
		step++
	}
	return step
}
