package integration_test

import (
	"testing"
	"time"
)

// A process that holds, waits, reads and leads on many names is killed; another
// exits without closing anything. Their holds are granted to the next waiters
// within the TTL, waiters behind their entries proceed, and no waiter is
// admitted early.
func TestKilledProcessIsSucceededWithinItsTTL(t *testing.T) {
	const ttl, bound = 10 * time.Second, 30 * time.Second // a leader change starts leases anew
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c := s.client(t, longTTL)
		victim, leaver := newActor(t, s.url(ttl)), newActor(t, s.url(ttl))

		was := map[string]event{}
		next := map[string]*pending{}
		for what, w := range map[string]way{"holder": aLock, "writer": aWrite, "leader": aTerm, "permits": twoOf} {
			was[what] = victim.takes(w, name(what))
			if w == twoOf { // a live client has the other two
				twoOf.take(t, c, name(what))
				next[what] = twoOf.queue(t, c, name(what), 3)
			} else {
				next[what] = w.queue(t, c, name(what), 2)
			}
		}
		was["exit"] = leaver.takes(aLock, name("exit"))
		next["exit"] = aLock.queue(t, c, name("exit"), 2)

		// The victim (V) is the first, the middle and the last waiter: V A V B
		// V.
		first := aLock.take(t, c, name("waiters"))
		victim.waits(aLock, c, name("waiters"), 2)
		a := aLock.queue(t, c, name("waiters"), 3)
		victim.waits(aLock, c, name("waiters"), 4)
		b := aLock.queue(t, c, name("waiters"), 5)
		victim.waits(aLock, c, name("waiters"), 6)
		// A waiting writer between readers.
		reader := aRead.take(t, c, name("between"))
		victim.waits(aWrite, c, name("between"), 2)
		r2, r3 := aRead.queue(t, c, name("between"), 3), aRead.queue(t, c, name("between"), 4)
		// One of two readers ahead of a writer.
		living := aRead.take(t, c, name("readers"))
		victim.takes(aRead, name("readers"))
		writer := aWrite.queue(t, c, name("readers"), 3)

		killed := time.Now()
		victim.Kill()
		leaver.orders(quit, "")
		for what, p := range next {
			h := p.grantedBy(killed.Add(bound))
			t.Logf("%s: succeeded %v after the kill", what, p.at.Sub(killed).Round(time.Millisecond))
			if int64(h.Token) <= was[what].Token || h.Session == was[what].Session {
				t.Errorf("%s: %+v after %+v", what, h, was[what])
			}
			h.mustRelease(t)
		}

		for what, n := range map[string]int{"waiters": 3, "between": 3, "readers": 2} {
			w := map[string]way{"waiters": aLock, "between": aRead, "readers": aRead}[what]
			w.queued(t, c, name(what), n)
		}
		if a.over() || b.over() || writer.over() {
			t.Error("the death of a waiter admitted the one behind it while another holds")
		}
		first.mustRelease(t)
		h := a.granted()
		if b.over() {
			t.Error("the second of the waiters was admitted beside the first")
		}
		h.mustRelease(t)
		if last := b.granted(); last.Token <= h.Token {
			t.Errorf("token %d after %d", last.Token, h.Token)
		}
		// While the first of the readers still reads.
		r2.granted().mustRelease(t)
		r3.granted().mustRelease(t)
		if reader.Err() != nil || living.Err() != nil {
			t.Errorf("the live readers: %v, %v", reader.Err(), living.Err())
		}
		living.mustRelease(t)
		writer.granted()
	})
}
