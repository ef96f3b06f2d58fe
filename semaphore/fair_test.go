package semaphore_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
)

// happening is a step of what really went on.
type happening struct {
	at   time.Duration
	what func()
}

// TestSemaphoreIsFairWhateverTheLimitBecomes runs schedules in which the limit is lowered, too, and over slow links, and
// checks what went on: at no grant is more held than the limit; nobody is granted before one who asked earlier; and
// the first who waits is granted as soon as it fits: at once, or, after the limit was changed,
// when the holds before it have lasted for a quarter of a second.
func TestSemaphoreIsFairWhateverTheLimitBecomes(t *testing.T) {
	for seed := range seeds(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := generate(r, true)
		delay := time.Duration(seed%3) * time.Millisecond
		var opts []memory.Option
		if seed%2 == 0 {
			opts = append(opts, memory.WithStaleViews(seed))
		}
		s.run(t, delay, opts...)
		s.check(t, seed, delay)
	}
}

// check walks through what went on. With a delay, what a contender knows and what the service has done are
// some messages apart.
func (s schedule) check(t *testing.T, seed uint64, delay time.Duration) {
	limit, most, patience := 0, 0, 40*delay
	holds, waits := make([]int, len(s.visits)), make([]bool, len(s.visits))
	var all []happening
	note := func(at time.Duration, f func()) { all = append(all, happening{at, f}) }
	for _, m := range s.moves {
		note(m.at, func() { limit, most = m.limit, max(most, m.limit) })
		note(m.at+patience, func() { most = limit })
		if m.at > 0 {
			note(m.at, func() { patience = 40*delay + 260*time.Millisecond })
		}
	}
	for i := range s.visits {
		v := &s.visits[i]
		note(v.join, func() { waits[i] = true })
		note(v.at, func() { waits[i] = false })
		if !v.granted {
			continue
		}
		note(v.at, func() {
			holds[i] = v.n
			for j := range i {
				if waits[j] && delay == 0 {
					t.Errorf("seed %d: %d was granted before %d", seed, i, j)
				}
			}
			if held := sum(holds); held > most {
				t.Errorf("seed %d: %d are held of %d when %d is granted at %v", seed, held, most, i, v.at)
			}
		})
		if v.parted > 0 {
			note(v.parted, func() { holds[i] = v.n - v.part })
		}
		note(v.left, func() { holds[i] = 0 })
	}
	slices.SortStableFunc(all, func(a, b happening) int { return int(a.at - b.at) })
	since, who := time.Duration(-1), -1
	for _, h := range all {
		if who >= 0 && h.at-since > patience {
			t.Fatalf("seed %d: contender %d would fit since %v, and waits at %v", seed, who, since, h.at)
		}
		h.what()
		head := slices.Index(waits, true)
		switch fits := head >= 0 && sum(holds)+s.visits[head].n <= limit; {
		case !fits:
			who = -1
		case head != who:
			since, who = h.at, head
		}
	}
}
