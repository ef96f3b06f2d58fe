package recipes_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// counted is a driver that counts the calls of a handoff, in all its sessions.
type counted struct {
	*memory.Driver
	reads, watches, follows, passes, leaves atomic.Int32
}

func (c *counted) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := c.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return countedSession{coordinatortest.WithCapabilities(s), c}, nil
}

type countedSession struct {
	coordinatortest.Full
	c *counted
}

// Capabilities returns the session's, some of them replaced.
func (s countedSession) Capabilities() driver.Capabilities { return s.Offer(s) }

func (s countedSession) Ahead(ctx context.Context, queue driver.Queue,
	own driver.Place) (driver.View, error) {
	s.c.reads.Add(1)
	return s.Full.Ahead(ctx, queue, own)
}

func (s countedSession) Watch(ctx context.Context, queue driver.Queue,
	places ...driver.Place) error {
	s.c.watches.Add(1)
	return s.Full.Watch(ctx, queue, places...)
}

func (s countedSession) Follow(ctx context.Context, queue driver.Queue, own,
	ahead driver.Place) (bool, error) {
	s.c.follows.Add(1)
	return s.Full.Follow(ctx, queue, own, ahead)
}

func (s countedSession) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	s.c.passes.Add(1)
	return s.Full.Pass(ctx, queue, own)
}

func (s countedSession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	s.c.leaves.Add(1)
	return s.Full.Leave(ctx, queue, own)
}

// made counts the calls of a client.
type made struct{ reads, watches, follows, passes, leaves int32 }

// runner is a client with one of each recipe.
type runner struct {
	*testing.T
	svc  *memory.Service
	link *counted
	m    *mutex.Mutex
	rw   *rwlock.RWLock
	sem  *semaphore.Semaphore
	e    *election.Election
}

// runners are clients of a service.
func runners(t *testing.T, f func(a, b, c *runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		var all [3]*runner
		for i := range all {
			p := &runner{T: t, svc: svc, link: &counted{Driver: svc.Driver()}}
			c, err := coordinator.New(p.link, quiet)
			check(t, err)
			defer c.Close(context.Background())
			endWithTest(t, p.link.Driver, c)
			p.m, _ = mutex.New(c, "n")
			p.rw, _ = rwlock.New(c, "n")
			p.sem, _ = semaphore.New(c, "n", 2)
			p.e, _ = election.New(c, "n")
			all[i] = p
		}
		f(all[0], all[1], all[2])
		synctest.Wait()
		if st := svc.Stats(); st.Entries != 0 || st.Watches != 0 {
			t.Errorf("left at the service: %+v", st)
		}
	})
}

