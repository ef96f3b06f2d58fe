package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/semaphore"
)

// sharer is a driver whose queues are shared with other clients. It has records
// only if it keeps limits.
type sharer struct {
	driver.Driver
	keeps bool
}

func (s sharer) SharedName(_, name string) (string, error) { return name, nil }

func (s sharer) SharedValue(_, identity string, _ []byte) ([]byte, error) {
	return []byte(identity), nil
}

func (s sharer) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	session, err := s.Driver.Open(ctx, ttl)
	if err != nil || s.keeps {
		return session, err
	}
	return noRecords{session}, nil
}

type noRecords struct{ driver.Session }

func (noRecords) Record(context.Context, driver.Queue, driver.Version) (driver.Record, error) {
	return driver.Record{}, fmt.Errorf("%w: no records", driver.ErrInvalid)
}

// inSharing runs a test in virtual time with clients of a service with shared
// semaphores.
func inSharing(t *testing.T, keeps bool,
	f func(svc *memory.Service, open func() *coordinator.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		var clients []*coordinator.Client
		f(svc, func() *coordinator.Client {
			c, err := coordinator.New(sharer{svc.Driver(), keeps}, quiet)
			check(t, err)
			clients = append(clients, c)
			return c
		})
		for _, c := range clients {
			check(t, c.Close(context.Background()))
		}
		synctest.Wait()
		if s := svc.Stats(); s.Entries != 0 || s.Watches != 0 || s.Sessions != 0 {
			t.Errorf("left behind: %+v", s)
		}
	})
}

func shared(t *testing.T, c *coordinator.Client, limit int) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(c, "jobs", limit)
	check(t, err)
	return s
}

// The two queues of a shared semaphore.
const (
	sharedLocks  = driver.Queue("semaphore-locks/jobs")
	sharedLeases = driver.Queue("semaphore-leases/jobs")
)

// TestSharedPermitsAreWithinTheLimit while contenders hold, give up and die.
func TestSharedPermitsAreWithinTheLimit(t *testing.T) {
	for seed := range uint64(40) {
		inSharing(t, seed%2 == 0, func(svc *memory.Service, open func() *coordinator.Client) {
			const limit = 3
			var held, grants atomic.Int32
			var wg sync.WaitGroup
			for i := range 4 {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				s := shared(t, open(), limit)
				for range 2 {
					mine := rand.New(rand.NewPCG(seed, r.Uint64()))
					wg.Go(func() {
						for range 20 {
							ctx, cancel := context.WithTimeout(context.Background(),
								time.Duration(1+mine.IntN(2000))*time.Millisecond)
							p, err := s.Acquire(ctx, 1)
							cancel()
							if err != nil {
								if !errors.Is(err, context.DeadlineExceeded) {
									t.Error(err)
								}
								continue
							}
							if n := held.Add(1); n > limit {
								t.Errorf("seed %d: %d hold", seed, n)
							}
							grants.Add(1)
							time.Sleep(time.Duration(mine.IntN(400)) * time.Millisecond)
							held.Add(-1)
							wantErr(t, p.Release(context.Background()))
						}
					})
				}
			}
			wg.Wait()
			if n := grants.Load(); n < 80 {
				t.Errorf("seed %d: %d grants", seed, n)
			}
			time.Sleep(time.Second)
			if a, b := svc.Snapshot(sharedLocks), svc.Snapshot(sharedLeases); len(a)+len(b) != 0 {
				t.Errorf("seed %d: left in the queue: %v, %v", seed, a, b)
			}
		})
	}
}

// TestSharedPermitsAreGrantedInOrder: the first waiter holds the mutex, and
// none overtakes.
func TestSharedPermitsAreGrantedInOrder(t *testing.T) {
	inSharing(t, false, func(svc *memory.Service, open func() *coordinator.Client) {
		s := shared(t, open(), 1)
		ctx := context.Background()
		first, err := s.Acquire(ctx, 1)
		check(t, err)
		order := make(chan int, 5)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				p, err := s.Acquire(ctx, 1)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				time.Sleep(time.Second)
				wantErr(t, p.Release(ctx))
			})
			synctest.Wait()
		}
		if n := len(svc.Snapshot(sharedLocks)); n != 5 {
			t.Errorf("%d wait for the mutex", n)
		}
		if n := len(svc.Snapshot(sharedLeases)); n != 2 {
			t.Errorf("%d leases: want those of the holder of the permit and of the mutex", n)
		}
		l, err := s.List(ctx)
		if err != nil || l.Held != 1 || l.Limit != 1 || len(l.Contenders) != 7 {
			t.Errorf("%+v, %v", l, err)
		}
		if _, err := s.TryAcquire(ctx, 1); !errors.Is(err, coordinator.ErrTaken) {
			t.Errorf("TryAcquire: %v", err)
		}
		check(t, first.Release(ctx))
		wg.Wait()
		for i := range 5 {
			if got := <-order; got != i {
				t.Errorf("grant %d is that of %d", i, got)
			}
		}
	})
}

