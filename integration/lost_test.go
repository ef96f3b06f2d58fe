package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

func TestLostReplyToLockMakesOneContender(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c := s.link(t, 10*time.Second)
		name := servers.Name(t)
		m := newMutex(t, c.Client, name)
		unlock(t, lock(t, m))
		trap := c.proxy.LoseReply(c.join)
		l := lock(t, m)
		if err := trap.Wait(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		awaitQueue(t, newMutex(t, s.client(t, 10*time.Second), name), 1)
		unlock(t, l)
	})
}

// The join was applied, its reply is lost, the service stays away, and the
// caller times out. The queue is empty when the service is back, and the
// session still lives.
func TestTimedOutLockWithALostReplyLeavesNoEntry(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		c, other := s.link(t, 20*time.Second), s.client(t, 10*time.Second)
		name := servers.Name(t)
		m, probe := newMutex(t, c.Client, name), newMutex(t, other, name)
		before := lock(t, m)
		unlock(t, before)
		trap := c.proxy.HoldReply(c.join)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		got := wait(ctx, m)
		c.joined(t, trap, probe)
		c.proxy.Cut() // the removal of the entry cannot pass either
		err := <-got
		if !errors.Is(err, coordinator.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || coordinator.MayHaveApplied(err) {
			t.Errorf("Lock = %v, want unavailable, deadline exceeded, and that nothing is held", err)
		}
		c.proxy.DropHeld()
		awaitQueue(t, probe, 0)
		after := lock(t, m)
		if after.Session() != before.Session() {
			t.Errorf("the entry may have gone with its session %s, now it is %s", before.Session(), after.Session())
		}
		unlock(t, after)
	})
}

// The server is really down, and comes back with its data.
func TestWaiterCancelledWhileTheServerIsDownIsRemoved(t *testing.T) {
	t.Parallel()
	type node interface {
		Kill()
		Restart(context.Context) error
	}
	run := func(t *testing.T, s site, n node) {
		c := s.client(t, 40*time.Second) // outlives the outage
		name := servers.Name(t)
		m := newMutex(t, c, name)
		l := lock(t, m)
		ctx, cancel := context.WithCancel(context.Background())
		got := wait(ctx, m)
		awaitQueue(t, m, 2)
		n.Kill()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v", err)
		}
		if err := n.Restart(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		awaitQueue(t, m, 1)
		if l.Err() != nil {
			t.Errorf("the holder, on the same session: %v", l.Err())
		}
		unlock(t, l)
	}
	t.Run("etcd", func(t *testing.T) {
		cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 1})
		run(t, site{"etcd", cluster.Endpoints()}, cluster.Node(0))
	})
	t.Run("zookeeper", func(t *testing.T) {
		cluster := servers.NewZooKeeper(t, zkserver.Options{Nodes: 1})
		run(t, site{"zk", cluster.Endpoints()}, cluster.Node(0))
	})
}

// Every call runs against an address without a listener, and against a listener
// that stays silent.
func TestNothingHangsWhenNoServerAnswers(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		for _, kind := range []string{"refused", "silent"} {
			t.Run(kind, func(t *testing.T) {
				proxy := servers.Proxy(t, s.endpoints)
				if kind == "silent" {
					proxy.Cut()
				} else {
					proxy.Refuse()
				}
				c := s.client(t, 10*time.Second, proxy.Addr())
				m := newMutex(t, c, servers.Name(t))
				for op, call := range map[string]func(context.Context) error{
					"Session":    func(ctx context.Context) error { _, err := c.Session(ctx); return err },
					"Lock":       func(ctx context.Context) error { _, err := m.Lock(ctx); return err },
					"TryLock":    func(ctx context.Context) error { _, err := m.TryLock(ctx); return err },
					"Contenders": func(ctx context.Context) error { _, err := m.Contenders(ctx); return err },
					"Do": func(ctx context.Context) error {
						return m.Do(ctx, func(context.Context, *mutex.Lock) error { t.Error("work ran"); return nil })
					},
				} {
					got := make(chan error, 1)
					go func() { got <- call(within(t, 700*time.Millisecond)) }()
					err := await.Receive(t, op+" to return after 0.7 s", got)
					if !errors.Is(err, coordinator.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s = %v, want unavailable and deadline exceeded", op, err)
					}
				}
				closed := make(chan error, 1)
				go func() { closed <- c.Close(within(t, 700*time.Millisecond)) }()
				await.Receive(t, "Close to return after 0.7 s", closed)
			})
		}
	})
}

// Requests arrive, replies do not. Close cannot know that it succeeded, but the
// session ends. The retries must not keep the session alive.
func TestCloseEndsTheSessionWithoutAReply(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		const ttl = 40 * time.Second
		c, name := s.link(t, ttl), servers.Name(t)
		lock(t, newMutex(t, c.Client, name))
		next := newMutex(t, s.client(t, ttl), name)
		got := wait(context.Background(), next)
		awaitQueue(t, next, 2)
		c.proxy.CutDown()
		renewed := time.Now() // at the earliest: renewals still arrive
		if err := c.Close(within(t, 4*time.Second)); !errors.Is(err, coordinator.ErrUnavailable) {
			t.Errorf("Close without an answer = %v", err)
		}
		if err := await.Receive(t, "the next grant", got); err != nil {
			t.Error(err)
		}
		if time.Now().After(renewed.Add(ttl)) {
			t.Error("the next holder got the name only when the session could have expired")
		}
	})
}

// within returns a context with a timeout, for the rest of the test.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// wait locks in the background and sends the error.
func wait(ctx context.Context, m *mutex.Mutex) <-chan error {
	got := make(chan error, 1)
	go func() {
		_, err := m.Lock(ctx)
		got <- err
	}()
	return got
}
