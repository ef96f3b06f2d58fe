package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/redis"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/others"
	"github.com/baton-go/baton/integration/internal/redisserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// open makes a client that is closed after the test. Its log is dropped.
func open(t testing.TB, hosts, query string) *coordinator.Client {
	t.Helper()
	c, err := coordinator.Open("redis://"+hosts+"/tests?"+query,
		coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = c.Close(ctx) // its server may be gone
	})
	return c
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newMutex(t testing.TB, c *coordinator.Client, name string) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(c, name)
	ok(t, err)
	return m
}

// services runs a test on one server and on a cluster.
func services(t *testing.T, test func(t *testing.T, client func(t *testing.T) *coordinator.Client)) {
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s := start(t, redisserver.Options{})
		test(t, func(t *testing.T) *coordinator.Client { return open(t, s.Addr(), "ttl=20s") })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		addrs := strings.Join(startCluster(t, 3).Addrs(), ",")
		test(t, func(t *testing.T) *coordinator.Client { return open(t, addrs, "ttl=20s&cluster=true") })
	})
}

// exclusive is a critical section that notices company, and tokens that do not
// rise.
type exclusive struct {
	t      *testing.T
	inside atomic.Int64
	last   atomic.Int64
	done   atomic.Int64
}

func (x *exclusive) enter(token coordinator.Token) {
	if n := x.inside.Add(1); n != 1 {
		x.t.Errorf("%d holders at once", n)
	}
	if last := x.last.Swap(int64(token)); int64(token) <= last {
		x.t.Errorf("token %d after %d", token, last)
	}
	await.For(x.t.Context(), time.Millisecond)
	x.done.Add(1)
	x.inside.Add(-1)
}

