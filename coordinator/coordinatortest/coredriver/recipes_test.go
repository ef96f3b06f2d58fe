package coredriver_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/coredriver"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/doublebarrier"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/once"
	"github.com/baton-go/baton/recipes/partition"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// world is a service with clients, in virtual time.
type world struct {
	t   *testing.T
	svc *coredriver.Service
}

func in(t *testing.T, test func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(world{t, coredriver.NewService()}) })
}

func (w world) client() *coordinator.Client {
	c, err := coordinator.New(w.svc.Driver(), coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	w.ok(err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w world) is(err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Errorf("%v, want %v", err, want)
	}
}

// order records events in order.
type order struct {
	mu sync.Mutex
	of []string
}

func (o *order) add(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of = append(o.of, s)
}

func (w world) happened(o *order, want ...string) {
	w.t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.of, want) {
		w.t.Errorf("%q, want %q", o.of, want)
	}
}

func TestMutexIsGrantedInOrderAndReentered(t *testing.T) {
	in(t, func(w world) {
		ctx, last, o := w.t.Context(), coordinator.Token(0), &order{}
		var wg sync.WaitGroup
		for _, who := range []string{"a", "b", "c"} {
			m, err := mutex.New(w.client(), "m")
			w.ok(err)
			wg.Go(func() {
				l, err := m.Lock(ctx)
				w.ok(err)
				if l.Token() <= last {
					w.t.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
				inner, err := m.Lock(l.Context())
				w.ok(err)
				o.add(who)
				time.Sleep(time.Minute) // several TTLs
				w.ok(inner.Unlock(ctx))
				w.ok(l.Unlock(ctx))
				w.is(l.Unlock(ctx), coordinator.ErrNotHeld)
			})
			synctest.Wait() // so that they join in this order
		}
		wg.Wait()
		w.happened(o, "a", "b", "c")
	})
}

func TestLostMutexIsGrantedToTheNext(t *testing.T) {
	in(t, func(w world) {
		ctx := w.t.Context()
		first, err := mutex.New(w.client(), "m")
		w.ok(err)
		second, err := mutex.New(w.client(), "m")
		w.ok(err)
		l, err := first.Lock(ctx)
		w.ok(err)
		_, err = second.TryLock(ctx)
		w.is(err, coordinator.ErrTaken)
		late, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = second.Lock(late)
		w.is(err, context.DeadlineExceeded)
		w.svc.End(l.Session())
		next, err := second.Lock(ctx)
		w.ok(err)
		<-l.Context().Done()
		w.is(context.Cause(l.Context()), coordinator.ErrSessionLost)
		w.is(l.Unlock(ctx), coordinator.ErrSessionLost)
		w.ok(next.Unlock(ctx))
	})
}

func TestReadersShareAndAWriterComesBetween(t *testing.T) {
	in(t, func(w world) {
		ctx, o := w.t.Context(), &order{}
		lock, err := rwlock.New(w.client(), "rw")
		w.ok(err)
		r1, err := lock.RLock(ctx)
		w.ok(err)
		r2, err := lock.RLock(ctx)
		w.ok(err)
		go func() {
			writer, err := lock.Lock(ctx)
			w.ok(err)
			o.add("writer")
			inner, err := lock.RLock(writer.Context())
			w.ok(err)
			w.is(writer.Unlock(ctx), coordinator.ErrInvalid) // a downgrade needs a Converter
			w.ok(inner.Unlock(ctx))
			w.is(writer.Unlock(ctx), coordinator.ErrNotHeld) // the last Unlock has released it
		}()
		synctest.Wait()
		go func() {
			r3, err := lock.RLock(ctx)
			w.ok(err)
			o.add("reader")
			w.ok(r3.Unlock(ctx))
		}()
		w.happened(o)
		w.ok(r1.Unlock(ctx))
		w.happened(o)
		w.ok(r2.Unlock(ctx))
		time.Sleep(time.Second)
		w.happened(o, "writer", "reader")
	})
}

// The admission of one waiter changes nothing at the service, but the waiters
// behind it must be admitted as well.
func TestReleasedPermitsAdmitSeveralWaiters(t *testing.T) {
	in(t, func(w world) {
		ctx, o := w.t.Context(), &order{}
		s, err := semaphore.New(w.client(), "s", 2)
		w.ok(err)
		both, err := s.Acquire(ctx, 2)
		w.ok(err)
		n, err := both.ReleasePart(ctx, 1)
		if w.is(err, coordinator.ErrInvalid); n != 2 {
			w.t.Errorf("%d are held after a refused ReleasePart", n)
		}
		if slots, err := both.Slots(ctx); err != nil || len(slots) != 2 {
			w.t.Errorf("slots %v, %v after a refused ReleasePart", slots, err)
		}
		held := make(chan *semaphore.Permit, 3)
		for range 3 {
			go func() {
				p, err := s.Acquire(ctx, 1)
				w.ok(err)
				o.add("permit")
				held <- p
			}()
		}
		synctest.Wait()
		w.ok(both.Release(ctx))
		time.Sleep(time.Second)
		w.happened(o, "permit", "permit")
		w.ok((<-held).Release(ctx))
		time.Sleep(time.Second)
		w.happened(o, "permit", "permit", "permit")
	})
}

func TestRaisedLimitAdmitsWaiters(t *testing.T) {
	in(t, func(w world) {
		ctx := w.t.Context()
		s, err := semaphore.New(w.client(), "s", 1)
		w.ok(err)
		_, err = s.Acquire(ctx, 1)
		w.ok(err)
		_, err = s.TryAcquire(ctx, 1)
		w.is(err, coordinator.ErrTaken)
		w.ok(s.SetLimit(ctx, 2))
		late, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = s.Acquire(late, 1) // the entry ahead was admitted by the higher limit, and cannot be marked as holding
		w.is(err, context.DeadlineExceeded)
	})
}

func TestElectionHasSuccessorsAndObservers(t *testing.T) {
	in(t, func(w world) {
		ctx, o := w.t.Context(), &order{}
		e, err := election.New(w.client(), "e")
		w.ok(err)
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			for leader, err := range e.Observe(watching) {
				if err == nil && leader.Token != 0 {
					o.add(string(leader.Payload))
				}
			}
		}()
		one, err := e.Campaign(ctx, []byte("one"))
		w.ok(err)
		w.is(one.Proclaim(ctx, []byte("other")), coordinator.ErrInvalid)
		go func() {
			other, err := election.New(w.client(), "e")
			w.ok(err)
			two, err := other.Campaign(ctx, []byte("two"))
			w.ok(err)
			if two.Token() <= one.Token() {
				w.t.Errorf("token %d after %d", two.Token(), one.Token())
			}
		}()
		time.Sleep(10 * time.Second)
		w.happened(o, "one")
		w.ok(one.Resign(ctx))
		time.Sleep(10 * time.Second)
		w.happened(o, "one", "two")
	})
}

