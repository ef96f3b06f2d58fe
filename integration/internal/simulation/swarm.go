package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file determines which kinds of faults and operations a world has. Worlds
// with all of them hide the states that a few kinds reach together: a queue
// grows long only if no operator deletes entries, and a wait outlives an outage
// only if it has no deadline.

// settings determine a world.
type settings struct {
	seed   uint64
	recipe string // of all names; empty: of any
	// without are kinds of faults and operations, clients and actors that the
	// world would have, and does without. All else draws the same numbers.
	without []string
	until   time.Duration // the faults end then at the latest; zero: when the seed says
}

// env is the environment that runs the world again.
func (s settings) env() string {
	all := fmt.Sprint("BATON_SEED=", s.seed)
	if s.recipe != "" {
		all += " BATON_SIM_RECIPE=" + s.recipe
	}
	if len(s.without) > 0 {
		all += " BATON_SIM_WITHOUT='" + strings.Join(s.without, ",") + "'"
	}
	if s.until > 0 {
		all += " BATON_SIM_UNTIL=" + s.until.String()
	}
	return all
}

// swarm is the choice of a world. Its methods may be called anywhere.
type swarm struct {
	has func(kind string) bool // the seed's choice
	off map[string]bool

	mu   sync.Mutex
	used map[string]bool // what the world did, or would have done
}

// newSwarm gives a world each kind with a chance of a half, and one world of
// eight all kinds.
func (w *world) newSwarm(without, never []string) *swarm {
	s := &swarm{off: map[string]bool{}, used: map[string]bool{}}
	for _, kind := range slices.Concat(without, never) {
		s.off[kind] = true
	}
	all := w.rng("swarm").IntN(8) == 0
	s.has = func(kind string) bool { return all || w.rng("swarm "+kind).IntN(2) == 0 }
	return s
}

// on reports whether the world has a kind that it is about to use.
func (s *swarm) on(kind string) bool { return s.has(kind) && s.uses(kind) }

// uses is on for kinds, clients and actors that every seed has.
func (s *swarm) uses(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[kind] = true
	return !s.off[kind]
}

// left is what a world used, and was not told to do without.
func (s *swarm) left() (kinds []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(s.used)) {
		if !s.off[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// does draws whether an actor does something, once in so many times.
func (a *actor) does(what string, once int) bool {
	return a.r.IntN(once) == 0 && a.w.swarm.on(what)
}

// times draws how often an actor does something.
func (a *actor) times(what string) int {
	if n := a.r.IntN(3); n > 0 && a.w.swarm.on(what) {
		return n
	}
	return 0
}
