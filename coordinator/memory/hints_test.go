package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// hints counts the hints that calls return.
type hints struct{ first, nearest, passed int }

// handoff runs one handoff, and counts its hints.
func (h *hints) handoff(t *testing.T, svc *memory.Service) {
	t.Helper()
	a, b := open(t, svc.Driver()), open(t, svc.Driver())
	joined := func(s session) driver.Joined {
		c := contender()
		c.Follows = true
		j, err := s.Join(t.Context(), queue, c)
		must(t, err)
		return j
	}
	first, second := joined(a), joined(b)
	if first.First {
		h.first++
	}
	if second.Nearest == first.Place {
		h.nearest++
	}
	must(t, a.Pass(t.Context(), queue, first.Place))
	passed, err := b.Follow(t.Context(), queue, second.Place, first.Place)
	must(t, err)
	if passed {
		h.passed++
	}
	must(t, b.Pass(t.Context(), queue, second.Place))
	must(t, a.Close(t.Context()))
	must(t, b.Close(t.Context()))
}

func TestFewHintsAreSomeOfThem(t *testing.T) {
	const n = 40
	count := func(opts ...memory.Option) (h hints) {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService(opts...)
			for range n {
				h.handoff(t, svc)
			}
		})
		return h
	}
	if h := count(); h != (hints{first: n, nearest: n, passed: n}) {
		t.Errorf("without the option: %+v of %d", h, n)
	}
	few := count(memory.WithFewHints(7))
	for what, got := range map[string]int{"first": few.first, "nearest": few.nearest, "passed": few.passed} {
		if got < n/5 || got > n-n/5 {
			t.Errorf("%s: %d of %d", what, got, n)
		}
	}
	if again := count(memory.WithFewHints(7)); again != few {
		t.Errorf("one seed gives %+v and %+v", few, again)
	}
}
