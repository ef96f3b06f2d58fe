package semaphore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/semaphore"
)

// many begins n Acquires of one permit each.
func (p party) many(n int) (waiting []*wait) {
	p.Helper()
	for range n {
		waiting = append(waiting, p.begin(1))
	}
	return waiting
}

// TestHandOverOnTheSharedWatchCostsThreeRequests, however many wait: all
// waiters of a session share a watch of the queue.
func TestHandOverOnTheSharedWatchCostsThreeRequests(t *testing.T) {
	for _, waiters := range []int{50, 100, 400} {
		parties(t, 5, func(a, b party) {
			var held []*semaphore.Permit
			for range 5 {
				held = append(held, a.acquire(1))
			}
			waiting := b.many(waiters)
			next := func(n int) {
				for _, w := range waiting[:n] {
					held = append(held, w.granted())
				}
				held, waiting = held[n:], waiting[n:]
			}
			for range 20 { // the first waiters joined before the watch paid
				a.release(held[0])
				next(1)
			}
			a.costs("leave; show the queue, read the limit", 3, 1, func() { a.release(held[0]) })
			next(1)
			b.link.Delay(time.Millisecond, time.Millisecond)
			before := a.svc.Stats().Requests[memory.OpWatchQueue]
			a.release(held[:3]...)
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if n := a.svc.Stats().Requests[memory.OpWatchQueue] - before; n > 3 {
				t.Errorf("the queue was shown %d times for three departures at once", n)
			}
			b.link.Delay(0, 0)
			next(3)
			for _, w := range waiting {
				w.cancel(nil)
				<-w.done
			}
			a.release(held...)
			a.empty()
		})
	}
}

func TestSharedWatchNoticesAnotherLimit(t *testing.T) {
	parties(t, 2, func(a, b party) {
		held := []*semaphore.Permit{a.acquire(1), a.acquire(1)}
		waiting := b.many(30)
		time.Sleep(time.Second)
		a.setLimit(5)
		synctest.Wait()
		for i, w := range waiting {
			if w.over() != (i < 3) {
				t.Errorf("waiter %d of a limit raised by 3: over = %v", i, w.over())
			}
		}
		time.Sleep(time.Second)
		a.setLimit(1)
		time.Sleep(time.Second)
		a.release(held...)
		for _, w := range waiting[:2] {
			b.release(w.granted())
		}
		synctest.Wait()
		if waiting[3].over() {
			t.Error("admitted beside a holder, at a limit of 1")
		}
		for _, w := range waiting[2:] {
			b.release(w.granted())
		}
		a.empty()
	})
}

// TestSharedWatchThatStartsAgainLeavesNoPermitIdle: some contenders wait alone
// by then, and those behind them on the shared watch.
func TestSharedWatchThatStartsAgainLeavesNoPermitIdle(t *testing.T) {
	parties(t, 3, func(a, b party) {
		held := []*semaphore.Permit{a.acquire(1), a.acquire(1), a.acquire(1)}
		time.Sleep(time.Second)
		waiting := b.many(15)
		time.Sleep(time.Second)
		for _, w := range waiting[12:] { // 15 places are left, too few
			w.cancel(nil)
		}
		synctest.Wait()
		waiting = append(waiting[:12], b.many(6)...)
		synctest.Wait()
		began := time.Now()
		a.release(held[0])
		synctest.Wait()
		a.release(held[1], held[2])
		time.Sleep(time.Second)
		for i, w := range waiting {
			p := w.granted()
			if i < 3 && w.at != began {
				t.Errorf("waiter %d is granted after %v", i, w.at.Sub(began))
			}
			b.release(p)
		}
		a.empty()
	})
}

// TestSharedWatchEndsWhenItDoesNotPay: later contenders do not prolong it.
func TestSharedWatchEndsWhenItDoesNotPay(t *testing.T) {
	parties(t, 1, func(a, b party) {
		p := a.acquire(1)
		waiting := b.many(30)
		time.Sleep(time.Second)
		a.release(p)
		for _, w := range waiting {
			b.release(w.granted())
		}
		before := a.svc.Stats().Requests[memory.OpWatchQueue]
		for range 100 {
			p := a.acquire(1)
			w := b.begin(1)
			time.Sleep(50 * time.Millisecond)
			a.release(p)
			b.release(w.granted())
		}
		if n := a.svc.Stats().Requests[memory.OpWatchQueue] - before; n > 20 {
			t.Errorf("the queue of two was shown %d times in five seconds", n)
		}
		a.empty()
	})
}

// TestRefusedSharedWatchIsReplacedByReads if the service refuses only the
// watch.
func TestRefusedSharedWatchIsReplacedByReads(t *testing.T) {
	parties(t, 1, func(a, b party) {
		p := a.acquire(1)
		waiting := b.many(20)
		refused := false
		a.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Op == memory.OpWatchQueue && !refused {
				refused, f.Err = true, errors.New("not implemented")
			}
			return f
		})
		a.release(p)
		for _, w := range waiting {
			b.release(w.eventually())
		}
		if !refused {
			t.Error("no session watched the queue")
		}
		a.empty()
	})
}

// TestWaitersAreServedWhenTheSharedWatchEnds: the contenders behind have so
// many sessions that each waits for its predecessor, and a permit is idle for
// at most engine.SettleAfter.
func TestWaitersAreServedWhenTheSharedWatchEnds(t *testing.T) {
	parties(t, 4, func(a, b party) {
		held := []*semaphore.Permit{a.acquire(1), a.acquire(1), a.acquire(1), a.acquire(1)}
		waiting := b.many(20)
		for _, p := range a.strangers(30, 4) {
			waiting = append(waiting, p.begin(1))
		}
		for _, w := range waiting {
			released := time.Now()
			a.release(held[0])
			p := w.eventually()
			if idle := w.at.Sub(released); idle > engine.SettleAfter {
				t.Errorf("a permit was idle for %v", idle)
			}
			held = append(held[1:], p)
			time.Sleep(time.Minute)
		}
		a.release(held...)
		a.empty()
	})
}
