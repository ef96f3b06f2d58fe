package scripted_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/ways"
)

// The service restarts when a holder has crashed, and all sessions get their
// TTL anew: live ones go on, and the dead one ends.
func TestCrashDuringARestartOfTheService(t *testing.T) {
	each(t, func(w *world) {
		c, other, victim := w.client(coordinator.WithTTL(3*ttl)), w.client(coordinator.WithTTL(3*ttl)), w.client()
		lives, dead, next := map[ways.Way]hold{}, map[ways.Way]hold{}, map[ways.Way]*pending{}
		for _, way := range ways.Alone {
			lives[way] = c.take(way, "lives "+string(way))
			dead[way] = victim.take(way, "dies "+string(way))
			next[way] = other.begin(way, "dies "+string(way), 2)
		}
		settle()
		victim.crash()
		w.Stop()
		settle()
		w.Start()
		began := time.Now()
		for _, way := range ways.Alone {
			w.succeeds(way, dead[way], next[way].granted())
			if took := next[way].hold.at.Sub(began); took > ttl+late {
				w.Errorf("%s: the dead holder was succeeded after %v", way, took)
			}
		}
		time.Sleep(6 * ttl)
		for _, way := range ways.Alone {
			if lives[way].Err() != nil {
				w.Errorf("%s: lost in the restart: %v", way, lives[way].Err())
			}
			w.release(lives[way])
		}
	})
}

// Nineteen of twenty contenders crash: that is one TTL, not nineteen.
func TestLastWaiterIsGrantedAfterOneTTLWhenAllOthersCrash(t *testing.T) {
	each(t, func(w *world) {
		var others []*client
		for i := range 19 {
			c := w.client()
			c.start(w.Context(), ways.Lock, "a")
			w.holds(ways.Lock, "a", i+1)
			others = append(others, c)
		}
		last := w.client().begin(ways.Lock, "a", 20)
		settle()
		crashed := time.Now()
		for _, c := range others {
			c.crash()
		}
		if took := last.granted().at.Sub(crashed); took > ttl+late {
			w.Errorf("granted after %v", took)
		}
		if n := len(w.queued(ways.Lock, "a")); n != 1 {
			w.Errorf("granted behind %d others", n-1)
		}
		w.release(last.hold)
	})
}

// A client that holds, waits, reads and leads crashes. It is the first, the
// middle and the last waiter of a queue, a writer between readers, and one of
// two readers ahead of a writer.
func TestCrashedClientIsSucceeded(t *testing.T) {
	each(t, func(w *world) {
		c, victim := w.client(), w.client()
		was, next := map[ways.Way]hold{}, map[ways.Way]*pending{}
		for _, way := range ways.Alone {
			was[way] = victim.take(way, string(way))
			next[way] = c.begin(way, string(way), 2)
		}
		first := c.take(ways.Lock, "waiters")
		victim.begin(ways.Lock, "waiters", 2)
		a := c.begin(ways.Lock, "waiters", 3)
		victim.begin(ways.Lock, "waiters", 4)
		b := c.begin(ways.Lock, "waiters", 5)
		victim.begin(ways.Lock, "waiters", 6)
		reader := c.take(ways.Read, "between")
		victim.begin(ways.Write, "between", 2)
		behind := c.begin(ways.Read, "between", 3)
		living := c.take(ways.Read, "readers")
		victim.take(ways.Read, "readers")
		writer := c.begin(ways.Write, "readers", 3)
		settle()
		crashed := time.Now()
		victim.crash()
		for _, way := range ways.Alone {
			n := next[way].granted()
			w.succeeds(way, was[way], n)
			if took := n.at.Sub(crashed); took > ttl+late {
				w.Errorf("%s: succeeded after %v", way, took)
			}
		}
		settle()
		w.holds(ways.Lock, "waiters", 3)
		if a.over() || b.over() || writer.over() {
			w.Error("the death of a waiter admitted the one behind it while another holds")
		}
		w.release(first)
		w.release(a.granted())
		w.succeeds(ways.Lock, a.hold, b.granted())
		if !behind.over() || reader.Err() != nil || living.Err() != nil {
			w.Errorf("the live readers: %v, %v, %v", behind.over(), reader.Err(), living.Err())
		}
		w.release(living)
		writer.granted()
	})
}

// survives is the longest outage that holders survive according to docs/ttl.md.
// ZooKeeper's tick is not given.
func (w *world) survives() time.Duration {
	if w.kind == "zookeeper" {
		return ttl * 45 / 100
	}
	return ttl * 75 / 100
}

// The cut is as long as an outage may last according to docs/ttl.md. A waiter
// whose predecessor leaves meanwhile is granted after it.
func TestShortCutIsSurvived(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		held, next := map[ways.Way]hold{}, map[ways.Way]*pending{}
		ahead, waiting := map[ways.Way]hold{}, map[ways.Way]*pending{}
		for _, way := range ways.Alone {
			held[way] = c.take(way, string(way))
			next[way] = other.begin(way, string(way), 2)
			ahead[way] = other.take(way, "ahead "+string(way))
			waiting[way] = c.begin(way, "ahead "+string(way), 2)
		}
		for _, cut := range []func(){c.link.Cut, c.link.HoldRequests, c.link.HoldReplies} {
			time.Sleep(ttl)
			cut()
			for way, h := range ahead { // in the first round
				w.release(h)
				delete(ahead, way)
			}
			time.Sleep(w.survives())
			c.link.Heal()
			settle()
			for _, way := range ways.Alone {
				if held[way].Err() != nil || next[way].over() || waiting[way].granted().Err() != nil {
					w.Errorf("%s: after the cut: %v", way, held[way].Err())
				}
			}
		}
		for _, way := range ways.Alone {
			w.release(held[way])
			w.succeeds(way, held[way], next[way].granted())
		}
	})
}

