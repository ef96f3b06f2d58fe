package semaphore_test

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestProtocolIsRightInEveryWorld walks through everything that can happen to a few contenders: joins, old views,
// leaving at any moment, conversions that take their time, partial releases, lost replies, other limits, several in a row
// before anybody acts, and of which waiters hear before or after they hear of leavings. At a grant, all that is held must
// be within the greatest limit that was in force since the contender joined or was woken, but for those behind it who
// came by the same record and do not say yet that they hold; what is ahead must be within its own limit, one
// that was in force since then. Whenever nothing is under
// way, the first who waits does not fit; and whoever leaves then wakes those it admits and one more at most.
func TestProtocolIsRightInEveryWorld(t *testing.T) {
	scenes := []scene{
		{limit: 1, ask: []int8{1, 1, 1}, drops: 2},
		{limit: 2, ask: []int8{2, 1, 1}, parts: 1, drops: 2},
		{limit: 3, ask: []int8{3, 1, 2}, parts: 2, drops: 1},
		{limit: 3, ask: []int8{2, 1, 2, 1}, parts: 1},
		{limit: 3, ask: []int8{1, 2, 2, 1}, parts: 1},
		{limit: 3, ask: []int8{1, 1, 3, 1}},
		{limit: 2, ask: []int8{1, 2, 1}, moves: 2, most: 3},
		{limit: 3, ask: []int8{2, 2, 1}, moves: 1, most: 4, parts: 1, drops: 1},
		{limit: 2, ask: []int8{2, 2, 1, 1}, moves: 1, most: 3},
		{limit: 2, ask: []int8{1, 2, 2}, moves: 2, most: 4},
		{limit: 3, ask: []int8{3, 1, 1}, moves: 2, most: 3},
	}
	if raceEnabled { // one goroutine, and the largest worlds come last
		scenes = scenes[:6]
	}
	for _, s := range scenes {
		m := newModel(flaw{})
		n, path := m.explore(s.world(), s.most)
		if m.err != nil {
			t.Fatalf("%v: %v after %v", s, m.err, path)
		}
		t.Logf("%v: %d worlds, %d grants by an exception", s, n, m.spared)
	}
}

// TestProtocolIsRightInManyLargerWorlds does the same at random.
func TestProtocolIsRightInManyLargerWorlds(t *testing.T) {
	m := newModel(flaw{})
	for seed := range seeds(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := scene{limit: int8(1 + r.IntN(5)), most: 5, moves: int8(r.IntN(4)), parts: int8(r.IntN(3)), drops: int8(r.IntN(3))}
		for range crowd {
			s.ask = append(s.ask, int8(1+r.IntN(int(min(s.limit, 3)))))
		}
		if path := m.wander(r, s.world(), s.most); m.err != nil {
			t.Fatalf("seed %d, %v: %v after %v", seed, s, m.err, path)
		}
	}
}

// TestModelFindsWhatIsLeftOut: a model that would also accept less shows nothing. Each part of the protocol is needed.
func TestModelFindsWhatIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		flaw
		scene
		want string
	}{
		{flaw{noMark: true}, scene{limit: 3, ask: []int8{2, 2, 1}}, "sleeps"},
		{flaw{noMark: true}, scene{limit: 2, ask: []int8{2, 1, 1}}, "sleeps"},
		{flaw{noSettle: true}, scene{limit: 4, ask: []int8{2, 2, 1}, moves: 1, most: 4}, "sleeps"},
		{flaw{noRecord: true}, scene{limit: 2, ask: []int8{2, 1}, moves: 1, most: 3}, "sleeps"},
		{flaw{noVerify: true}, scene{limit: 2, ask: []int8{2, 2, 1}, moves: 1, most: 3}, "changed before it was woken"},
		{flaw{oneHolder: true}, scene{limit: 2, ask: []int8{1, 1, 1}}, "sleeps"},
		{flaw{oldViews: true}, scene{limit: 2, ask: []int8{1, 1, 1}}, "with 2 ahead"},
		{flaw{noVersion: true}, scene{limit: 2, ask: []int8{1, 2, 2}, moves: 2, most: 5}, "are held, of which"},
		{flaw{noBehind: true}, scene{limit: 3, ask: []int8{3, 1, 1}, moves: 1, most: 3, parts: 2}, "are held, of which"},
		{flaw{oldView: true}, scene{limit: 3, ask: []int8{3, 1, 1, 1}, moves: 1, most: 3}, "are held, of which"},
		{flaw{trustRecord: true}, scene{limit: 3, ask: []int8{2, 2, 1}, moves: 1, most: 3}, "changed before it was woken"},
		{flaw{movedIsLast: true}, scene{limit: 3, ask: []int8{2, 2, 1}, moves: 1, most: 4}, "sleeps"},
		{flaw{lateFirst: true}, scene{limit: 3, ask: []int8{2, 2, 1}, drops: 1}, "sleeps"},
		{flaw{barging: true}, scene{limit: 2, ask: []int8{1, 2, 1}}, "with 2 ahead"},
	} {
		m := newModel(c.flaw)
		_, path := m.explore(c.world(), c.most)
		if m.err == nil || !strings.Contains(m.err.Error(), c.want) {
			t.Errorf("%+v, %v: found %v, want %q", c.flaw, c.scene, m.err, c.want)
		}
		t.Logf("%+v: %v after %v", c.flaw, m.err, path)
	}
}
