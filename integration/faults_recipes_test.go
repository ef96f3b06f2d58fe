package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/rwlock"
)

// New readers arrive so that there is always one that reads. Readers queued
// before the writer keep reading; readers queued after it wait for it.
func TestWriterIsNotStarvedByAStreamOfReaders(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		var reading, overtakers atomic.Int64
		var writer atomic.Int64 // the token of the writer's entry; 0 while it is not in the queue
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(await.Context(t))
		for i := range 4 {
			l := newRWLock(t, s.client(t, longTTL), name)
			wg.Go(func() {
				await.For(ctx, time.Duration(i)*10*time.Millisecond)
				for ctx.Err() == nil {
					r, err := l.RLock(ctx)
					if err != nil {
						return
					}
					reading.Add(1)
					if w := writer.Load(); w != 0 && int64(r.Token()) > w {
						overtakers.Add(1)
					}
					await.For(ctx, 40*time.Millisecond)
					reading.Add(-1)
					if err := r.Unlock(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		c := s.client(t, longTTL)
		l := newRWLock(t, c, name)
		await.Until(t, "two readers", func() bool { return reading.Load() >= 2 })
		for range 5 {
			p := aWrite.begin(ctx, t, c, name)
			await.Until(t, "the writer in the queue or through", func() bool {
				list, _ := l.Contenders(ctx) // an error counts as an empty queue
				for _, c := range list {
					if c.Writer {
						writer.CompareAndSwap(0, int64(c.Token))
					}
				}
				return writer.Load() != 0 || p.over()
			})
			h := p.granted()
			if n := reading.Load(); n != 0 {
				t.Errorf("%d readers held beside the writer", n)
			}
			writer.Store(0)
			h.mustRelease(t)
		}
		stop()
		wg.Wait()
		if n := overtakers.Load(); n != 0 {
			t.Errorf("%d readers overtook a waiting writer", n)
		}
	})
}

// The conversion to a read lock is applied, but its reply is lost, as is
// everything after it. The reader is notified before the next writer is
// admitted. A reader that asks to write is refused.
func TestPartitionedDowngradeIsLostBeforeAWriterIsAdmitted(t *testing.T) {
	const ttl = 8 * time.Second
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		c, other := s.link(t, ttl), s.client(t, longTTL)
		l := newRWLock(t, c.Client, name)
		w, err := l.Lock(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.RLock(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := aWrite.queue(t, other, name, 2)
		told := awaitTelling(t, r.Context(), r.Deadline)
		trap := c.proxy.HoldReply(c.join)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		unlocked := make(chan error, 1)
		go func() { unlocked <- w.Unlock(ctx) }()
		if err := trap.Wait(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		c.proxy.CutUp()
		if err := <-unlocked; !errors.Is(err, context.DeadlineExceeded) || !coordinator.MayHaveApplied(err) {
			t.Errorf("the Unlock whose answer is held = %v", err)
		}
		if _, err := l.Lock(r.Context()); !errors.Is(err, rwlock.ErrUpgrade) && r.Err() == nil {
			t.Errorf("an upgrade = %v, want ErrUpgrade", err)
		}
		h := next.granted()
		told.before(next.at, "the reader")
		c.proxy.Heal() // held requests may still arrive, and have no effect
		if err := r.Unlock(await.Context(t)); !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("Unlock of the lost reader = %v", err)
		}
		aWrite.queued(t, other, name, 1)
		if h.err() != nil {
			t.Errorf("the next writer's hold ended: %v", h.err())
		}
		h.mustRelease(t)
		aWrite.queued(t, other, name, 0)
	})
}

// The first waiter does not depend on the holder directly ahead of it.
func TestAnyPermitHoldersReleaseAdmitsTheFirstWaiter(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		for leaver := range permits {
			name := servers.Name(t)
			c, other := s.client(t, longTTL), s.client(t, longTTL)
			var holds []hold
			for range permits {
				holds = append(holds, aPermit.take(t, c, name))
			}
			first := aPermit.queue(t, other, name, permits+1)
			second := aPermit.queue(t, c, name, permits+2)
			holds[leaver].mustRelease(t)
			h := first.granted()
			if second.over() {
				t.Errorf("leaver %d: one permit was released and two were granted", leaver)
			}
			h.mustRelease(t)
			second.granted().mustRelease(t)
		}
	})
}

// The context of its work ends. Both candidates use Run.
func TestPartitionedLeaderIsNotifiedBeforeTheNextLeads(t *testing.T) {
	const ttl = 8 * time.Second
	type tenure struct {
		token                coordinator.Token
		began, deadline, end time.Time
		cause                error
	}
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		c, other := s.link(t, ttl), s.client(t, ttl)
		still := watchStalls()
		t.Cleanup(still.End)
		terms := make(chan tenure, 20)
		began := make(chan coordinator.Token, 20)
		ctx, stop := context.WithCancel(await.Context(t))
		var wg sync.WaitGroup
		run := func(c *coordinator.Client) {
			wg.Go(func() {
				err := newElection(t, c, name).Run(ctx, func(ctx context.Context, term *election.Term) error {
					me := tenure{token: term.Token(), began: time.Now()}
					began <- me.token
					<-ctx.Done()
					me.end, me.deadline, me.cause = time.Now(), term.Deadline(), context.Cause(ctx)
					terms <- me
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Run = %v", err)
				}
			})
		}
		next := func() coordinator.Token {
			return await.Receive(t, "a leader", began)
		}
		run(c.Client)
		next()
		run(other)
		aTerm.queued(t, other, name, 2)
		c.proxy.Cut()
		next()
		c.proxy.Heal()
		aTerm.queued(t, other, name, 2) // the first one campaigns again
		stop()
		wg.Wait()
		close(terms)
		var all []tenure
		for term := range terms {
			all = append(all, term)
		}
		if !errors.Is(all[0].cause, coordinator.ErrSessionLost) {
			t.Errorf("the first leader got %v", all[0].cause)
		}
		for i := 1; i < len(all); i++ {
			toldBefore(t, still, "the leader", all[i-1].deadline, all[i-1].end, all[i].began)
			if all[i].token <= all[i-1].token {
				t.Errorf("%+v after %+v", all[i], all[i-1])
			}
		}
	})
}

