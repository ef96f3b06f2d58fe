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
	Number  int64    `json:"number"` // one more for each plan; 0: there is none
	Shards  int      `json:"shards"`
	Members []Member `json:"members"` // in the order of their joins
}

// Member is a member of a plan.
type Member struct {
	Token   int64 `json:"token"`
	Weight  int   `json:"weight"`            // at least 1
	Max     int   `json:"max"`               // the most shards it takes
	Leaving bool  `json:"leaving,omitempty"` // it takes no shards any more
	Seat    int   `json:"seat"`              // its number while it is a member
	Shards  []int `json:"holds,omitempty"`   // sorted
}

// Share is the value of a member in the group of the partition.
type Share struct {
	Weight int `json:"weight"`
	Max    int `json:"max"`
	Shards int `json:"shards"` // of the partition, the same for all
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
		for _, s := range m.Shards {
			if s < 0 || s >= p.Shards || taken[s] {
				return p, fmt.Errorf("shard %d of member %d; there are %d, with one member each",
					s, m.Token, p.Shards)
			}
			taken[s] = true
		}
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

// Next returns the plan for the members that are alive, in the order of their
// joins. A member of p keeps its seat, its Leaving, and as many shards as its
// target allows. Only the surplus and the shards of dead members move.
func (p Plan) Next(shards int, alive []Member) Plan {
	next := Plan{Shards: shards, Members: slices.Clone(alive)}
	seats := make(map[int]bool)
	for i := range next.Members {
		m := &next.Members[i]
		m.Seat, m.Shards = -1, nil
		if old := p.Find(m.Token); old != nil {
			m.Seat, m.Shards, m.Leaving = old.Seat, slices.Clone(old.Shards), m.Leaving || old.Leaving
			seats[m.Seat] = true
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
		m.Shards = m.Shards[:min(len(m.Shards), targets[i])]
		for _, s := range m.Shards {
			taken[s] = true
		}
	}
	next.fill(targets, taken)
	return next
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
// So members of equal weight differ by at most one, unless Max is in the way.
//
// That is the beginning of a list of all (member, t), whose order depends on no
// other member. So when a member leaves, no other gives up a shard, and when
// one joins, no other gets one.
func (p Plan) targets() []int {
	t := make([]int, len(p.Members))
	for range p.Shards {
		best := -1
		for i, m := range p.Members {
			if m.Leaving || t[i] >= m.Max {
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
	return t
}