// calls checks the calls of a client since the last check.
func (p *runner) calls(what string, want made) {
	p.Helper()
	synctest.Wait()
	c := p.link
	got := made{c.reads.Swap(0), c.watches.Swap(0), c.follows.Swap(0), c.passes.Swap(0),
		c.leaves.Swap(0)}
	if got != want {
		p.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// attempt is a call that waits, of any recipe.
type attempt struct {
	cancel context.CancelFunc
	got    chan error
	h      interface{ Context() context.Context }
	give   func(context.Context) error
}

// begin starts a call, and returns when all goroutines are blocked.
func begin[H interface{ Context() context.Context }](ask func(context.Context) (H, error),
	give func(H, context.Context) error) *attempt {
	ctx, cancel := context.WithCancel(context.Background())
	g := &attempt{cancel: cancel, got: make(chan error, 1)}
	go func() {
		h, err := ask(ctx)
		g.h, g.give = h, func(ctx context.Context) error { return give(h, ctx) }
		g.got <- err
	}()
	synctest.Wait()
	return g
}

func (p *runner) lock() *attempt  { return begin(p.m.Lock, (*mutex.Lock).Unlock) }
func (p *runner) write() *attempt { return begin(p.rw.Lock, (*rwlock.Lock).Unlock) }
func (p *runner) read() *attempt  { return begin(p.rw.RLock, (*rwlock.Lock).Unlock) }

func (p *runner) campaign() *attempt {
	return begin(func(ctx context.Context) (*election.Term,
		error) {
		return p.e.Campaign(ctx, nil)
	}, (*election.Term).Resign)
}

func (p *runner) acquire(n int) *attempt {
	return begin(func(ctx context.Context) (*semaphore.Permit,
		error) {
		return p.sem.Acquire(ctx, n)
	}, (*semaphore.Permit).Release)
}

// serve waits for the grant and releases it.
func (p *runner) serve(g *attempt) {
	p.Helper()
	check(p, <-g.got)
	if err := g.give(context.Background()); err != nil {
		p.Errorf("release: %v", err)
	}
	synctest.Wait()
}

// TestHandOverNeedsNoRead: a join returns the predecessor, and a release
// notifies the successor.
func TestHandOverNeedsNoRead(t *testing.T) {
	for what, ask := range map[string]func(*runner) *attempt{
		"mutex": (*runner).lock, "write lock": (*runner).write, "election": (*runner).campaign,
	} {
		t.Run(what, func(t *testing.T) {
			runners(t, func(a, b, c *runner) {
				first, second, third := ask(a), ask(b), ask(c)
				a.calls("first", made{})
				b.calls("behind the first", made{follows: 1})
				c.calls("behind the second", made{follows: 1})
				a.serve(first)
				b.serve(second)
				c.serve(third)
				for _, p := range []*runner{a, b, c} {
					p.calls("served", made{passes: 1})
				}
			})
		})
	}
}

// TestWaiterReadsTheQueueWithoutAHandoff: its predecessor was not the first in
// the queue.
func TestWaiterReadsTheQueueWithoutAHandoff(t *testing.T) {
	runners(t, func(a, b, c *runner) {
		first, second, between, last := a.lock(), b.lock(), a.lock(), c.lock()
		c.calls("behind three", made{follows: 1})
		between.cancel()
		<-between.got
		c.calls("the predecessor gave up", made{reads: 1, follows: 1})
		second.cancel()
		if err := <-second.got; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		b.calls("a waiter gave up", made{follows: 1, leaves: 1})
		c.calls("the next predecessor gave up", made{reads: 1, follows: 1}) // it watches its own entry
		if len(last.got) != 0 {
			t.Error("the contender behind it was admitted")
		}
		a.serve(first)
		c.serve(last)
		c.calls("the next predecessor handed over", made{passes: 1})
	})
}

// TestSecondInQueueReadsTheQueueWithoutAHandoff: an operator may have removed
// its entry together with the first.
func TestSecondInQueueReadsTheQueueWithoutAHandoff(t *testing.T) {
	for what, c := range map[string]struct {
		ask   func(*runner) *attempt
		queue driver.Queue
	}{
		"mutex": {(*runner).lock, "mutex/n"}, "election": {(*runner).campaign, "election/n"},
		"write lock": {(*runner).write, "rwlock/n"},
	} {
		t.Run(what, func(t *testing.T) {
			runners(t, func(a, b, last *runner) {
				c.ask(a)
				between, third := c.ask(b), c.ask(last)
				between.cancel()
				<-between.got
				last.calls("the waiter between gave up", made{reads: 1, follows: 2})
				a.svc.Remove(c.queue, a.svc.Snapshot(c.queue)[0].Key)
				last.calls("the first was removed", made{reads: 1})
				last.serve(third)
				last.calls("served", made{passes: 1})
			})
		})
	}
}

// TestReaderReadsTheQueueBehindAReader: a writer may be ahead of both. Behind a
// writer it need not.
func TestReaderReadsTheQueueBehindAReader(t *testing.T) {
	runners(t, func(a, b, c *runner) {
		w := a.write()
		r1 := b.read()
		b.calls("behind a writer", made{follows: 1})
		r2 := c.read()
		c.calls("behind a reader behind a writer", made{reads: 1, follows: 1})
		a.serve(w)
		a.calls("a writer", made{passes: 1})
		b.calls("a writer handed over to the reader behind it", made{})
		c.calls("and to the reader behind that", made{})
		r3 := a.read()
		a.calls("behind readers", made{reads: 1})
		w2 := a.write()
		a.calls("a writer behind readers", made{follows: 1})
		b.serve(r1)
		c.serve(r2)
		b.calls("a reader", made{leaves: 1})
		c.calls("a reader", made{leaves: 1})
		a.serve(r3)
		a.calls("the last reader left, and the writer reads the queue", made{reads: 1, leaves: 1})
		a.serve(w2)
		a.calls("the writer", made{passes: 1})
	})
}

// TestDowngradedWriterDoesNotHandOver: it no longer excludes the readers behind
// it.
func TestDowngradedWriterDoesNotHandOver(t *testing.T) {
	runners(t, func(a, b, c *runner) {
		w := a.write()
		<-w.got
		r, err := a.rw.RLock(w.h.Context())
		check(t, err)
		w2 := b.write()
		b.calls("behind a writer", made{follows: 1})
		check(t, w.give(context.Background()))
		b.calls("the predecessor was converted", made{reads: 1, follows: 1})
		check(t, r.Unlock(context.Background()))
		a.calls("written and read", made{leaves: 1})
		b.calls("the predecessor left", made{reads: 1})
		b.serve(w2)
		b.calls("a writer", made{passes: 1})
		c.calls("an empty queue", made{})
	})
}

// TestSemaphoresDoNotHandOver: other holders may still hold.
func TestSemaphoresDoNotHandOver(t *testing.T) {
	runners(t, func(a, b, c *runner) {
		h1, h2 := a.acquire(1), b.acquire(1)
		w1, w2 := c.acquire(2), a.acquire(1)
		for _, x := range []struct {
			p *runner
			g *attempt
		}{{b, h2}, {a, h1}, {c, w1}, {a, w2}} {
			x.p.serve(x.g)
		}
		for _, p := range []*runner{a, b, c} {
			if f, n := p.link.follows.Load(), p.link.passes.Load(); f != 0 || n != 0 ||
				p.link.leaves.Load() == 0 {
				t.Errorf("%d follows, %d passes, %d leaves", f, n, p.link.leaves.Load())
			}
		}
	})
}

// TestTryDoesNotFollow, neither in a queue with contenders, nor if one joined
// between its read and its join.
func TestTryDoesNotFollow(t *testing.T) {
	runners(t, func(a, b, c *runner) {
		holds := []*attempt{a.lock(), a.write(), a.acquire(2), a.campaign()}
		fails := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, coordinator.ErrTaken) {
				t.Errorf("%s: %v", what, err)
			}
			if b.link.follows.Load() != 0 || b.link.watches.Load() != 0 {
				t.Errorf("%s: it waits", what)
			}
		}
		_, err := b.m.TryLock(context.Background())
		fails("mutex", err)
		_, err = b.rw.TryLock(context.Background())
		fails("write lock", err)
		_, err = b.rw.TryRLock(context.Background())
		fails("read lock", err)
		_, err = b.sem.TryAcquire(context.Background(), 1)
		fails("semaphore", err)
		for _, g := range holds {
			a.serve(g)
		}
		var between *attempt
		var once atomic.Bool
		b.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin && r.Driver == b.link.Driver &&
				once.CompareAndSwap(false, true) {
				between = c.write()
			}
			return memory.Fate{}
		})
		soon, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err = b.rw.TryRLock(soon)
		fails("read lock with a writer that joined between", err)
		c.serve(between)
	})
}

