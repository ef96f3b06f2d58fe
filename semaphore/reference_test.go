package semaphore_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// TestSemaphoreFollowsTheReferenceModel runs generated schedules of joins, holds, partial releases, lost patience, dying
// sessions and raised limits in virtual time, on a service without delay, and compares every grant and its moment with a
// model of a few lines.
func TestSemaphoreFollowsTheReferenceModel(t *testing.T) {
	for seed := range seeds(150) {
		for _, opts := range [][]memory.Option{nil, {memory.WithStaleViews(seed)}} {
			got := generate(rand.New(rand.NewPCG(seed, 1)), false)
			if opts != nil { // views decide who says at once that it holds, which matters when the limit is changed
				got.moves = got.moves[:1]
				for i := range got.visits {
					v := &got.visits[i]
					v.n = min(v.n, got.moves[0].limit)
					v.part = min(v.part, v.n-1)
				}
			}
			want := schedule{slices.Clone(got.visits), got.moves}
			reference(want)
			got.run(t, 0, opts...)
			compare(t, seed, got.visits, want.visits)
		}
	}
}

// reference is the model: whatever happens, the first who waits is granted if it fits, and then the next. Nobody is granted
// past a holder who came by another limit and has not said that it holds. Who has somebody behind, or whose limit was changed, says
// so at once, others after a quarter of a second.
func reference(s schedule) {
	limit, version := 0, 0
	came, silent := make([]int, len(s.visits)), make([]bool, len(s.visits))
	holds := make([]int, len(s.visits))
	var agenda []func(now time.Duration) // what happens, at the times beside it
	var times []time.Duration
	plan := func(at time.Duration, f func(time.Duration)) { agenda, times = append(agenda, f), append(times, at) }
	over := make([]bool, len(s.visits)) // granted or gone
	joined := 0
	for i := range s.visits {
		v := &s.visits[i]
		plan(v.join, func(now time.Duration) {
			came[i] = version
			if joined++; v.n > limit { // turned away
				over[i], v.at = true, now
			}
		})
		leave := func(now time.Duration) {
			switch {
			case !over[i]:
				over[i], v.at = true, now
			case v.granted && holds[i] > 0:
				holds[i], v.left = 0, now
			}
		}
		plan(v.join+v.wait, func(now time.Duration) {
			if !over[i] {
				leave(now)
			}
		})
		if v.dies > 0 {
			plan(v.dies, leave)
		}
	}
	for _, m := range s.moves {
		plan(m.at, func(time.Duration) { limit, version = m.limit, version+1 })
	}
	for len(agenda) > 0 {
		next := slices.Index(times, slices.Min(times))
		now := times[next]
		f := agenda[next]
		agenda, times = slices.Delete(agenda, next, next+1), slices.Delete(times, next, next+1)
		f(now)
		held := 0
		for i := range s.visits[:joined] {
			v := &s.visits[i]
			if held += holds[i]; over[i] {
				if silent[i] && holds[i] > 0 && came[i] != version {
					break
				}
				continue
			}
			if held+v.n > limit {
				break
			}
			if silent[i] = came[i] == version && !slices.Contains(over[i+1:joined], false); silent[i] {
				plan(now+250*time.Millisecond, func(time.Duration) { silent[i] = false })
			}
			over[i], v.granted, v.at, holds[i] = true, true, now, v.n
			held += v.n
			plan(now+v.first, func(at time.Duration) {
				if holds[i] > 0 && v.part > 0 {
					holds[i], v.parted, silent[i] = v.n-v.part, at, false
				}
			})
			plan(now+v.first+v.rest, func(at time.Duration) {
				if holds[i] > 0 {
					holds[i], v.left = 0, at
				}
			})
		}
	}
}

func compare(t *testing.T, seed uint64, got, want []visit) {
	t.Helper()
	var last coordinator.Token
	for i, g := range got {
		w := want[i]
		if g.token, w.token = 0, 0; g != w {
			t.Fatalf("seed %d, contender %d:\n%+v, the model says\n%+v", seed, i, g, w)
		}
		if token := got[i].token; token != 0 {
			if token <= last {
				t.Fatalf("seed %d, contender %d: token %d after %d", seed, i, token, last)
			}
			last = token
		}
	}
}
