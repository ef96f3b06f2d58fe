package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/semaphore"
)

func newSemaphore(t testing.TB, c *coordinator.Client, name string, limit int) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(c, name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func acquire(t testing.TB, s *semaphore.Semaphore, n int) *semaphore.Permit {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(t))
	defer cancel()
	p, err := s.Acquire(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func release(t testing.TB, p *semaphore.Permit) {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(t))
	defer cancel()
	if err := p.Release(ctx); err != nil {
		t.Error(err)
	}
}

// asking is an Acquire in the background.
type asking struct {
	t      *testing.T
	done   chan struct{}
	permit *semaphore.Permit
	err    error
}

func goAcquire(t *testing.T, s *semaphore.Semaphore, n int) *asking {
	a := &asking{t: t, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.permit, a.err = s.Acquire(context.Background(), n)
	}()
	return a
}

func (a *asking) granted() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *asking) wait() *semaphore.Permit {
	a.t.Helper()
	await.Receive(a.t, "the permit", a.done)
	if a.err != nil {
		a.t.Fatal(a.err)
	}
	return a.permit
}

// asked waits until n contenders are queued.
func asked(t *testing.T, s *semaphore.Semaphore, n int) semaphore.Listing {
	t.Helper()
	var l semaphore.Listing
	await.Until(t, "contenders in the queue", func() bool {
		var err error
		if l, err = s.List(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		return len(l.Contenders) == n
	})
	return l
}

// An acquire and a release are one request each. The acquire is two requests
// beside other holders, and the first time in a process; on ZooKeeper one more
// beside holders, which reads whether the limit is still that of the view, as
// the reply of the view does on etcd. Curator needs six and one.
func TestUncontendedPermitsAreOneRequestEach(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c, other := s.meter(t, 10*time.Second), newSemaphore(t, s.client(t, 10*time.Second), servers.Name(t), 10)
		release(t, acquire(t, other, 1))  // stores the limit
		newMutexUnlocked(t, c.Client)     // opens the session
		bystander := acquire(t, other, 1) // keeps the parent
		quiesce(t, c)                     // until the session has set its own watch
		var mine *semaphore.Semaphore
		confirm := 0
		if s.service == "zk" || s.service == "zookeeper" {
			confirm = 1
		}
		spend(t, c, "the first of a process, beside a holder", 3+confirm+1, func() {
			mine = newSemaphore(t, c.Client, other.Name(), 10)
			release(t, acquire(t, mine, 3))
		})
		spend(t, c, "beside a holder", 2+confirm+1, func() { release(t, acquire(t, mine, 3)) })
		release(t, bystander)
		release(t, acquire(t, mine, 1)) // creates the parent if it was reaped
		spend(t, c, "alone", 1+1, func() { release(t, acquire(t, mine, 3)) })
	})
}

