package scripted_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/ways"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/once"
)

// The request to join or to leave is lost once, or its reply is. There is one
// entry, then none, and the next hold is not disturbed.
func TestLostRequestsAndReplies(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		for _, way := range ways.Alone {
			name := string(way)
			w.release(c.take(way, name))
			for what, fate := range map[string]memory.Fate{"request": {DropRequest: true}, "reply": {DropReply: true}} {
				met := w.once(c, joins, fate)
				h := c.take(way, name)
				w.holds(way, name, 1)
				next := other.begin(way, name, 2)
				if !met() {
					w.Errorf("%s: no %s to join was lost: the test shows nothing", way, what)
				}
				met = w.once(c, leaves, fate)
				w.release(h)
				w.must("second release", h.Release(w.Context()), coordinator.ErrNotHeld)
				w.succeeds(way, h, next.granted())
				if !met() {
					w.Errorf("%s: no %s to leave was lost: the test shows nothing", way, what)
				}
				settle()
				if w.holds(way, name, 1); next.hold.Err() != nil {
					w.Errorf("%s: the next hold ended: %v", way, next.hold.Err())
				}
				w.release(next.hold)
			}
		}
	})
}

// The join was applied, its reply is lost, nothing passes, and the caller times
// out. The queue is empty when the network is back, on the same session.
func TestTimedOutLockWithALostReplyLeavesNoEntry(t *testing.T) {
	each(t, func(w *world) {
		c := w.client()
		for _, way := range []ways.Way{ways.Lock, ways.Write, ways.Read, ways.Term} {
			before := c.take(way, string(way))
			w.release(before)
			c.link.HoldReplies()
			ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
			p := c.start(ctx, way, string(way))
			w.holds(way, string(way), 1)
			c.link.Cut() // the removal of the entry cannot pass either
			p.fails(coordinator.ErrUnavailable)
			p.fails(context.DeadlineExceeded)
			if cancel(); coordinator.MayHaveApplied(p.err) {
				w.Errorf("%s: %v says that something may be held", way, p.err)
			}
			c.link.Heal()
			settle()
			w.holds(way, string(way), 0)
			after := c.take(way, string(way))
			if after.Session != before.Session {
				w.Errorf("%s: the entry may have gone with its session", way)
			}
			w.release(after)
			time.Sleep(ttl)
		}
	})
}

// The call fails, and the release goes on in the background.
func TestTimedOutReleaseFinishesInTheBackground(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		for _, hinder := range []func(){c.link.HoldRequests, c.link.HoldReplies, func() { c.link.Cut(); c.link.Reset() }} {
			held, next := map[ways.Way]hold{}, map[ways.Way]*pending{}
			for _, way := range ways.Alone {
				held[way] = c.take(way, string(way))
				next[way] = other.begin(way, string(way), 2)
			}
			settle()
			hinder()
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			var all sync.WaitGroup
			for _, way := range ways.Alone {
				all.Go(func() {
					err := held[way].Release(ctx)
					if w.must(string(way), err, context.DeadlineExceeded); !coordinator.MayHaveApplied(err) {
						w.Errorf("%s: the release that timed out: %v", way, err)
					}
				})
			}
			all.Wait()
			cancel()
			c.link.Heal()
			settle()
			for _, way := range ways.Alone {
				if !next[way].over() {
					w.Errorf("%s: the next is not admitted", way)
				}
				w.succeeds(way, held[way], next[way].granted())
				w.release(next[way].hold)
				w.holds(way, string(way), 0)
			}
		}
	})
}

// The service is down, and comes back with its data. The cancelled waiter is
// gone within two seconds; session, hold and other waiter live on.
func TestWaiterCancelledWhileTheServiceIsDownIsRemoved(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		for _, way := range ways.Alone {
			h := c.take(way, string(way))
			ctx, cancel := context.WithCancel(w.Context())
			cancelled := c.start(ctx, way, string(way))
			w.holds(way, string(way), 2)
			stays := other.begin(way, string(way), 3)
			settle()
			w.Stop()
			cancel()
			cancelled.fails(context.Canceled)
			w.holds(way, string(way), 3)
			w.Start()
			time.Sleep(2 * time.Second)
			if w.holds(way, string(way), 2); h.Err() != nil || stays.over() {
				w.Errorf("%s: the holder has %v", way, h.Err())
			}
			w.release(h)
			w.succeeds(way, h, stays.granted())
			w.release(stays.hold)
			time.Sleep(ttl)
		}
	})
}

