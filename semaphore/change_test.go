package semaphore_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// TestLimitRaisedForAMomentIsNotExceededLater: who came while it was raised
// does not pass the one who waits, who has not heard of that, and would be
// admitted beside him later.
func TestLimitRaisedForAMomentIsNotExceededLater(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		parties(t, semaphore.Stored, func(a, b party) {
			boss, c := join(a.T, a.svc, semaphore.Stored), join(a.T, a.svc, semaphore.Stored)
			boss.setLimit(2)
			c.session()
			held := a.acquire(1)
			w := b.begin(2)
			time.Sleep(time.Second)
			if deaf {
				b.link.Cut() // and asks again after a short pause
				b.link.Reset()
			} else {
				b.link.Delay(time.Millisecond, time.Millisecond)
			}
			boss.setLimit(5)
			late := c.begin(2)
			late.waits()
			boss.setLimit(2)
			b.link.Heal()
			b.link.Delay(0, 0)
			time.Sleep(time.Hour)
			// Whoever heard of 5 in time holds.
			for _, p := range []*semaphore.Permit{w.permit, late.permit} {
				if p != nil {
					t.Logf("%d were granted at once", p.Permits())
				}
			}
			a.release(held)
			time.Sleep(time.Second)
			if l := boss.list(); l.Held != 2 {
				t.Errorf("deaf %v: %d of %d are held: %v", deaf, l.Held, l.Limit, boss.modes())
			}
			b.release(w.granted())
			c.release(late.granted())
			a.empty()
		})
	}
}

// TestWaiterCountsThoseBehindWhoCameByAGreaterLimit and were admitted by that,
// while its own look took long.
func TestWaiterCountsThoseBehindWhoCameByAGreaterLimit(t *testing.T) {
	parties(t, semaphore.Stored, func(a, b party) {
		c := join(a.T, a.svc, semaphore.Stored)
		a.setLimit(3)
		b.session()
		c.session()
		x := a.acquire(3)
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpAhead && r.Driver == b.link {
				return memory.Fate{DelayReply: time.Second}
			}
			return memory.Fate{}
		})
		w := b.begin(1) // sees that 3 are held
		time.Sleep(500 * time.Millisecond)
		a.releasePart(x, 2)
		time.Sleep(700 * time.Millisecond) // and looks again by now: 1 is held, and there is room
		behind := c.acquire(1)
		time.Sleep(400 * time.Millisecond)
		a.setLimit(1)
		time.Sleep(10 * time.Second)
		w.waits()
		a.release(x)
		time.Sleep(10 * time.Second)
		w.waits() // 1 of 1 is held, behind it
		c.release(behind)
		time.Sleep(time.Second)
		b.release(w.granted())
		a.empty()
	})
}

// TestNoticeOfALeavingThatOvertakesThatOfTheLimit: a waiter is not admitted by
// a limit that was changed long before.
func TestNoticeOfALeavingThatOvertakesThatOfTheLimit(t *testing.T) {
	parties(t, semaphore.Stored, func(a, b party) {
		a.setLimit(3)
		x, y := a.acquire(2), a.acquire(1)
		time.Sleep(time.Second)
		b.session()
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpRecord && r.Driver == b.link {
				return memory.Fate{DelayReply: 2 * time.Second}
			}
			return memory.Fate{}
		})
		w := b.begin(1)
		time.Sleep(20 * time.Second)
		a.setLimit(1)
		time.Sleep(time.Second)
		a.release(x)
		time.Sleep(500 * time.Millisecond)
		w.waits() // 1 of 1 is held
		time.Sleep(time.Minute)
		w.waits()
		a.release(y)
		time.Sleep(2 * time.Second)
		b.release(w.granted())
		a.empty()
	})
}

// TestSetLimitsOfOneSemaphoreFollowOneAnother, so that it has in mind what is
// stored, however long the answers take.
func TestSetLimitsOfOneSemaphoreFollowOneAnother(t *testing.T) {
	parties(t, 1, func(a, _ party) {
		a.setLimit(1)
		first := true
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpSetRecord && first {
				first = false
				return memory.Fate{DelayReply: time.Second}
			}
			return memory.Fate{}
		})
		var wg sync.WaitGroup
		wg.Go(func() { a.setLimit(5) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(a.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		wantErr(t, a.s.SetLimit(ctx, 6), context.DeadlineExceeded)
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		wg.Go(func() { a.setLimit(7) })
		wg.Wait()
		a.release(a.acquire(7))
	})
}

// TestContextThatEndsWhileTheLimitChangesIsTheError: that the record has
// changed is no news for a caller who has no time to look again.
func TestContextThatEndsWhileTheLimitChangesIsTheError(t *testing.T) {
	calls := map[memory.Op]func(context.Context, party) error{
		memory.OpJoin: func(ctx context.Context, a party) error {
			_,
				err := a.s.Acquire(ctx, 1)
			return err
		},
		memory.OpSetRecord: func(ctx context.Context,
			a party) error {
			return a.s.SetLimit(ctx, 4)
		},
	}
	for op, call := range calls {
		parties(t, semaphore.Stored, func(a, b party) {
			a.setLimit(2)
			a.release(a.acquire(1))
			ctx, cancel := context.WithCancel(a.Context())
			defer cancel()
			a.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op == op && r.Driver == a.link {
					a.svc.OnRequest(nil)
					b.setLimit(3)
					cancel()
				}
				return memory.Fate{}
			})
			if err := call(ctx, a); err != context.Canceled { //nolint:errorlint // untouched
				t.Errorf("%s: %v", op, err)
			}
		})
	}
}