// contend runs f several times in several goroutines on each of three clients.
func contend(t *testing.T, client func(t *testing.T) *coordinator.Client, f func(ctx context.Context, c *coordinator.Client) error) (runs int64) {
	const clients, each, times = 3, 3, 8
	ctx := await.Context(t)
	var wg sync.WaitGroup
	for range clients {
		c := client(t)
		for range each {
			wg.Go(func() {
				for range times {
					if err := f(ctx, c); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	return clients * each * times
}

func TestRecipes(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, client func(t *testing.T) *coordinator.Client) {
		for name, test := range map[string]func(*testing.T, func(*testing.T) *coordinator.Client){
			"mutex": mutexExcludes, "rwlock": writersExclude, "semaphore": permitsAreLimited,
			"election": onlyOneLeads, "multilock": setsDoNotDeadlock, "taken": triesAreRefused,
		} {
			t.Run(name, func(t *testing.T) { test(t, client) })
		}
	})
}

func mutexExcludes(t *testing.T, client func(*testing.T) *coordinator.Client) {
	x, name := &exclusive{t: t}, servers.Name(t)
	runs := contend(t, client, func(ctx context.Context, c *coordinator.Client) error {
		m, err := mutex.New(c, name)
		if err != nil {
			return err
		}
		l, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		x.enter(l.Token())
		return l.Unlock(ctx)
	})
	if x.done.Load() != runs {
		t.Errorf("%d holds, want %d", x.done.Load(), runs)
	}
}

func writersExclude(t *testing.T, client func(*testing.T) *coordinator.Client) {
	x, name := &exclusive{t: t}, servers.Name(t)
	var readers, most, turn atomic.Int64
	contend(t, client, func(ctx context.Context, c *coordinator.Client) error {
		rw, err := rwlock.New(c, name)
		if err != nil {
			return err
		}
		if turn.Add(1)%3 == 0 {
			l, err := rw.Lock(ctx)
			if err != nil {
				return err
			}
			if n := readers.Load(); n != 0 {
				t.Errorf("a writer with %d readers", n)
			}
			x.enter(l.Token())
			return l.Unlock(ctx)
		}
		l, err := rw.RLock(ctx)
		if err != nil {
			return err
		}
		most.Store(max(most.Load(), readers.Add(1)))
		if x.inside.Load() != 0 {
			t.Error("a reader with a writer")
		}
		await.For(ctx, 2*time.Millisecond)
		readers.Add(-1)
		return l.Unlock(ctx)
	})
	if most.Load() < 2 {
		t.Error("no two readers shared the lock")
	}
}

func permitsAreLimited(t *testing.T, client func(*testing.T) *coordinator.Client) {
	const limit = 4
	name := servers.Name(t)
	var held, most, turn atomic.Int64
	contend(t, client, func(ctx context.Context, c *coordinator.Client) error {
		s, err := semaphore.New(c, name, limit)
		if err != nil {
			return err
		}
		n := 1 + turn.Add(1)%2
		p, err := s.Acquire(ctx, int(n))
		if err != nil {
			return err
		}
		now := held.Add(n)
		most.Store(max(most.Load(), now))
		if now > limit {
			t.Errorf("%d permits of %d are held", now, limit)
		}
		await.For(ctx, 2*time.Millisecond)
		held.Add(-n)
		return p.Release(ctx)
	})
	if most.Load() < 3 {
		t.Errorf("at most %d of %d permits were held at once", most.Load(), limit)
	}
}

func onlyOneLeads(t *testing.T, client func(*testing.T) *coordinator.Client) {
	x, name := &exclusive{t: t}, servers.Name(t)
	observer, err := election.New(client(t), name)
	ok(t, err)
	var seen atomic.Int64
	watching, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for leader, err := range observer.Observe(watching) {
			if err == nil && leader.Token != 0 {
				seen.Add(1)
			}
		}
	})
	contend(t, client, func(ctx context.Context, c *coordinator.Client) error {
		e, err := election.New(c, name)
		if err != nil {
			return err
		}
		term, err := e.Campaign(ctx, []byte("here"))
		if err != nil {
			return err
		}
		x.enter(term.Token())
		return term.Resign(ctx)
	})
	e, err := election.New(client(t), name)
	ok(t, err)
	before := seen.Load()
	term, err := e.Campaign(t.Context(), []byte("last"))
	ok(t, err)
	await.Until(t, "the observer to see the last leader", func() bool { return seen.Load() != before })
	ok(t, term.Resign(t.Context()))
	stop()
	wg.Wait()
}

func setsDoNotDeadlock(t *testing.T, client func(*testing.T) *coordinator.Client) {
	names := []string{servers.Name(t), servers.Name(t), servers.Name(t)}
	inside := make([]atomic.Int64, len(names))
	var turn atomic.Int64
	contend(t, client, func(ctx context.Context, c *coordinator.Client) error {
		a := int(turn.Add(1)) % 3
		b := (a + 1) % 3
		set, err := multilock.New(multilock.Mutex(c, names[a]), multilock.Mutex(c, names[b]))
		if err != nil {
			return err
		}
		return set.Do(ctx, func(context.Context, *multilock.Lock) error {
			for _, i := range []int{a, b} {
				if n := inside[i].Add(1); n != 1 {
					t.Errorf("%d holders of one name", n)
				}
			}
			await.For(ctx, time.Millisecond)
			inside[a].Add(-1)
			inside[b].Add(-1)
			return nil
		})
	})
}

func triesAreRefused(t *testing.T, client func(*testing.T) *coordinator.Client) {
	name, ctx := servers.Name(t), await.Context(t)
	first, second := newMutex(t, client(t), name), newMutex(t, client(t), name)
	l, err := first.Lock(ctx)
	ok(t, err)
	if _, err := second.TryLock(ctx); !errors.Is(err, coordinator.ErrTaken) {
		t.Errorf("TryLock of a held name: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := second.Lock(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a bounded Lock of a held name: %v", err)
	}
	ok(t, l.Unlock(ctx))
	if err := l.Unlock(ctx); !errors.Is(err, coordinator.ErrNotHeld) {
		t.Errorf("a second Unlock: %v", err)
	}
	await.State(t, "the server", func() (string, bool) { // the bounded Lock leaves in the background
		l, err = second.TryLock(ctx)
		return fmt.Sprintf("TryLock of a free name: %v", err), err == nil
	})
	ok(t, l.Unlock(ctx))
}

func TestOtherRecipes(t *testing.T) {
	t.Parallel()
	addr := start(t, redisserver.Options{}).Addr()
	others.Run(t, open(t, addr, "ttl=20s"), open(t, addr, "ttl=20s"))
}

// TestDeadWaitersLeaveNoWatches: a session is cut off while it waits for an
// entry and for a record. When it has expired, another one removes its traces.
func TestDeadWaitersLeaveNoWatches(t *testing.T) {
	t.Parallel()
	s := start(t, redisserver.Options{})
	link := netproxy.NewNetwork(t, []string{s.Addr()})
	ctx := await.Context(t)
	var sessions []driver.Session
	for _, host := range []string{link.Addrs()[0], s.Addr()} {
		d, err := redis.Open(&url.URL{Scheme: "redis", Host: host, Path: "/tests"})
		ok(t, err)
		t.Cleanup(func() { _ = d.Close(context.Background()) })
		session, err := d.Open(ctx, 6*time.Second)
		ok(t, err)
		sessions = append(sessions, session)
	}
	dead, alive, queue := sessions[0], sessions[1], driver.NewQueue("mutex", "a")
	j, err := alive.Join(ctx, queue, driver.Contender{ID: "0123456789abcdef", Mode: "x"})
	ok(t, err)
	_, err = dead.Join(ctx, queue, driver.Contender{ID: "123456789abcdef0", Mode: "x"})
	ok(t, err)
	over := make(chan error, 2)
	go func() { over <- dead.Watch(ctx, queue, j.Place) }()
	go func() {
		_, err := dead.Record(ctx, queue, 0)
		over <- err
	}()
	c := s.Client()
	defer c.Close()
	members := func(n int64, renewed ...driver.Session) {
		await.State(t, "the server", func() (string, bool) {
			for _, s := range renewed {
				ok(t, s.Renew(ctx))
			}
			got, err := c.ZCard(ctx, "baton:{/tests}:index").Result()
			return fmt.Sprintf("%d members of the index, %v; want %d", got, err, n), got == n
		})
	}
	members(6, alive, dead) // two entries, two watches with their ends at the session
	link.Each((*netproxy.Proxy).Cut)
	members(1, alive)
	link.Each((*netproxy.Proxy).Heal)
	if err := dead.Renew(ctx); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("a renewal of the dead session: %v", err)
	}
	for range 2 {
		if err := <-over; !errors.Is(err, driver.ErrSessionLost) && !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("a wait of the dead session: %v", err)
		}
	}
}