// No member answers, or there is none: every call returns with its context.
func TestNothingHangsWhenNoServerAnswers(t *testing.T) {
	each(t, func(w *world) {
		for _, kind := range []string{"silent", "refused"} {
			c := w.client()
			if kind == "silent" {
				c.link.Cut()
			} else {
				w.Stop()
			}
			m, err := mutex.New(c.Client, "a")
			w.ok(err)
			calls := map[string]func(context.Context) error{
				"Session":    func(ctx context.Context) error { _, err := c.Session(ctx); return err },
				"TryLock":    func(ctx context.Context) error { _, err := m.TryLock(ctx); return err },
				"Contenders": func(ctx context.Context) error { _, err := m.Contenders(ctx); return err },
				"Do": func(ctx context.Context) error {
					return m.Do(ctx, func(context.Context, *mutex.Lock) error { w.Error("work ran"); return nil })
				},
			}
			for _, way := range ways.Each {
				calls[string(way)] = func(ctx context.Context) error { _, err := way.Ask(ctx, c.Client, "a"); return err }
			}
			calls["Close"] = c.Close
			for _, what := range append([]string{"Session", "TryLock", "Contenders", "Do"}, "lock", "write", "read", "term", "two permits", "Close") {
				began := time.Now()
				ctx, cancel := context.WithTimeout(w.Context(), 700*time.Millisecond)
				err := calls[what](ctx)
				if took := time.Since(began); took > 710*time.Millisecond {
					w.Errorf("%s, %s: returned after %v", kind, what, took)
				}
				if cancel(); what != "Close" && (!errors.Is(err, coordinator.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded)) {
					w.Errorf("%s, %s: %v, want unavailable and deadline exceeded", kind, what, err)
				}
			}
		}
		w.Start()
	})
}

// Requests arrive, replies do not. Close cannot know that it succeeded, but the
// session ends, and long before its TTL.
func TestCloseEndsTheSessionWithoutAReply(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(coordinator.WithTTL(6*ttl)), w.client(coordinator.WithTTL(6*ttl))
		h := c.take(ways.Lock, "a")
		next := other.begin(ways.Lock, "a", 2)
		settle()
		w.fates(func(m simulation.Message) memory.Fate {
			switch m.Op {
			case "close", "revoke", "closeSession":
				return memory.Fate{DelayReply: ttl}
			}
			return memory.Fate{}
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), ttl/2)
		defer cancel()
		if err := c.Close(ctx); err != nil && !errors.Is(err, coordinator.ErrUnavailable) {
			w.Errorf("Close: %v", err)
		}
		w.succeeds(ways.Lock, h, next.granted())
		if took := next.hold.at.Sub(began); took > ttl {
			w.Errorf("the next was granted after %v", took)
		}
	})
}

