package sql_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/others"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

func TestRecipes(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		for name, test := range map[string]func(*testing.T, *database){
			"mutex": mutexExcludes, "mutex in order": mutexInOrder, "rwlock": rwlockShares, "semaphore": semaphoreLimits,
			"election": electionSucceeds, "multilock": multilockHoldsAll,
		} {
			t.Run(name, func(t *testing.T) {
				test(t, db)
				await.Until(t, "no entry is left", func() bool { return db.left(t) == 0 })
			})
		}
	})
}

func TestOtherRecipes(t *testing.T) {
	each(t, func(t *testing.T, db *database) { others.Run(t, db.client(t), db.client(t)) })
}

// mutexExcludes: the counter is not synchronized, so the race detector and its
// value show overlapping holds.
func mutexExcludes(t *testing.T, db *database) {
	const clients, waiters, rounds = 4, 3, 5
	var last coordinator.Token
	var count int
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range clients {
		m, err := mutex.New(db.client(t), "excludes")
		ok(t, err)
		for range waiters {
			wg.Go(func() {
				for range rounds {
					err := m.Do(soon(t), func(ctx context.Context, _ *mutex.Lock) error {
						if inside.Add(1) != 1 {
							t.Error("two holders")
						}
						count++
						inside.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if count != clients*waiters*rounds {
		t.Errorf("%d of %d rounds", count, clients*waiters*rounds)
	}
	m, err := mutex.New(db.client(t), "excludes")
	ok(t, err)
	for range 3 {
		l, err := m.TryLock(soon(t))
		ok(t, err)
		if l.Token() <= last || l.Token() < clients*waiters*rounds {
			t.Errorf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
		ok(t, l.Unlock(soon(t)))
	}
}

func mutexInOrder(t *testing.T, db *database) {
	m, err := mutex.New(db.client(t), "order")
	ok(t, err)
	first, err := m.Lock(soon(t))
	ok(t, err)
	_, err = m.TryLock(soon(t))
	is(t, err, coordinator.ErrTaken)
	late, cancel := context.WithTimeout(soon(t), 200*time.Millisecond)
	defer cancel()
	_, err = m.Lock(late)
	is(t, err, context.DeadlineExceeded)
	await.Until(t, "the waiter left the queue", func() bool { return db.left(t) == 1 })
	locked := make(chan int, 5)
	last := first.Token()
	for i := range 5 {
		other, err := mutex.New(db.client(t), "order")
		ok(t, err)
		go func() {
			l, err := other.Lock(soon(t))
			if err != nil {
				t.Error(err)
				return
			}
			if l.Token() <= last {
				t.Errorf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			locked <- i
			_ = l.Unlock(soon(t))
		}()
		await.Until(t, "it is queued", func() bool { return db.left(t) == i+2 })
	}
	ok(t, first.Unlock(soon(t)))
	for i := range 5 {
		if got := <-locked; got != i {
			t.Errorf("waiter %d locked as number %d", got, i)
		}
	}
}

func rwlockShares(t *testing.T, db *database) {
	a, err := rwlock.New(db.client(t), "rw")
	ok(t, err)
	b, err := rwlock.New(db.client(t), "rw")
	ok(t, err)
	r1, err := a.RLock(soon(t))
	ok(t, err)
	r2, err := b.RLock(soon(t))
	ok(t, err)
	_, err = b.TryLock(soon(t))
	is(t, err, coordinator.ErrTaken)
	var order []string
	var wg sync.WaitGroup
	wg.Go(func() {
		w, err := a.Lock(soon(t))
		if err != nil {
			t.Error(err)
			return
		}
		order = append(order, "writer")
		_ = w.Unlock(soon(t))
	})
	await.Until(t, "the writer is queued", func() bool { return db.left(t) == 3 })
	wg.Go(func() {
		r, err := b.RLock(soon(t))
		if err != nil {
			t.Error(err)
			return
		}
		order = append(order, "reader")
		_ = r.Unlock(soon(t))
	})
	await.Until(t, "the reader is queued", func() bool { return db.left(t) == 4 })
	ok(t, r1.Unlock(soon(t)))
	ok(t, r2.Unlock(soon(t)))
	wg.Wait()
	if fmt.Sprint(order) != "[writer reader]" {
		t.Error(order)
	}
}

func semaphoreLimits(t *testing.T, db *database) {
	const limit = 3
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		s, err := semaphore.New(db.client(t), "s", limit)
		ok(t, err)
		for range 3 {
			wg.Go(func() {
				for range 5 {
					p, err := s.Acquire(soon(t), 1)
					if err != nil {
						t.Error(err)
						return
					}
					n := inside.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					inside.Add(-1)
					if err := p.Release(soon(t)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if n := most.Load(); n > limit || n < 1 {
		t.Errorf("%d holders of %d permits", n, limit)
	}
	s, err := semaphore.New(db.client(t), "s", limit)
	ok(t, err)
	all, err := s.TryAcquire(soon(t), limit)
	ok(t, err)
	_, err = s.TryAcquire(soon(t), 1)
	is(t, err, coordinator.ErrTaken)
	ok(t, all.Release(soon(t)))
	_, err = semaphore.New(db.client(t), "s", limit+1)
	ok(t, err)
}

func electionSucceeds(t *testing.T, db *database) {
	one, err := election.New(db.client(t), "e")
	ok(t, err)
	two, err := election.New(db.client(t), "e")
	ok(t, err)
	watching, stop := context.WithCancel(soon(t))
	defer stop()
	seen := make(chan string, 10)
	go func() {
		for leader, err := range two.Observe(watching) {
			if err == nil && leader.Token != 0 {
				seen <- string(leader.Payload)
			}
		}
	}()
	first, err := one.Campaign(soon(t), []byte("one"))
	ok(t, err)
	if got := <-seen; got != "one" {
		t.Errorf("observed %q", got)
	}
	next := make(chan *election.Term, 1)
	go func() {
		term, err := two.Campaign(soon(t), []byte("two"))
		if err != nil {
			t.Error(err)
		}
		next <- term
	}()
	await.Until(t, "the second is queued", func() bool { return db.left(t) == 2 })
	ok(t, first.Resign(soon(t)))
	second := <-next
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}
	if got := <-seen; got != "two" {
		t.Errorf("observed %q", got)
	}
	ok(t, second.Resign(soon(t)))
}

// multilockHoldsAll locks sets that overlap, in opposite orders.
func multilockHoldsAll(t *testing.T, db *database) {
	var wg sync.WaitGroup
	var inside atomic.Int32
	for i := range 4 {
		c := db.client(t)
		a, b := multilock.Mutex(c, "a"), multilock.Mutex(c, "b")
		if i%2 == 0 {
			a, b = b, a
		}
		set, err := multilock.New(a, b)
		ok(t, err)
		wg.Go(func() {
			for range 5 {
				err := set.Do(soon(t), func(context.Context, *multilock.Lock) error {
					if inside.Add(1) != 1 {
						t.Error("two holders")
					}
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