// TestUsedNamesLeaveNoKeys: a service may lock millions of names once.
func TestUsedNamesLeaveNoKeys(t *testing.T) {
	t.Parallel()
	s := start(t, redisserver.Options{})
	ctx := await.Context(t)
	a, b := open(t, s.Addr(), "ttl=20s"), open(t, s.Addr(), "ttl=20s")
	for i := range 20 {
		name := fmt.Sprintf("once-%d", i)
		l, err := newMutex(t, a, name).Lock(ctx)
		ok(t, err)
		if i%2 == 0 {
			if _, err := newMutex(t, b, name).TryLock(ctx); !errors.Is(err, coordinator.ErrTaken) {
				t.Error(err)
			}
			ok(t, l.Unlock(ctx))
		}
	}
	ok(t, a.Close(ctx)) // with ten locks held
	ok(t, b.Close(ctx))
	c := s.Client()
	defer c.Close()
	left, err := c.Keys(ctx, "*").Result()
	ok(t, err)
	if len(left) != 1 || left[0] != "baton:{/tests}:state" {
		t.Errorf("left behind: %q", left)
	}
	state, err := c.HKeys(ctx, left[0]).Result()
	if err != nil || len(state) != 1 || state[0] != "last" {
		t.Errorf("left in the state: %q, %v", state, err)
	}
}

// TestLatestReadsAreOneScript, although they have to see all finished writes.
func TestLatestReadsAreOneScript(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	c, asked := counted(t, start(t, redisserver.Options{}))
	orders, err := counter.New(c, name)
	ok(t, err)
	gate, err := barrier.New(c, name)
	ok(t, err)
	_, err = orders.Get(ctx) // opens the session
	ok(t, err)
	asked.since()
	_, err = orders.Get(ctx)
	ok(t, err)
	ok(t, gate.Wait(ctx))
	if n := asked.since(); n != 2 {
		t.Errorf("two reads sent %d scripts", n)
	}
}