// Four clients contend while their connections break again and again, or are
// slow: no two hold at once, tokens rise, and there is progress.
func TestBrokenAndSlowLinksKeepOrder(t *testing.T) {
	each(t, func(w *world) {
		for what, disturb := range map[string]func(r *rand.Rand, c *client){
			"resets": func(_ *rand.Rand, c *client) { c.link.Reset() },
			"delays": func(r *rand.Rand, c *client) {
				c.link.Delay(time.Duration(r.IntN(400))*time.Millisecond, time.Duration(r.IntN(400))*time.Millisecond)
			},
		} {
			ctx, stop := context.WithCancel(w.Context())
			var all sync.WaitGroup
			var mu sync.Mutex
			var last ways.Hold
			grants := 0
			for i := range 4 {
				c, r := w.client(), rand.New(rand.NewPCG(1, uint64(i)))
				long := c.take(ways.Lock, what+string(rune('0'+i)))
				all.Go(func() {
					for ctx.Err() == nil {
						h, err := ways.Lock.Ask(ctx, c.Client, what)
						time.Sleep(5 * time.Millisecond)
						if err != nil {
							continue
						}
						mu.Lock()
						if last.Err != nil && last.Err() == nil || h.Token <= last.Token {
							w.Errorf("%s: token %d after %d, which holds", what, h.Token, last.Token)
						}
						last = h
						grants++
						mu.Unlock()
						w.must("release", h.Release(w.Context()), nil)
					}
				})
				all.Go(func() {
					for ctx.Err() == nil {
						disturb(r, c)
						// A client dials again within a quarter of a second,
						// and has nine renewals before a session counts as
						// lost.
						time.Sleep(ttl / 20)
					}
					c.link.Delay(0, 0)
					if err := long.Err(); err != nil {
						w.Errorf("%s: a hold was lost: %v", what, err)
					}
				})
			}
			for enough, end := false, time.Now().Add(3*ttl); !enough && time.Now().Before(end); {
				time.Sleep(ttl)
				mu.Lock()
				enough = grants >= 10 // each may take some delays
				mu.Unlock()
			}
			stop()
			all.Wait()
			settle()
			if w.holds(ways.Lock, what, 0); grants < 10 {
				w.Errorf("%s: %d grants", what, grants)
			}
		}
	})
}

// The replies to four clients are lost again and again, after their requests
// were applied. The work of each key is called once, and all calls return nil.
func TestWorkRunsOncePerKeyWithLostReplies(t *testing.T) {
	each(t, func(w *world) {
		var mu sync.Mutex
		r, lost, calls := rand.New(rand.NewPCG(3, 4)), 0, map[string]int{}
		var jobs []*once.Once
		for range 4 {
			o, err := once.New(w.client().Client, "job")
			w.ok(err)
			_, err = o.Runs(w.Context())
			w.ok(err)
			jobs = append(jobs, o)
		}
		w.fates(func(simulation.Message) memory.Fate {
			if r.IntN(6) > 0 {
				return memory.Fate{}
			}
			lost++
			return memory.Fate{DropReply: true}
		})
		var all sync.WaitGroup
		for _, o := range jobs {
			all.Go(func() {
				for hour := range 10 {
					key := once.At(time.Unix(int64(hour)*3600, 0))
					w.must("Do", o.Do(w.Context(), key, func(context.Context, *once.Hold) error {
						mu.Lock()
						defer mu.Unlock()
						calls[key]++
						return nil
					}), nil)
				}
			})
		}
		all.Wait()
		w.fates(nil)
		for key, n := range calls {
			if n != 1 || len(calls) != 10 || lost < 20 {
				w.Errorf("%s: %d calls; %d keys, %d lost replies", key, n, len(calls), lost)
			}
		}
	})
}

// The replies to four clients are lost again and again, after their requests
// were applied. All additions succeed, so the value is their number.
func TestAdditionsWithLostRepliesAreExact(t *testing.T) {
	each(t, func(w *world) {
		const clients, apiece = 4, 20
		var mu sync.Mutex
		r, lost, sums := rand.New(rand.NewPCG(1, 2)), 0, map[int64]bool{}
		var all sync.WaitGroup
		var counters []*counter.Counter
		for range clients {
			c, err := counter.New(w.client().Client, "exact")
			w.ok(err)
			_, err = c.Get(w.Context())
			w.ok(err)
			counters = append(counters, c)
		}
		w.fates(func(simulation.Message) memory.Fate {
			if r.IntN(4) > 0 {
				return memory.Fate{}
			}
			lost++
			return memory.Fate{DropReply: true}
		})
		for _, c := range counters {
			all.Go(func() {
				for range apiece {
					sum, err := c.Add(w.Context(), 1)
					mu.Lock()
					if err != nil || sums[sum] {
						w.Errorf("sum %d, again %v: %v", sum, sums[sum], err)
					}
					sums[sum] = true
					mu.Unlock()
				}
			})
		}
		all.Wait()
		w.fates(nil)
		last, err := counters[0].Get(w.Context())
		if err != nil || last != clients*apiece || lost < clients*apiece/4 {
			w.Errorf("the value is %d after %d additions and %d lost replies: %v", last, clients*apiece, lost, err)
		}
	})
}
