package semaphore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
)

func TestPartReleasedIsFreeAtOnceAndTheRestIsHeld(t *testing.T) {
	parties(t, 5, func(a, b party) {
		p := a.acquire(5)
		token := p.Token()
		first, second := b.begin(1), b.begin(3)
		a.releasePart(p, 1)
		b.release(first.granted())
		second.waits()
		a.releasePart(p, 1) // 2 free
		second.waits()
		if l := a.list(); l.Held != 3 || l.Contenders[0].Permits != 3 || !l.Contenders[0].Holding {
			t.Errorf("listing %+v", l)
		}
		a.releasePart(p, 2)
		q := second.granted()
		if p.Permits() != 1 || p.Token() != token || p.Err() != nil || p.Context().Err() != nil {
			t.Errorf("%d permits, token %d, %v", p.Permits(), p.Token(), p.Err())
		}
		a.release(p)
		_, err := p.ReleasePart(a.Context(), 1)
		wantErr(t, err, coordinator.ErrNotHeld)
		b.release(q)
		a.empty()
	})
}

func TestPartsMustLeaveSomething(t *testing.T) {
	parties(t, 5, func(a, _ party) {
		p := a.acquire(3)
		a.costs("what is refused", 0, 0, func() {
			for _, n := range []int{-1, 0, 3, 4} {
				held, err := p.ReleasePart(a.Context(), n)
				if held != 3 || !errors.Is(err, coordinator.ErrInvalid) ||
					!strings.Contains(err.Error(),
						`of 3 permits of semaphore "jobs" in part: want at least 1, and fewer`) {
					t.Errorf("ReleasePart(%d) = %d, %v", n, held, err)
				}
			}
		})
		if p.Permits() != 3 {
			t.Errorf("%d permits", p.Permits())
		}
		a.release(p)
		a.costs("what is released", 0, 0, func() {
			for _, n := range []int{-1, 1, 3} {
				held, err := p.ReleasePart(a.Context(), n)
				if wantErr(t, err, coordinator.ErrNotHeld); held != 0 {
					t.Errorf("%d are held after Release", held)
				}
			}
		})
		if p.Permits() != 0 {
			t.Errorf("%d permits after Release", p.Permits())
		}
		a.empty()
	})
}

// TestPartsReleasedAtOnceAreCountedOneByOne, with a Release at any time between
// them.
func TestPartsReleasedAtOnceAreCountedOneByOne(t *testing.T) {
	for after := range 8 {
		parties(t, 9, func(a, b party) {
			a.link.Delay(time.Millisecond, time.Millisecond)
			p := a.acquire(9)
			w := b.begin(8)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if _, err := p.ReleasePart(a.Context(), 2); err != nil &&
						!errors.Is(err, coordinator.ErrReleased) &&
						!errors.Is(err, coordinator.ErrNotHeld) {
						t.Error(err)
					}
				})
			}
			if after < 7 {
				time.Sleep(time.Duration(after) * time.Millisecond)
				a.release(p)
			}
			wg.Wait()
			if after == 7 && p.Permits() != 1 {
				t.Errorf("%d permits", p.Permits())
			}
			b.release(w.granted())
			if after == 7 {
				a.release(p)
			}
			a.empty()
		})
	}
}

// TestPartIsReleasedWithADeadContext, with numbers and without. FIELD 14
func TestPartIsReleasedWithADeadContext(t *testing.T) {
	for _, numbered := range []bool{false, true} {
		parties(t, 3, func(a, b party) {
			p := a.acquire(3)
			if numbered {
				a.wantSlots(p, 0, 1, 2)
			}
			ctx, cancel := context.WithCancel(a.Context())
			cancel()
			w := b.begin(1)
			check(a, second(p.ReleasePart(ctx, 1)))
			b.release(w.granted())
			a.release(p)
			a.empty()
		})
	}
}
