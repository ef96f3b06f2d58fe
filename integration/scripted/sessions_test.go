package scripted_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/integration/internal/ways"
	"github.com/baton-go/baton/mutex"
)

// An operator ends the session. Every hold ends, and every waiter returns and
// is never granted. Releases delete none of the current entries. New requests
// use a new session.
func TestLostSessionEndsItsHoldsAndItsWaits(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		held, next := map[ways.Way]hold{}, map[ways.Way]*pending{}
		blocking, waiting := map[ways.Way]hold{}, map[ways.Way]*pending{}
		for _, way := range ways.Each {
			held[way] = c.take(way, "held "+string(way))
			next[way] = other.begin(way.Shut(), "held "+string(way), 2)
			blocking[way] = other.take(way.Shut(), "waited "+string(way))
			waiting[way] = c.begin(way, "waited "+string(way), 2)
		}
		settle()
		c.link.Expire()
		settle() // which is shorter than the time to the next renewal
		for _, way := range ways.Each {
			if !waiting[way].over() || !isLoss(waiting[way].err) {
				w.Errorf("%s: the waiter: %v", way, waiting[way].err)
			}
			h, n := held[way], next[way].granted()
			if !isLoss(context.Cause(h.Context)) || !isLoss(h.Err()) {
				w.Errorf("%s: ended with %v", way, context.Cause(h.Context))
			}
			for range 2 { // also the second call
				if err := h.Release(w.Context()); !isLoss(err) && !errors.Is(err, coordinator.ErrNotHeld) {
					w.Errorf("%s: release of a lost hold: %v", way, err)
				}
			}
			w.holds(way, "held "+string(way), 1)
			again := c.begin(way.Shut(), "held "+string(way), 2)
			w.release(n)
			w.succeeds(way, n, again.granted())
			if again.hold.Session == h.Session {
				w.Errorf("%s: it holds on the session that was lost", way)
			}
			w.release(blocking[way])
			settle()
			w.holds(way, "waited "+string(way), 0)
		}
	})
}

// Requests arrive, but replies are held for longer than the TTL. The holder's
// context ends before the next is admitted, and the late replies change
// nothing.
func TestLateRepliesDoNotReviveAHold(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		held, next := map[ways.Way]hold{}, map[ways.Way]*pending{}
		for _, way := range ways.Alone {
			held[way] = c.take(way, string(way))
			next[way] = other.begin(way, string(way), 2)
		}
		c.link.HoldReplies()
		time.Sleep(ttl) // nothing but the clock can tell it
		for _, way := range ways.Alone {
			if held[way].Err() == nil || held[way].Context.Err() == nil {
				w.Errorf("%s: it holds after a TTL without a reply", way)
			}
		}
		time.Sleep(ttl / 2)
		c.link.Heal() // all held replies arrive now
		settle()
		for _, way := range ways.Alone {
			w.succeeds(way, held[way], next[way].granted())
			w.must(string(way), held[way].Release(w.Context()), coordinator.ErrSessionLost)
			w.release(next[way].hold)
		}
		if h := c.take(ways.Lock, "again"); h.Session == held[ways.Lock].Session {
			w.Errorf("session %s was revived", h.Session)
		}
	})
}

// The service has granted, but the reply takes longer than the session lives.
func TestGrantIsDroppedWhenItsReplyArrivesAfterTheSessionEnded(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		first := c.take(ways.Lock, "a") // opens the session and creates the queue
		w.release(first)
		met := w.once(c, joins, memory.Fate{DelayReply: 3 * ttl / 2})
		p := c.start(w.Context(), ways.Lock, "a")
		w.holds(ways.Lock, "a", 1)
		c.link.HoldRequests() // otherwise renewals would keep the session alive
		n := other.take(ways.Lock, "a")
		if !met() || p.over() && p.err == nil && p.hold.Err() == nil {
			w.Errorf("two hold: %+v and %+v", p.hold, n)
		}
		time.Sleep(ttl * 6 / 10) // the reply arrives, while requests are still held
		if p.over() && p.err == nil && p.hold.Err() == nil {
			w.Errorf("two hold after the late reply: %+v and %+v", p.hold, n)
		}
		c.link.Heal()
		settle()
		if p.over() && p.err == nil && p.hold.Err() == nil {
			w.Errorf("two hold after the cut: %+v and %+v", p.hold, n)
		}
		w.release(n)
		if p.await(); p.err == nil && (p.hold.Session == first.Session || p.hold.Token <= n.Token) {
			w.Errorf("Lock returned %+v, of session %s", p.hold, first.Session)
		}
	})
}

// A reconnect keeps the session and what is held on it. After a loss no inner
// release touches a current entry.
func TestHoldIsReenteredOverReconnectsAndEndsWithItsSession(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		m, err := mutex.New(c.Client, "a")
		w.ok(err)
		l, err := m.Lock(w.Context())
		w.ok(err)
		for range 3 {
			c.link.Reset()
			inner, err := m.Lock(l.Context())
			w.ok(err)
			c.link.Reset()
			w.ok(inner.Unlock(w.Context()))
			w.must("inner Unlock again", inner.Unlock(w.Context()), coordinator.ErrNotHeld)
			settle()
			if w.holds(ways.Lock, "a", 1); inner.Token() != l.Token() || l.Err() != nil {
				w.Fatalf("after the reconnect: %d, %d, %v", inner.Token(), l.Token(), l.Err())
			}
		}
		inner, err := m.Lock(l.Context())
		w.ok(err)
		c.link.Expire()
		n := other.take(ways.Lock, "a")
		settle()
		if _, err := m.Lock(l.Context()); !isLoss(err) {
			w.Errorf("re-entered after the loss: %v", err)
		}
		for _, h := range []*mutex.Lock{inner, l} {
			if err := h.Unlock(w.Context()); !isLoss(err) {
				w.Errorf("Unlock after the loss: %v", err)
			}
		}
		settle()
		if w.holds(ways.Lock, "a", 1); n.Err() != nil {
			w.Errorf("the next hold ended: %v", n.Err())
		}
	})
}

// Every connection is reset twice in quick succession while one holds and
// others wait, and once when an entry goes.
func TestQuickReconnectsLeaveOneHolder(t *testing.T) {
	each(t, func(w *world) {
		for _, way := range ways.Alone {
			var all []*client
			var asked []*pending
			for i := range 3 {
				all = append(all, w.client())
				asked = append(asked, all[i].begin(way, string(way), i+1))
			}
			shake := func() {
				for _, c := range all {
					c.link.Reset()
				}
			}
			for i, p := range asked {
				h := p.granted()
				shake()
				time.Sleep(20 * time.Millisecond)
				shake()
				settle()
				for _, later := range asked[i+1:] {
					if later.over() {
						w.Errorf("%s: a second holder: %+v, %v", way, later.hold, later.err)
					}
				}
				if w.holds(way, string(way), len(asked)-i); h.Err() != nil {
					w.Errorf("%s: after the resets it has %v", way, h.Err())
				}
				go shake()
				w.release(h)
			}
			w.holds(way, string(way), 0)
		}
	})
}