// TestTryFindsAFreePermitBesideAcquisitions: each acquisition holds the mutex
// for some requests.
func TestTryFindsAFreePermitBesideAcquisitions(t *testing.T) {
	inSharing(t, false, func(svc *memory.Service, open func() *coordinator.Client) {
		svc.OnRequest(func(memory.Request) memory.Fate { return memory.Fate{DelayReply: time.Millisecond} })
		ctx := context.Background()
		var wg sync.WaitGroup
		for range 3 {
			s := shared(t, open(), 4)
			wg.Go(func() {
				for range 50 {
					p, err := s.Acquire(ctx, 1)
					if err != nil {
						t.Error(err)
						return
					}
					wantErr(t, p.Release(ctx))
				}
			})
		}
		s := shared(t, open(), 4)
		for range 50 {
			p, err := s.TryAcquire(ctx, 1)
			if err != nil {
				t.Fatalf("at least one of four permits is free: %v", err)
			}
			check(t, p.Release(ctx))
		}
		wg.Wait()

		// A contender that waits for a lease holds the mutex: nothing is free.
		var held []*semaphore.Permit
		for range 4 {
			p, err := s.Acquire(ctx, 1)
			check(t, err)
			held = append(held, p)
		}
		wg.Go(func() {
			p, err := s.Acquire(ctx, 1)
			if err != nil {
				t.Error(err)
				return
			}
			wantErr(t, p.Release(ctx))
		})
		synctest.Wait()
		time.Sleep(time.Second)
		begun := time.Now()
		if _, err := s.TryAcquire(ctx, 1); !errors.Is(err, coordinator.ErrTaken) || time.Since(begun) > 20*time.Millisecond {
			t.Errorf("TryAcquire of a permit that is not free: %v, after %v", err, time.Since(begun))
		}
		for _, p := range held {
			check(t, p.Release(ctx))
		}
		wg.Wait()
	})
}

// TestLossOfTheMutexEndsTheWaitForALease: an operator removes the entry of the
// mutex. Its holder gives up and leaves no lease.
func TestLossOfTheMutexEndsTheWaitForALease(t *testing.T) {
	inSharing(t, false, func(svc *memory.Service, open func() *coordinator.Client) {
		s := shared(t, open(), 1)
		ctx := context.Background()
		p, err := s.Acquire(ctx, 1)
		check(t, err)
		failed := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := s.Acquire(ctx, 1)
			failed <- err
		}()
		time.Sleep(time.Second) // it watches its entry by now
		entries := svc.Snapshot(sharedLocks)
		if len(entries) != 1 {
			t.Fatalf("contenders for the mutex: %v", entries)
		}
		if !svc.Remove(sharedLocks, entries[0].ID) {
			t.Fatal("no entry of the mutex")
		}
		if err := <-failed; !errors.Is(err, coordinator.ErrRemoved) {
			t.Errorf("the mutex was lost: %v", err)
		}
		time.Sleep(time.Second)
		if left := svc.Snapshot(sharedLeases); len(left) != 1 {
			t.Errorf("leases: %v", left)
		}
		check(t, p.Release(ctx))
	})
}

// TestSharedLimits: a layout with limits stores the first and compares the
// others; without, each client uses its own.
func TestSharedLimits(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		inSharing(t, keeps, func(_ *memory.Service, open func() *coordinator.Client) {
			c, ctx := open(), context.Background()
			two, three, stored := shared(t, c, 2), shared(t, c, 3), shared(t, c, semaphore.Stored)
			if _, err := stored.Acquire(ctx, 1); !errors.Is(err, semaphore.ErrNoLimit) {
				t.Errorf("nothing is stored: %v", err)
			}
			p, err := two.Acquire(ctx, 1)
			check(t, err)
			_, err = three.Acquire(ctx, 1)
			var other *semaphore.LimitError
			if keeps != errors.As(err, &other) ||
				keeps && (other.Stored != 2 || other.Asked != 3) || !keeps && err != nil {
				t.Errorf("stored %v, another limit: %v", keeps, err)
			}
			if n, err := stored.Limit(ctx); keeps && (n != 2 || err != nil) ||
				!keeps && !errors.Is(err, semaphore.ErrNoLimit) {
				t.Errorf("stored %v: %d, %v", keeps, n, err)
			}
			for what, err := range map[string]error{
				"two at a time": second(two.Acquire(ctx, 2)), "SetLimit": two.SetLimit(ctx, 3),
				"Slots": second(p.Slots(ctx)), "ReleasePart": second(p.ReleasePart(ctx, 1)),
				"an error for deadlocks": second(semaphore.New(c, "jobs", 2, recipes.WithDeadlockError())),
			} {
				if !errors.Is(err, coordinator.ErrInvalid) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if list, err := recipes.NewQueue(c, "semaphore-leases", "jobs"); err != nil {
				t.Error(err)
			} else if all, err := list.List(ctx,
				func(string) recipes.Rule { return recipes.Exclusive }); err != nil ||
				string(all[0].Payload) != c.Identity() || all[0].Identity != "" {
				t.Errorf("shown: %+v, %v", all, err)
			}
			check(t, p.Release(ctx))
		})
	}
}

func second[T any](_ T, err error) error { return err }