// newMutexUnlocked opens a client's session.
func newMutexUnlocked(t *testing.T, c *coordinator.Client) {
	t.Helper()
	if _, err := c.Session(await.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// 64 sessions request one to three of ten permits, for random times: 500
// grants; 2,000 in make test-all.
func TestSixtyFourClientsShareTenPermits(t *testing.T) {
	t.Parallel()
	const limit, clients = 10, 64
	grants := 500
	if os.Getenv("BATON_TESTS") == "all" {
		grants = 2000
	}
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		var mu sync.Mutex
		var tokens []coordinator.Token // in the order of grants, as the clients saw them
		held, most, left := 0, 0, grants
		take := func() bool {
			mu.Lock()
			defer mu.Unlock()
			left--
			return left >= 0
		}
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			held += n
			most = max(most, held)
			if held > limit {
				t.Errorf("%d permits of %d are held", held, limit)
			}
		}
		var wg sync.WaitGroup
		for i := range clients {
			c := newSemaphore(t, s.client(t, 30*time.Second), name, limit)
			r := rand.New(rand.NewPCG(uint64(i), 2))
			wg.Go(func() {
				for take() {
					n := 1 + r.IntN(3)
					p, err := c.Acquire(context.Background(), n)
					if err != nil {
						t.Error(err)
						return
					}
					count(n)
					mu.Lock()
					tokens = append(tokens, p.Token())
					mu.Unlock()
					await.For(p.Context(), time.Duration(r.IntN(5000))*time.Microsecond)
					count(-n)
					if err := p.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		worst := overtaken(tokens)
		t.Logf("%d grants, at most %d of %d permits held, no contender was overtaken by more than %d", len(tokens), most, limit, worst)
		if len(tokens) != grants || most < 4 { // more than one client can hold
			t.Errorf("%d grants of %d, at most %d permits held", len(tokens), grants, most)
		}
		// Grants are made in the order of tokens. Clients are notified and
		// scheduled in any order, but every granted client holds permits, so at
		// most limit grants can be in flight at once.
		if worst > clients {
			t.Errorf("a contender was overtaken %d times by %d clients", worst, clients-1)
		}
		asked(t, newSemaphore(t, s.client(t, 10*time.Second), name, limit), 0)
	})
}

// overtaken returns the greatest number of later contenders that were granted
// before an earlier one.
func overtaken(tokens []coordinator.Token) (worst int) {
	for i, mine := range tokens {
		n := 0
		for _, before := range tokens[:i] {
			if before > mine {
				n++
			}
		}
		worst = max(worst, n)
	}
	return worst
}

// The test counts watch events while waiters are admitted one by one.
func TestReleaseOfAPermitWakesThoseItAdmitsAndOneMore(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		keeper := newSemaphore(t, s.client(t, 30*time.Second), name, 3)
		var held []*semaphore.Permit
		for range 3 {
			held = append(held, acquire(t, keeper, 1))
		}
		var meters []meter
		var waiters []*asking
		for i := range 6 {
			c := s.meter(t, 30*time.Second)
			meters = append(meters, c)
			waiters = append(waiters, goAcquire(t, newSemaphore(t, c.Client, name, 3), 1))
			asked(t, keeper, i+4)
		}
		for i := range waiters {
			quiesce(t, meters...)
			before := make([]int, len(meters))
			for j, m := range meters {
				before[j] = m.events()
			}
			// Not in the order of acquiring: a release by any holder admits the
			// first waiter.
			release(t, held[1])
			held = slices.Delete(held, 1, 2)
			held = append(held, waiters[i].wait())
			quiesce(t, meters...)
			woken := 0
			for j, m := range meters {
				n := m.events() - before[j]
				if j > i+1 && n > 0 {
					t.Errorf("release %d: waiter %d, which is not the next, got %d watch events", i, j, n)
				}
				if n > 0 && j >= i {
					woken++
				}
			}
			if woken > 2 {
				t.Errorf("release %d woke %d waiters and admitted one", i, woken)
			}
			for j := range waiters[i+1:] {
				if waiters[i+1+j].granted() {
					t.Fatalf("release %d admitted waiter %d", i, i+1+j)
				}
			}
		}
		for _, p := range held {
			release(t, p)
		}
	})
}

func TestLimitIsStoredAndChanged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		ctx := await.Context(t)
		name := servers.Name(t)
		cb := s.client(t, 10*time.Second)
		a, b := newSemaphore(t, s.client(t, 10*time.Second), name, 2), newSemaphore(t, cb, name, 3)
		first := acquire(t, a, 2)
		var differ *semaphore.LimitError
		if _, err := b.Acquire(ctx, 1); !errors.As(err, &differ) || differ.Asked != 3 || differ.Stored != 2 {
			t.Fatalf("Acquire with another limit = %v", err)
		}
		one := goAcquire(t, a, 1)
		asked(t, a, 2)
		two := goAcquire(t, a, 2)
		asked(t, a, 3)
		if err := b.SetLimit(ctx, 5); err != nil {
			t.Fatal(err)
		}
		one.wait()
		two.wait()
		if _, err := a.Acquire(ctx, 1); !errors.As(err, &differ) || differ.Asked != 2 || differ.Stored != 5 {
			t.Fatalf("Acquire after the limit was raised by another = %v", err)
		}
		if err := b.SetLimit(ctx, 3); err != nil {
			t.Fatal(err)
		}
		last := goAcquire(t, b, 1)
		await.Until(t, "a listing with 5 of 3 permits held", func() bool {
			l := asked(t, b, 4)
			return l.Limit == 3 && l.Held == 5 && l.Free() == 0
		})
		release(t, first)
		s.settle(t, cb)
		if last.granted() {
			t.Error("a permit was granted although the limit is reached")
		}
		release(t, one.wait())
		release(t, last.wait())
		release(t, two.wait())
	})
}

func TestSlotsAreUniqueAmongHolders(t *testing.T) {
	t.Parallel()
	const limit = 4
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		var mu sync.Mutex
		taken := map[int]bool{}
		var wg sync.WaitGroup
		for i := range 6 {
			c := newSemaphore(t, s.client(t, 10*time.Second), name, limit)
			wg.Go(func() {
				for range 15 {
					p, err := c.Acquire(context.Background(), 1+i%2)
					if err != nil {
						t.Error(err)
						return
					}
					slots, err := p.Slots(context.Background())
					if err != nil || len(slots) != 1+i%2 {
						t.Errorf("slots %v, %v", slots, err)
					}
					mu.Lock()
					for _, n := range slots {
						if taken[n] || n < 0 || n >= limit {
							t.Errorf("slot %d, while %v are taken", n, taken)
						}
						taken[n] = true
					}
					mu.Unlock()
					await.For(p.Context(), time.Millisecond)
					mu.Lock()
					for _, n := range slots {
						delete(taken, n)
					}
					mu.Unlock()
					if err := p.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// The other permits stay held.
func TestPartOfAGrantIsReleased(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		cb := s.client(t, 10*time.Second)
		a, b := newSemaphore(t, s.client(t, 10*time.Second), name, 4), newSemaphore(t, cb, name, 4)
		p := acquire(t, a, 4)
		one := goAcquire(t, b, 1)
		asked(t, a, 2)
		three := goAcquire(t, b, 3)
		asked(t, a, 3)
		if err := p.ReleasePart(await.Context(t), 2); err != nil {
			t.Fatal(err)
		}
		one.wait()
		s.settle(t, cb)
		if three.granted() || p.Err() != nil || p.Permits() != 2 {
			t.Errorf("granted %v, %v, %d permits left", three.granted(), p.Err(), p.Permits())
		}
		release(t, p)
		release(t, three.wait())
		release(t, one.wait())
	})
}