// The request or the reply is lost, or no answer comes in time. The entry is
// removed in the end, a second Resign does nothing, and the same candidate may
// campaign again.
func TestResignFinishesDespiteNetworkFaults(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		c, other := s.link(t, longTTL), s.client(t, longTTL)
		e := newElection(t, c.Client, name)
		var last coordinator.Token
		for what, breaks := range map[string]func(){
			"reply lost":     func() { c.proxy.LoseReply(c.leave) },
			"request lost":   func() { c.proxy.LoseRequest(c.leave) },
			"nothing passes": c.proxy.CutUp,
		} {
			term, err := e.Campaign(await.Context(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if term.Token() <= last {
				t.Errorf("%s: term %d after %d", what, term.Token(), last)
			}
			last = term.Token()
			breaks()
			ctx := await.Context(t)
			if what == "nothing passes" {
				ctx = within(t, 2*time.Second)
			}
			err = term.Resign(ctx)
			switch {
			case what == "nothing passes" && (!errors.Is(err, context.DeadlineExceeded) || !coordinator.MayHaveApplied(err)):
				t.Errorf("%s: Resign = %v", what, err)
			case what != "nothing passes" && err != nil:
				t.Errorf("%s: Resign = %v", what, err)
			}
			if err := term.Resign(ctx); !errors.Is(err, coordinator.ErrNotHeld) {
				t.Errorf("%s: second Resign = %v", what, err)
			}
			c.proxy.Heal()
			aTerm.queued(t, other, name, 0)
		}
		aTerm.take(t, other, name).mustRelease(t)
	})
}

