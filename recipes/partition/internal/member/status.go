package member

import (
	"fmt"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/recipes"
)

// Status is what the memberships of one Partition hold. It is safe for
// concurrent use; the zero Status is ready to use.
type Status struct {
	mu      sync.Mutex
	members map[*member]state
	holds   []Held
	overran int // works that have not returned within their drains
}

type state struct {
	shards []int // by the plan
	note   string
}

// Held is a shard that is held, and the handle that its work got.
type Held struct {
	Shard  int
	Hold   *recipes.Hold
	Handle any
}

// Holds returns the shards that are held, in order.
func (s *Status) Holds() []Held {
	all := slices.DeleteFunc(s.clone(), func(h Held) bool { return h.Hold.Context().Err() != nil })
	slices.SortStableFunc(all, func(a, b Held) int { return a.Shard - b.Shard })
	return all
}

// clone is for checks of holds without the mutex: they may end a session, which
// calls observers.
func (s *Status) clone() []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.holds)
}

// Ready reports whether all members hold the shards that the plan gives them.
func (s *Status) Ready() (ok bool, text string) {
	held := make(map[int]bool)
	for _, h := range s.Holds() {
		held[h.Shard] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.members) == 0 {
		return false, "not a member"
	}
	planned, here := 0, 0
	for _, m := range s.members {
		if m.note != "" {
			return false, m.note
		}
		for _, shard := range m.shards {
			if planned++; held[shard] {
				here++
			}
		}
	}
	return here == planned, fmt.Sprintf("holds %d of %d shards", here, planned)
}

// Live reports whether all work obeys, and the sessions are alive.
func (s *Status) Live() (ok bool, text string) {
	s.mu.Lock()
	overran := s.overran
	s.mu.Unlock()
	if overran > 0 {
		return false, "work still runs after its drain"
	}
	for _, h := range s.clone() {
		if h.Hold.Context().Err() != nil {
			return false, fmt.Sprintf("shard %d is lost, but its work still runs", h.Shard)
		}
		if state, _ := h.Hold.State(); state == event.StateSuspended {
			return false, "holds shards, but the session is suspended"
		}
	}
	return true, "ok"
}

// show makes the shards of a member by the plan known, or why it has none yet
// or no longer.
func (s *Status) show(m *member, shards []int, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		s.members = make(map[*member]state)
	}
	s.members[m] = state{shards, note}
}

func (s *Status) forget(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, m)
}

// hold makes a hold known until done is called, when its work has returned.
func (s *Status) hold(held Held) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = append(s.holds, held)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.holds = slices.DeleteFunc(s.holds, func(h Held) bool { return h.Hold == held.Hold })
	}
}

// overrun makes work known that has not returned in time, until it has.
func (s *Status) overrun(returned <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overran++
	go func() { // ends with the work, which nobody else waits for
		<-returned
		s.mu.Lock()
		defer s.mu.Unlock()
		s.overran--
	}()
}
