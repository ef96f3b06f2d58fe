package semaphore_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

func (p party) slots(permit *semaphore.Permit) []int {
	p.Helper()
	slots, err := permit.Slots(p.Context())
	if err != nil {
		p.Fatal(err)
	}
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
	if err := permit.ReleasePart(p.Context(), n); err != nil {
		p.Error(err)
	}
}

func TestSlotsAreTheLowestThatNobodyHas(t *testing.T) {
	parties(t, 6, func(a, b party) {
		two, three, one := a.acquire(2), b.acquire(3), a.acquire(1)
		a.wantSlots(three, 0, 1, 2)
		a.wantSlots(two, 3, 4)
		a.wantSlots(one, 5)
		a.costs("to ask again", 0, 0, func() { a.wantSlots(three, 0, 1, 2) })
		b.releasePart(three, 1)
		a.wantSlots(three, 0, 1) // the last is given back
		next := a.acquire(1)
		a.wantSlots(next, 2)
		a.release(two)
		two = b.acquire(2)
		a.wantSlots(two, 3, 4)
		mine := a.slots(two)
		mine[0] = 99 // the caller's own
		a.wantSlots(two, 3, 4)
		a.release(two, three, one, next)
		for _, permit := range []*semaphore.Permit{two, three} {
			_, err := permit.Slots(a.Context())
			wantErr(t, err, coordinator.ErrReleased)
		}
		a.empty()
	})
}

func TestSlotsCostThreeRequestsAtFirst(t *testing.T) {
	parties(t, 2, func(a, b party) {
		p, q := a.acquire(1), b.acquire(1)
		a.costs("read, list, write", 3, 0, func() { a.slots(p) })
		a.costs("read, list, write", 3, 0, func() { a.slots(q) })
		a.costs("asked again", 0, 0, func() { a.slots(q) })
		a.release(p, q)
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

// TestSlotsAfterTheLimitWasLowered can be above it, but stay unique and stable; new ones are the lowest.
func TestSlotsAfterTheLimitWasLowered(t *testing.T) {
	parties(t, 4, func(a, b party) {
		p, q := a.acquire(2), b.acquire(2)
		a.wantSlots(p, 0, 1)
		a.wantSlots(q, 2, 3)
		a.setLimit(3)
		a.wantSlots(q, 2, 3)
		a.release(p)
		one := a.acquire(1)
		a.wantSlots(one, 0)
		a.wantSlots(q, 2, 3)
		a.release(one, q)
		a.empty()
	})
}

// TestSlotsClaimedAtOnceAreUnique by many, over links of different speed.
func TestSlotsClaimedAtOnceAreUnique(t *testing.T) {
	parties(t, 12, func(a, b party) {
		b.link.Delay(time.Millisecond, 2*time.Millisecond)
		var mu sync.Mutex
		var all []int
		var wg sync.WaitGroup
		for i := range 6 {
			p := []party{a, b}[i%2]
			wg.Go(func() {
				permit := p.acquire(2)
				got := p.slots(permit)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, got...)
			})
		}
		wg.Wait()
		slices.Sort(all)
		for i, slot := range all {
			if slot != i {
				t.Fatalf("slots %v", all)
			}
		}
	})
}

// TestSlotsOverRandomSchedules checks at every moment that holders' numbers are unique and below the limit, with
// sessions that die, partial releases, and slow links.
func TestSlotsOverRandomSchedules(t *testing.T) {
	const limit = 5
	for seed := range seeds(25) {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService(memory.WithStaleViews(seed))
			var mu sync.Mutex
			users := map[int]*semaphore.Permit{}
			var wg sync.WaitGroup
			for i := range 6 {
				p := join(t, svc, limit)
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				p.link.Delay(time.Duration(r.IntN(3))*time.Millisecond, time.Duration(r.IntN(3))*time.Millisecond)
				wg.Go(func() {
					for range 6 {
						useSlots(p, r, limit, &mu, users)
					}
				})
			}
			wg.Wait()
		})
	}
}

// useSlots holds permits for a while, and notes in users which numbers are whose.
func useSlots(p party, r *rand.Rand, limit int, mu *sync.Mutex, users map[int]*semaphore.Permit) {
	permit, err := p.s.Acquire(p.Context(), 1+r.IntN(3))
	if err != nil {
		return // the session was lost
	}
	mine, err := permit.Slots(p.Context())
	if err != nil {
		_ = permit.Release(p.Context())
		return
	}
	mu.Lock()
	for _, slot := range mine {
		if other := users[slot]; slot < 0 || slot >= limit || other != nil && other.Err() == nil {
			p.Errorf("slot %d of %v is in use, or out of range", slot, mine)
		}
		users[slot] = permit
	}
	mu.Unlock()
	give := func(slots []int) { // before they are given back
		mu.Lock()
		defer mu.Unlock()
		for _, slot := range slots {
			if users[slot] == permit {
				delete(users, slot)
			}
		}
	}
	time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
	if n := permit.Permits(); n > 1 && r.IntN(2) == 0 {
		give(mine[1:])
		if permit.ReleasePart(p.Context(), n-1) == nil {
			if again, err := permit.Slots(p.Context()); err == nil && !slices.Equal(again, mine[:1]) {
				p.Errorf("slots %v became %v", mine, again)
			}
		}
	}
	if r.IntN(5) == 0 {
		p.svc.Expire(permit.Session())
	}
	give(mine)
	_ = permit.Release(p.Context())
}
