package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

func TestLostReplyToLockMakesOneContender(t *testing.T) {
	each(t, func(t *testing.T, s site) {
		c := s.link(t, 10*time.Second)
		name := servers.Name(t)
		m := newMutex(t, c.Client, name)
		unlock(t, lock(t, m))
		trap := c.proxy.LoseReply(c.join)
		l := lock(t, m)
		if err := trap.Wait(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		awaitQueue(t, newMutex(t, s.client(t, 10*time.Second), name), 1)
		unlock(t, l)
	})
}

// The join was applied, its reply is lost, the service stays away, and the
// caller times out. A second after the service is back the queue is empty.
func TestTimedOutLockWithALostReplyLeavesNoEntry(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		c, other := s.link(t, 20*time.Second), s.client(t, 10*time.Second)
		name := servers.Name(t)
		m, probe := newMutex(t, c.Client, name), newMutex(t, other, name)
		unlock(t, lock(t, m))
		soon(t, "the entry is removed after the network's return", time.Second, func() time.Duration {
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
			back := time.Now()
			c.proxy.DropHeld()
			awaitQueue(t, probe, 0)
			return time.Since(back)
		})
		unlock(t, lock(t, m)) // on the same session
	})
}

// The cancelled waiter cannot reach the service.
func TestWaiterCancelledDuringAnOutageIsRemovedWithinASecondAfterIt(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		c, other := s.link(t, 20*time.Second), s.client(t, 10*time.Second)
		name := servers.Name(t)
		probe := newMutex(t, other, name)
		l := lock(t, probe)
		soon(t, "the cancelled waiter is removed after the return", time.Second, func() time.Duration {
			ctx, cancel := context.WithCancel(context.Background())
			got := wait(ctx, newMutex(t, c.Client, name))
			awaitQueue(t, probe, 2)
			c.proxy.Refuse()
			c.proxy.Reset()
			time.Sleep(500 * time.Millisecond) // until the client notices
			cancel()
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v", err)
			}
			time.Sleep(time.Second)
			if n := inQueue(t, probe); n != 2 {
				t.Fatalf("%d in the queue while the service is away: the test shows nothing", n)
			}
			back := time.Now()
			if err := c.proxy.Admit(); err != nil {
				t.Fatal(err)
			}
			awaitQueue(t, probe, 1)
			return time.Since(back)
		})
		unlock(t, l)
	})
}

// The server is really down, and comes back with its data.
func TestWaiterCancelledWhileTheServerIsDownIsRemoved(t *testing.T) {
	type node interface {
		Kill()
		Restart(context.Context) error
	}
	run := func(t *testing.T, s site, n node) {
		c := s.client(t, 40*time.Second) // outlives the outage
		name := servers.Name(t)
		m := newMutex(t, c, name)
		l := lock(t, m)
		bound := time.Second
		if s.service == "zk" {
			// A starting server may drop a connection without an answer:
			// "ZooKeeperServer not running", a NullPointerException. The client
			// gives up after two seconds.
			bound += 2 * time.Second
		}
		soon(t, "the waiter is removed after the server is back", bound, func() time.Duration {
			ctx, cancel := context.WithCancel(context.Background())
			got := wait(ctx, m)
			awaitQueue(t, m, 2)
			n.Kill()
			time.Sleep(300 * time.Millisecond)
			cancel()
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v", err)
			}
			if err := n.Restart(within(t, callBound)); err != nil {
				t.Fatal(err)
			}
			back := time.Now()
			awaitQueue(t, m, 1)
			return time.Since(back)
		})
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
						return m.Do(ctx, func(context.Context) error { t.Error("work ran"); return nil })
					},
				} {
					began := time.Now()
					err := call(within(t, 700*time.Millisecond))
					if !errors.Is(err, coordinator.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s = %v, want unavailable and deadline exceeded", op, err)
					}
					if took := time.Since(began); took > 15*time.Second {
						t.Errorf("%s took %v with 0.7 s to go", op, took)
					}
				}
				began := time.Now()
				_ = c.Close(within(t, 700*time.Millisecond))
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("Close took %v", took)
				}
			})
		}
	})
}

// Requests arrive, replies do not. Close cannot know that it succeeded, but the
// session ends. The retries must not keep the session alive.
func TestCloseEndsTheSessionWithoutAReply(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		const ttl = 40 * time.Second
		c, name := s.link(t, ttl), servers.Name(t)
		lock(t, newMutex(t, c.Client, name))
		next := newMutex(t, s.client(t, ttl), name)
		got := wait(context.Background(), next)
		awaitQueue(t, next, 2)
		c.proxy.CutDown()
		if err := c.Close(within(t, 4*time.Second)); !errors.Is(err, coordinator.ErrUnavailable) {
			t.Errorf("Close without an answer = %v", err)
		}
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second): // with a TTL of 40 s
			t.Error("the session is still alive")
		}
	})
}

// soon repeats what should take no longer than a bound, until it does. A slow
// machine may delay a few runs.
func soon(t *testing.T, what string, bound time.Duration, run func() time.Duration) {
	t.Helper()
	const runs = 5
	for range runs {
		took := run()
		t.Logf("%s: after %v", what, took.Round(time.Millisecond))
		if took <= bound {
			return
		}
	}
	t.Errorf("%s: not within %v in any of %d runs", what, bound, runs)
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
