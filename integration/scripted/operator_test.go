package scripted_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/integration/internal/ways"
)

// removes deletes all entries of a name, as an operator does.
func (w *world) removes(way ways.Way, name string) {
	w.Helper()
	for _, e := range w.queued(way, name) {
		if !w.Remove(driver.NewQueue(recipeOf[way], name), e.Key) {
			w.Errorf("%s: there is no entry %s", way, e.Key)
		}
	}
}

// An entry is deleted before and after the hold watches it. That hold ends, and
// no other of its session.
func TestEntryDeletedByAnOperatorEndsTheHold(t *testing.T) {
	each(t, func(w *world) {
		c := w.client()
		for _, way := range ways.Each {
			other := c.take(way, "other "+string(way))
			for _, watched := range []bool{false, true} {
				h := c.take(way, string(way))
				if watched {
					settle()
				}
				w.removes(way, string(way))
				settle()
				w.must(string(way)+" ended", context.Cause(h.Context), coordinator.ErrRemoved)
				w.must(string(way)+" released", h.Release(w.Context()), coordinator.ErrRemoved)
			}
			if other.Err() != nil {
				w.Errorf("%s: another hold of the session: %v", way, other.Err())
			}
		}
	})
}

// A whole queue is deleted. Holder and waiter are notified, at the latest when
// the waiter has been granted what is gone.
func TestQueueDeletedByAnOperator(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		for _, way := range ways.Alone {
			h := c.take(way, string(way))
			waiter := other.begin(way, string(way), 2)
			settle()
			w.removes(way, string(way))
			settle()
			w.must("the holder", context.Cause(h.Context), coordinator.ErrRemoved)
			if waiter.await(); waiter.err == nil {
				waiter.err = context.Cause(waiter.hold.Context)
			}
			waiter.fails(coordinator.ErrRemoved)
			w.succeeds(way, h, c.take(way, string(way)))
		}
	})
}

// An operator ends a session whose renewals are a minute apart.
func TestSessionEndedByAnOperatorIsNoticedBeforeTheNextRenewal(t *testing.T) {
	each(t, func(w *world) {
		c, killer := w.client(coordinator.WithTTL(10*time.Minute)), w.client()
		for _, way := range ways.Alone {
			h := c.take(way, string(way))
			waiter := c.begin(way, string(way), 2)
			settle()
			w.Expire(h.Session)
			settle()
			if !waiter.over() || !isLoss(waiter.err) || !isLoss(h.Err()) {
				w.Errorf("%s: the waiter has %v, the hold %v", way, waiter.err, h.Err())
			}
			w.release(killer.take(way, string(way)))
			w.succeeds(way, h, c.take(way, string(way))) // on a new session
		}
	})
}

// The predecessor leaves while the waiter is away, and those revisions are
// compacted.
func TestWaiterSurvivesCompaction(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(coordinator.WithTTL(6*ttl)), w.client()
		for _, way := range ways.Each {
			for _, away := range []func(){c.link.Cut, func() { c.link.Cut(); c.link.Reset() }} {
				h := other.take(way.Shut(), string(way))
				waiter := c.begin(way, string(way), 2)
				settle()
				away()
				w.release(h)
				w.release(other.take(ways.Lock, "noise"))
				w.compact()
				c.link.Heal()
				if settle(); !waiter.over() {
					w.Errorf("%s: the wake-up was lost with the compacted revisions", way)
				}
				w.release(waiter.granted())
			}
		}
	})
}

// ZooKeeper removes the empty queue, and its sequence numbers begin again.
func TestTokensRiseAfterTheQueueWasReaped(t *testing.T) {
	each(t, func(w *world) {
		c := w.client()
		for _, way := range ways.Each {
			first := c.take(way, string(way))
			was := w.queued(way, string(way))[0].Key
			w.release(first)
			time.Sleep(3 * time.Minute)
			w.succeeds(way, first, c.take(way, string(way)))
			now := w.queued(way, string(way))[0].Key
			if w.kind == "zookeeper" && was[len(was)-10:] != now[len(now)-10:] {
				w.Errorf("%s after %s: the queue was not reaped, the test shows nothing", now, was)
			}
		}
	})
}
