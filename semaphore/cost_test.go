package semaphore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// costs checks how many requests but renewals, and wake-ups, the service counts
// while f runs.
// Negative wake-ups are not checked: a holder's watch of its own entry may or
// may not end before the entry leaves.
func (p party) costs(what string, requests, wakeups int, f func()) {
	p.Helper()
	synctest.Wait()
	before := p.svc.Stats()
	f()
	synctest.Wait()
	after := p.svc.Stats()
	renewals := after.Requests[memory.OpRenew] - before.Requests[memory.OpRenew]
	if n := after.Total() - before.Total() - renewals; n != requests {
		p.Errorf("%s: %d requests, want %d: %v, then %v", what, n, requests, before.Requests,
			after.Requests)
	}
	if n := after.Wakeups - before.Wakeups; wakeups >= 0 && n != wakeups {
		p.Errorf("%s: %d wake-ups, want %d", what, n, wakeups)
	}
}

func TestAcquireAndReleaseCostOneRequestEach(t *testing.T) {
	parties(t, 3, func(a, b party) {
		a.session()
		b.session()
		var p, q *semaphore.Permit
		a.costs("the first Acquire of all: read the record, write it, join", 3, 0,
			func() { p = a.acquire(1) })
		a.costs("Release", 1, 0, func() { a.release(p) })
		a.costs("the first Acquire of another Semaphore: read the record, join", 2, 0,
			func() { p = b.acquire(1) })
		a.costs("its Release", 1, 0, func() { b.release(p) })
		a.costs("a warm Acquire", 1, 0, func() { p = a.acquire(3) })
		a.costs("its Release", 1, 0, func() { a.release(p) })

		p = a.acquire(1)
		a.costs("an Acquire beside other holders: join, read", 2, 0, func() { q = b.acquire(1) })
		a.costs("Release, another still holds", 1, 0, func() { b.release(q) })
		time.Sleep(time.Minute)
		q = b.acquire(2)
		a.costs("a hold that lasts: convert the entry, watch it", 2, 0,
			func() { time.Sleep(time.Second) })
		// One wake-up: the holder's own watch.
		a.costs("ReleasePart: convert, and watch the new entry", 2, 1, func() {
			check(t, second(q.ReleasePart(a.Context(), 1)))
		})
		a.costs("Release of the rest", 1, -1, func() { b.release(q) })
		a.release(p)
		a.empty()
	})
}

func TestTryAcquireThatFailsCostsReadsOnly(t *testing.T) {
	parties(t, 2, func(a, b party) {
		p := a.acquire(2)
		b.session()
		time.Sleep(time.Minute)
		var free *semaphore.Permit
		try := func() {
			if _, err := b.s.TryAcquire(a.Context(), 1); !errors.Is(err, coordinator.ErrTaken) {
				t.Errorf("TryAcquire = %v", err)
			}
		}
		a.costs("the first of a Semaphore: the limit, the queue, the first", 3, 0, try)
		a.costs("with a remembered limit: the queue, the limit, the first", 3, 0, try)
		a.release(p)
		a.costs("a successful TryAcquire: read, join", 2, 0, func() {
			if p, err := b.s.TryAcquire(a.Context(), 1); err != nil {
				t.Fatal(err)
			} else {
				free = p
			}
		})
		b.release(free)
		a.empty()
	})
}

// TestHandOverCostsTheSameHoweverManyWait: 7 requests, of which 3 read the
// queue and the limit. The admitted contender reads the limit.
func TestHandOverCostsTheSameHoweverManyWait(t *testing.T) {
	for _, waiters := range []int{2, 10, 100} {
		parties(t, 5, func(a, b party) {
			var held []*semaphore.Permit
			for range 5 {
				held = append(held, a.acquire(1))
			}
			var waiting []*wait
			all := append(a.strangers(40, 5), b)
			for i := range waiters {
				waiting = append(waiting, all[i%len(all)].begin(1))
			}
			a.costs("leave; read the queue and the limit, convert; "+
				"read the queue, watch the holders and the limit", 7, 2,
				func() { a.release(held[0]) })
			for _, w := range waiting {
				w.cancel(nil)
				<-w.done
			}
			a.release(held[1:]...)
			if p := waiting[0].permit; p != nil {
				b.release(p)
			}
			a.empty()
		})
	}
}

func TestSetLimitWakesThoseItAdmitsAndOneMore(t *testing.T) {
	parties(t, 2, func(a, b party) {
		held := a.acquire(2)
		var waiting []*wait
		for range 10 {
			waiting = append(waiting, b.begin(1))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		before := a.svc.Stats().Wakeups
		a.setLimit(5)
		for i, w := range waiting {
			if w.over() != (i < 3) {
				t.Errorf("waiter %d: over = %v", i, w.over())
			}
		}
		if woken := a.svc.Stats().Wakeups - before; woken > 4 {
			t.Errorf("%d were woken", woken)
		}
		a.release(held)
		for _, w := range waiting {
			b.release(w.granted())
		}
		a.empty()
	})
}
