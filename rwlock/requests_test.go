package rwlock_test

import (
	"testing"
	"testing/synctest"
)

// wakeups counts the notifications that a call causes, until all goroutines are
// blocked.
func (p party) wakeups(f func()) int {
	synctest.Wait()
	before := p.svc.Stats().Wakeups
	f()
	synctest.Wait()
	return p.svc.Stats().Wakeups - before
}

// TestFiveWritersThenTwentyReaders is the scenario for which Curator needs 251
// requests and 125 notifications (FIELD 3).
//
// To join, the first writer needs 1 request. Each of the 24 others joins and
// waits, 2 requests; each of the 19 readers behind a reader also reads the
// queue, 1 request. To drain, each of the 25 leaves, 1 request, and each of the
// 24 waiters is woken once, by a handoff: a writer by its predecessor, the
// readers by the last writer. 68 and 25 make 93.
func TestFiveWritersThenTwentyReaders(t *testing.T) {
	const curator = 251
	parties(t, func(a, b, c party) {
		var all []*pending
		joining := a.requests(func() {
			for i := range 25 {
				p := []party{a, b, c}[i%3]
				f := p.l.RLock
				if i < 5 {
					f = p.l.Lock
				}
				all = append(all, p.begin(f))
			}
		})
		var drain int
		woken := a.wakeups(func() {
			drain = a.requests(func() {
				for _, g := range all {
					g.unlock()
				}
			})
		})
		if joining != 1+24*2+19 || drain != 25 || woken != 24 {
			t.Errorf("%d requests to join, %d to drain, %d wake-ups; want 68, 25, 24", joining,
				drain, woken)
		}
		if 2*(joining+drain) > curator {
			t.Errorf("%d requests in all; want at most half of %d", joining+drain, curator)
		}
	})
}

// TestDowngradeWakesTheReadersItAdmits, or the writer directly behind, which
// reads the queue and continues to wait.
func TestDowngradeWakesTheReadersItAdmits(t *testing.T) {
	parties(t, func(a, b, c party) {
		w := a.lock()
		r := a.take(a.l.RLock, w.Context())
		r1, r2, w2 := b.begin(b.l.RLock), c.begin(c.l.RLock), b.begin(b.l.Lock)
		if n := a.wakeups(func() { a.unlock(w) }); n != 2 {
			t.Errorf("%d woken with two readers behind", n)
		}
		a.unlock(r)
		r1.unlock()
		r2.unlock()
		<-w2.done
		r = a.take(b.l.RLock, w2.lock.Context())
		w3, r3 := c.begin(c.l.Lock), a.begin(a.l.RLock)
		if n := a.wakeups(w2.unlock); n != 1 {
			t.Errorf("%d woken with a writer behind", n)
		}
		admitted(t, "", w3, r3)
		a.unlock(r)
		w3.unlock()
		r3.unlock()
	})
}