// Fifty candidates use ten sessions whose connections are sometimes reset. An
// observer, whose connection is reset as well, never sees an older term after a
// newer one.
func TestChangingCandidatesNeverLeadTogether(t *testing.T) {
	const clients, each, leastTerms = 10, 5, 5
	run := func(t *testing.T, s site) {
		t.Parallel()
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		name, began, long := servers.Name(t), time.Now(), chaosTime(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		var leader hold
		var last coordinator.Token
		terms := 0
		lead := func(h hold) {
			mu.Lock()
			defer mu.Unlock()
			if leader.err != nil && leader.err() == nil && h.err() == nil {
				t.Errorf("term %d begins while %d goes on", h.token, leader.token)
			}
			if h.err() == nil { // after a loss this may run later than in the successor
				if h.token <= last {
					t.Errorf("term %d after %d", h.token, last)
				}
				leader, last = h, h.token
			}
			terms++
		}
		var wg sync.WaitGroup
		var links []link
		for i := range clients {
			c := s.link(t, 10*time.Second)
			links = append(links, c)
			for j := range each {
				r := rand.New(rand.NewPCG(seed, uint64(100*i+j)))
				wg.Go(func() {
					for ctx.Err() == nil {
						bound, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(3000))*time.Millisecond)
						h, err := aTerm.ask(bound, c.Client, name)
						cancel()
						if err == nil {
							lead(h)
							await.For(h.ctx, time.Duration(r.IntN(10))*time.Millisecond)
							bound, cancel = context.WithTimeout(context.Background(), 5*time.Second)
							_ = h.release(bound) // continues in the background after a timeout
							cancel()
						}
						await.For(ctx, time.Duration(r.IntN(1500))*time.Millisecond)
					}
				})
			}
		}
		watcher := s.link(t, longTTL)
		links = append(links, watcher)
		observed := observeTerms(t, watcher.Client, name)
		r := rand.New(rand.NewPCG(seed, 99))
		led := func() int {
			mu.Lock()
			defer mu.Unlock()
			return terms
		}
		for time.Since(began) < long || led() < leastTerms && time.Since(began) < long+time.Minute {
			links[r.IntN(len(links))].proxy.Reset()
			await.For(ctx, time.Duration(r.IntN(600))*time.Millisecond)
		}
		stop()
		wg.Wait()
		t.Logf("%d terms", terms)
		if terms < leastTerms {
			t.Errorf("only %d terms", terms)
		}
		aTerm.queued(t, s.client(t, longTTL), name, 0)
		await.Until(t, "the observer to see that there is no leader", func() bool { return observed() == 0 })
	}
	t.Run("etcd-3", func(t *testing.T) { run(t, site{"etcd", servers.EtcdCluster(t).Endpoints()}) })
	t.Run("zookeeper-3", func(t *testing.T) { run(t, site{"zk", servers.ZooKeeperCluster(t).Endpoints()}) })
}

// observeTerms observes in the background, and fails the test if an older term
// appears after a newer one. The returned function tells which term was
// observed last, or 0 if there is no leader.
func observeTerms(t *testing.T, c *coordinator.Client, name string) func() coordinator.Token {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var now atomic.Int64
	done := make(chan struct{})
	e := newElection(t, c, name)
	go func() {
		defer close(done)
		var newest coordinator.Token
		terms := 0
		for l, err := range e.Observe(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("the observer got %v", err)
				}
				break
			}
			if l.Token != 0 && l.Token < newest {
				t.Errorf("observed term %d after %d", l.Token, newest)
			}
			if l.Token > newest {
				terms++
			}
			newest = max(newest, l.Token)
			now.Store(int64(l.Token))
		}
		t.Logf("observed %d terms", terms)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() coordinator.Token { return coordinator.Token(now.Load()) }
}