// TestCountersAndBarriersNeedOnlyTheCore: 40 additions of four clients, and two
// rounds of three members.
func TestCountersAndBarriersNeedOnlyTheCore(t *testing.T) {
	in(t, func(w world) {
		ctx := w.t.Context()
		var wg sync.WaitGroup
		for i := range 4 {
			client := w.client()
			c, err := counter.New(client, "n")
			w.ok(err)
			b, err := doublebarrier.New(client, "phase", 3)
			w.ok(err)
			wg.Go(func() {
				for range 10 {
					if _, err := c.Add(ctx, 1); err != nil {
						w.t.Error(err)
					}
				}
				for range 2 {
					if i == 3 {
						return
					}
					m, err := b.Enter(ctx)
					if err == nil {
						err = m.Leave(ctx)
					}
					w.is(err, nil)
				}
			})
		}
		wg.Wait()
		c, err := counter.New(w.client(), "n")
		w.ok(err)
		if n, err := c.Get(ctx); n != 40 || err != nil {
			w.t.Errorf("%d, %v", n, err)
		}
	})
}

// TestOnceNeedsOnlyTheCore: four clients run a job for ten keys.
func TestOnceNeedsOnlyTheCore(t *testing.T) {
	in(t, func(w world) {
		ctx := w.t.Context()
		var mu sync.Mutex
		calls := make(map[string]int)
		var wg sync.WaitGroup
		for range 4 {
			job, err := once.New(w.client(), "job")
			w.ok(err)
			wg.Go(func() {
				for day := range 10 {
					key := once.At(time.Unix(0, 0).AddDate(0, 0, day))
					w.is(job.Do(ctx, key, func(context.Context, *once.Hold) error {
						mu.Lock()
						defer mu.Unlock()
						calls[key]++
						return nil
					}), nil)
				}
			})
		}
		wg.Wait()
		for key, n := range calls {
			if n != 1 || len(calls) != 10 {
				w.t.Errorf("%s: %d calls; %d keys", key, n, len(calls))
			}
		}
	})
}

// TestGroupsAndPartitionsNeedOnlyTheCore, except that the value of a member
// cannot be updated: three members share six shards, one leaves, and the client
// of one is closed.
func TestGroupsAndPartitionsNeedOnlyTheCore(t *testing.T) {
	in(t, func(w world) {
		ctx := w.t.Context()
		var mu sync.Mutex
		holders := make(map[int]context.Context)
		held := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, ctx := range holders {
				if ctx.Err() == nil {
					n++
				}
			}
			return n
		}
		var wg sync.WaitGroup
		var ends []context.CancelFunc
		var clients []*coordinator.Client
		for range 3 {
			c := w.client()
			p, err := partition.New(c, "p", 6)
			w.ok(err)
			ctx, end := context.WithCancel(ctx)
			clients, ends = append(clients, c), append(ends, end)
			wg.Go(func() {
				_ = p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
					shard := s.Number()
					mu.Lock()
					if last := holders[shard]; last != nil && last.Err() == nil {
						w.t.Errorf("shard %d has two holders", shard)
					}
					holders[shard] = ctx
					mu.Unlock()
					<-ctx.Done()
					return nil
				})
			})
		}
		g, err := group.New(clients[2], "partition/p")
		w.ok(err)
		expect := func(members int) {
			w.t.Helper()
			time.Sleep(30 * time.Second)
			all, err := g.Members(ctx)
			if w.ok(err); len(all) != members || held() != 6 {
				w.t.Errorf("%d members, %d shards held; want %d, 6", len(all), held(), members)
			}
		}
		expect(3)
		ends[0]()
		expect(2)
		w.ok(clients[1].Close(ctx))
		expect(1)
		other, err := group.New(clients[2], "g")
		w.ok(err)
		m, err := other.Join(ctx, nil)
		w.ok(err)
		w.is(m.Update(ctx, []byte("v")), coordinator.ErrInvalid)
		w.ok(m.Leave(ctx))
		ends[2]()
		wg.Wait()
	})
}
