package semaphore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// TestLimitRaisedForAMomentIsNotExceededLater: a contender that joined while it
// was raised does not overtake a waiter that was not notified of it, and that
// would be admitted beside it later.
func TestLimitRaisedForAMomentIsNotExceededLater(t *testing.T) {
	for _, cutOff := range []bool{false, true} {
		parties(t, semaphore.Stored, func(a, b party) {
			setter, c := join(a.T, a.svc, semaphore.Stored), join(a.T, a.svc, semaphore.Stored)
			setter.setLimit(2)
			c.session()
			held := a.acquire(1)
			w := b.begin(2)
			time.Sleep(time.Second)
			if cutOff {
				b.link.Cut() // it retries after a short pause
				b.link.Reset()
			} else {
				b.link.Delay(time.Millisecond, time.Millisecond)
			}
			setter.setLimit(5)
			late := c.begin(2)
			late.waits()
			setter.setLimit(2)
			b.link.Heal()
			b.link.Delay(0, 0)
			time.Sleep(time.Hour)
			// Contenders that noticed the limit of 5 in time hold.
			for _, p := range []*semaphore.Permit{w.permit, late.permit} {
				if p != nil {
					t.Logf("%d were granted at once", p.Permits())
				}
			}
			a.release(held)
			time.Sleep(time.Second)
			if l := setter.list(); l.Held != 2 {
				t.Errorf("cut off %v: %d of %d are held: %v", cutOff, l.Held, l.Limit, setter.modes())
			}
			b.release(w.granted())
			c.release(late.granted())
			a.empty()
		})
	}
}

// TestWaiterCountsHoldersBehindIt that joined with a greater limit and were
// admitted while its own read took long.
func TestWaiterCountsHoldersBehindIt(t *testing.T) {
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
		time.Sleep(700 * time.Millisecond) // it reads again: 1 is held, and it fits
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

// TestNoticeOfADepartureThatOvertakesThatOfTheLimit: a waiter is not admitted
// with a limit that was changed long before.
func TestNoticeOfADepartureThatOvertakesThatOfTheLimit(t *testing.T) {
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

// TestLateFirstViewIsJudgedByTheLimitInForce: contenders that joined while the
// limit was high, and read the queue for the first time after it was lowered
// and the holder had released.
func TestLateFirstViewIsJudgedByTheLimitInForce(t *testing.T) {
	const many = 20
	var joins atomic.Int32
	for name, late := range map[string]func(r memory.Request) memory.Fate{
		"reads are late": func(r memory.Request) memory.Fate {
			if r.Op == memory.OpAhead {
				return memory.Fate{DelayRequest: time.Second}
			}
			return memory.Fate{}
		},
		"replies of the joins are lost": func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin && joins.Add(1) <= many { // the first of each
				return memory.Fate{DelayReply: time.Minute}
			}
			return memory.Fate{}
		},
	} {
		for hints, opts := range [][]memory.Option{nil, {memory.WithFewHints(1)}} {
			joins.Store(0)
			parties(t, semaphore.Stored, func(a, b party) {
				a.setLimit(many)
				held := a.acquire(many)
				b.session()
				a.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Driver == b.link {
						return late(r)
					}
					return memory.Fate{}
				})
				var all []*wait
				for range many {
					all = append(all, b.begin(1))
				}
				time.Sleep(500 * time.Millisecond)
				a.setLimit(1)
				a.release(held)
				time.Sleep(time.Minute)
				granted := 0
				for _, w := range all {
					if w.over() {
						granted++
					}
				}
				if granted != 1 {
					t.Errorf("%s (%d): %d of 1 permits were granted", name, hints, granted)
				}
				a.svc.OnRequest(nil)
				a.setLimit(many)
				time.Sleep(time.Minute)
				for _, w := range all {
					b.release(w.granted())
				}
				a.empty()
			}, opts...)
		}
	}
}

// TestChangedLimitIsConfirmedAgain: a contender that has found another limit
// reads the queue again. That view, too, may be newer than the limit.
func TestChangedLimitIsConfirmedAgain(t *testing.T) {
	parties(t, semaphore.Stored, func(a, b party) {
		a.setLimit(5)
		x, y, z := a.acquire(1), a.acquire(2), a.acquire(1)
		w := b.begin(2)
		time.Sleep(time.Second)
		var step atomic.Int32 // a renewal may come meanwhile
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			switch {
			case r.Driver != b.link:
			case r.Op == memory.OpRecord && step.CompareAndSwap(0, 1): // its view has shown 3 of 5
				a.setLimit(6)
			case r.Op == memory.OpAhead && step.CompareAndSwap(1, 2):
				a.setLimit(2)
				a.release(y)
			}
			return memory.Fate{}
		})
		a.release(x)
		time.Sleep(time.Minute)
		if n := step.Load(); n != 2 {
			t.Fatalf("step %d", n)
		}
		w.waits() // 1 of 2 is held
		a.release(z)
		time.Sleep(time.Minute)
		b.release(w.granted())
		a.empty()
	})
}

// TestAcquireBesideSetLimitOfItsSemaphoreIsNoError: the object and the service
// agree before and after the change.
func TestAcquireBesideSetLimitOfItsSemaphoreIsNoError(t *testing.T) {
	parties(t, 3, func(a, b party) {
		a.link.Delay(time.Millisecond, time.Millisecond)
		a.setLimit(3)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for i := range 3 {
			wg.Go(func() {
				for done := false; !done; time.Sleep(time.Duration(i+1) * 333 * time.Microsecond) {
					if p, err := a.s.Acquire(a.Context(), 1); err == nil {
						a.release(p)
					} else {
						t.Error(err)
					}
					select {
					case <-stop:
						done = true
					default:
					}
				}
			})
		}
		for i := range 200 {
			a.setLimit(3 + i%7)
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		}
		close(stop)
		wg.Wait()
		b.s = b.withLimit(9)
		if _, err := b.s.Acquire(b.Context(), 1); !errors.As(err, new(*semaphore.LimitError)) {
			t.Errorf("another Semaphore, later: %v", err)
		}
		a.link.Delay(0, 0)
	})
}

// TestSetLimitsOfOneSemaphoreRunOneAfterTheOther, so that it keeps the stored
// limit, however long the answers take.
func TestSetLimitsOfOneSemaphoreRunOneAfterTheOther(t *testing.T) {
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

// TestContextThatEndsWhileTheLimitChangesIsTheError: the changed record is not
// the error of a caller that has no time to read it again.
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
