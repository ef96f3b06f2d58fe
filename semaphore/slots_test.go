package semaphore_test

import (
	"slices"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

func (p party) slots(permit *semaphore.Permit) []int {
	p.Helper()
	slots, err := permit.Slots(p.Context())
	check(p, err)
	return slots
}

func (p party) wantSlots(permit *semaphore.Permit, want ...int) {
	p.Helper()
	if got := p.slots(permit); !slices.Equal(got, want) {
		p.Errorf("slots %v, want %v", got, want)
	}
}

func (p party) releasePart(permit *semaphore.Permit, n int) {
	p.Helper()
	want := permit.Permits() - n
	if left, err := permit.ReleasePart(p.Context(), n); err != nil || left != want {
		p.Errorf("%d are left, %v; want %d", left, err, want)
	}
}

func TestSlotsAreTheLowestFreeNumbers(t *testing.T) {
	parties(t, 6, func(a, b party) {
		two, three, one := a.acquire(2), b.acquire(3), a.acquire(1)
		a.costs("read, list, write", 3, 0, func() { a.wantSlots(three, 0, 1, 2) })
		a.costs("read, list, write", 3, 0, func() { a.wantSlots(two, 3, 4) })
		a.wantSlots(one, 5)
		a.costs("to ask again", 0, 0, func() { a.wantSlots(three, 0, 1, 2) })
		b.releasePart(three, 1)
		a.wantSlots(three, 0, 1) // the last is released
		next := a.acquire(1)
		a.wantSlots(next, 2)
		a.release(two)
		two = b.acquire(2)
		a.wantSlots(two, 3, 4)
		mine := a.slots(two)
		mine[0] = 99 // the caller may change it
		a.wantSlots(two, 3, 4)
		a.release(two, three, one, next)
		for _, permit := range []*semaphore.Permit{two, three} {
			_, err := permit.Slots(a.Context())
			wantErr(t, err, coordinator.ErrReleased)
		}
		a.empty()
	})
}

func TestSlotsOfTheDeadAreFree(t *testing.T) {
	parties(t, 2, func(a, b party) {
		p, q := a.acquire(1), b.acquire(1)
		a.wantSlots(p, 0)
		a.wantSlots(q, 1)
		a.svc.Expire(a.session())
		w := b.begin(1).granted()
		a.wantSlots(w, 0)
		_, err := p.Slots(a.Context())
		wantErr(t, err, coordinator.ErrSessionLost)
		a.release(q, w)
		a.empty()
	})
}