// The waiter is cut off for longer than its TTL while its predecessor leaves.
func TestWaiterThatIsCutOffReturnsTheLoss(t *testing.T) {
	each(t, func(w *world) {
		far, near := w.client(), w.client()
		for _, way := range ways.Alone {
			h := near.take(way, string(way))
			waiter := far.begin(way, string(way), 2)
			settle()
			far.link.Cut()
			w.release(h)
			waiter.fails(coordinator.ErrSessionLost)
			far.link.Heal()
			w.release(near.take(way, string(way)))
			w.holds(way, string(way), 0)
		}
	})
}

// The holds are released at once, and the waiters return an error.
func TestCloseReleasesHoldsAndEndsWaits(t *testing.T) {
	each(t, func(w *world) {
		other, leaver := w.client(), w.client()
		held, next, waiting := map[ways.Way]hold{}, map[ways.Way]*pending{}, map[ways.Way]*pending{}
		for _, way := range ways.Alone {
			held[way] = leaver.take(way, "held "+string(way))
			next[way] = other.begin(way, "held "+string(way), 2)
			other.take(way, "waited "+string(way))
			waiting[way] = leaver.begin(way, "waited "+string(way), 2)
		}
		settle()
		began := time.Now()
		w.ok(leaver.Close(w.Context()))
		for _, way := range ways.Alone {
			w.must(string(way), held[way].Err(), coordinator.ErrClosed)
			waiting[way].fails(coordinator.ErrClosed)
			w.holds(way, "waited "+string(way), 1)
			w.succeeds(way, held[way], next[way].granted())
			if took := next[way].hold.at.Sub(began); took > time.Second {
				w.Errorf("%s: the next was granted after %v", way, took)
			}
		}
	})
}

// Calls are cancelled before the join, during it, while they wait, and while
// the grant is on its way. Whatever a call returned, it leaves no entry.
func TestCancellationAtAnyMomentLeavesNothing(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		r := rand.New(rand.NewPCG(1, 2))
		for _, way := range ways.Each {
			granted := 0
			for range 60 {
				first := other.take(way.Shut(), string(way))
				ctx, cancel := context.WithCancel(w.Context())
				p := c.start(ctx, way, string(way))
				time.AfterFunc(time.Duration(r.Int64N(int64(4*time.Millisecond))), cancel)
				time.Sleep(time.Duration(r.Int64N(int64(2 * time.Millisecond))))
				w.release(first)
				switch p.await(); {
				case p.err == nil:
					granted++
					w.release(p.hold)
				case !errors.Is(p.err, context.Canceled):
					w.Errorf("%s: %v", way, p.err)
				}
				cancel()
				settle()
				w.holds(way, string(way), 0)
			}
			if w.kind != "memory" && (granted == 0 || granted == 60) {
				w.Errorf("%s: %d granted: the test shows nothing", way, granted)
			}
		}
	})
}

// An identity is for people to read.
func TestClientsWithTheSameIdentityExcludeEachOther(t *testing.T) {
	each(t, func(w *world) {
		a, b := w.client(coordinator.WithIdentity("replica")), w.client(coordinator.WithIdentity("replica"))
		for _, way := range ways.Alone {
			one := a.take(way, string(way))
			two := b.begin(way, string(way), 2)
			settle()
			if two.over() {
				w.Errorf("%s: two hold", way)
			}
			w.release(one)
			w.succeeds(way, one, two.granted())
			w.holds(way, string(way), 1)
		}
	})
}

// Goroutines of one client need no sessions of their own, and leave nothing
// behind. The connections break meanwhile.
func TestManyGoroutinesShareOneSession(t *testing.T) {
	each(t, func(w *world) {
		const names, apiece = 24, 10
		c := w.client()
		name := func(i int) string { return string(rune('a' + i%names)) }
		inside, last := make([]int, names), make([]coordinator.Token, names)
		session := c.take(ways.Lock, "session").Session
		var all sync.WaitGroup
		for i := range names * apiece {
			all.Go(func() {
				h, err := ways.Lock.Ask(w.Context(), c.Client, name(i))
				if err != nil || h.Session != session || h.Token <= last[i%names] {
					w.Errorf("%s: %+v after token %d, session %s: %v", name(i), h, last[i%names], session, err)
					return
				}
				last[i%names] = h.Token
				if inside[i%names]++; inside[i%names] > 1 { // only the lock protects it
					w.Errorf("%s: two hold", name(i))
				}
				time.Sleep(time.Millisecond)
				inside[i%names]--
				w.must("release", h.Release(w.Context()), nil)
			})
		}
		for range 5 {
			time.Sleep(time.Duration(1+rand.IntN(5)) * time.Millisecond)
			c.link.Reset()
		}
		all.Wait()
		settle()
		for i := range names {
			w.holds(ways.Lock, name(i), 0)
		}
		if n := w.Stats().Sessions; n != 1 {
			w.Errorf("%d sessions", n)
		}
		if n := c.sent(); n > 20*names*apiece {
			w.Errorf("%d requests for %d locks", n, names*apiece)
		}
	})
}