// TestFollowerRemovedInItsFirstSecondHoldsForAMoment beside its successor, if
// the predecessor hands over: see P7 in docs/guarantees.md. A handoff costs no
// read by which it could know.
func TestFollowerRemovedInItsFirstSecondHoldsForAMoment(t *testing.T) {
	runners(t, func(a, b, c *runner) {
		first, removed := a.lock(), b.lock()
		b.svc.Remove("mutex/n", b.svc.Snapshot("mutex/n")[1].Key)
		last := c.lock()
		a.serve(first)
		check(t, <-removed.got)
		granted := time.Now()
		<-removed.h.Context().Done()
		if d := time.Since(granted); d > engine.SettleAfter ||
			!errors.Is(context.Cause(removed.h.Context()), coordinator.ErrRemoved) {
			t.Errorf("after %v: %v", d, context.Cause(removed.h.Context()))
		}
		c.serve(last)
	})
}

// TestRemovedFollowerFails while others are ahead: at once, or after a second
// if it has just joined.
func TestRemovedFollowerFails(t *testing.T) {
	for what, ask := range map[string]func(*runner) *attempt{
		"mutex": (*runner).lock, "write lock": (*runner).write, "read lock": (*runner).read,
		"election": (*runner).campaign,
	} {
		for _, after := range []time.Duration{0, time.Minute} {
			runners(t, func(a, b, _ *runner) {
				hold := a.write
				switch what {
				case "mutex":
					hold = a.lock
				case "election":
					hold = a.campaign
				}
				h, g := hold(), ask(b)
				time.Sleep(after)
				for _, name := range b.svc.Queues() {
					b.svc.Remove(name, b.svc.Snapshot(name)[1].Key)
				}
				if after == 0 {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				select {
				case err := <-g.got:
					if !errors.Is(err, coordinator.ErrRemoved) {
						t.Errorf("%s after %v: %v", what, after, err)
					}
				default:
					t.Errorf("%s after %v: it still waits", what, after)
					g.cancel()
				}
				a.serve(h)
			})
		}
	}
}
