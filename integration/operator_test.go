package integration_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

// etcdClient is a client of the service's own library, as an operator's tools
// use it.
func (s site) etcdClient(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := etcdserver.NewClient(s.endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s site) zkConn(t *testing.T, timeout time.Duration) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect(s.endpoints, timeout, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			return c
		}
	}
	t.Fatal("no session")
	return nil
}

// remove deletes all entries of a mutex with the service's own tools.
func (s site) remove(t *testing.T, name string) {
	t.Helper()
	removed := 0
	if s.service == "etcd" {
		c, ctx := s.etcdClient(t), await.Context(t)
		all, err := c.Get(ctx, "baton-test/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range all.Kvs {
			if strings.Contains(string(kv.Key), "mutex/"+name+"/") {
				if _, err := c.Delete(ctx, string(kv.Key)); err != nil {
					t.Fatal(err)
				}
				removed++
			}
		}
	} else {
		c, parent := s.zkConn(t, 5*time.Second), "/baton-test/~/mutex/"+name
		children, _, err := c.Children(parent)
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range children {
			if err := c.Delete(parent+"/"+child, -1); err != nil {
				t.Fatal(err)
			}
			removed++
		}
	}
	if removed == 0 {
		t.Fatal("nothing to remove was found")
	}
}

func TestEntryDeletedByAnOperatorEndsTheHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c, name := s.meter(t, 10*time.Second), servers.Name(t)
		m := newMutex(t, c.Client, name)
		other := lock(t, newMutex(t, c.Client, servers.Name(t)))
		for _, watched := range []bool{false, true} { // before and after the hold watches its entry
			l := lock(t, m)
			if watched {
				quiesce(t, c)
			}
			s.remove(t, name)
			await.Until(t, "the hold ended", func() bool { return l.Err() != nil })
			if cause := context.Cause(l.Context()); !errors.Is(cause, coordinator.ErrRemoved) {
				t.Errorf("cause %v", cause)
			}
			if err := l.Unlock(await.Context(t)); !errors.Is(err, coordinator.ErrRemoved) {
				t.Errorf("Unlock = %v", err)
			}
		}
		if other.Err() != nil {
			t.Errorf("another hold of the session: %v", other.Err())
		}
	})
}

// Renewals are a minute apart on etcd. ZooKeeper's servers grant no TTL for
// which they would be more than a few seconds apart.
func TestSessionEndedByAnOperatorIsNoticedBeforeTheNextRenewal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		ttl := 10 * time.Minute
		if s.service == "zk" {
			ttl = 40 * time.Second
		}
		c, killer := s.link(t, ttl), s.client(t, ttl)
		name := servers.Name(t)
		m := newMutex(t, c.Client, name)
		l := lock(t, m)
		waiter := wait(context.Background(), m)
		awaitQueue(t, newMutex(t, killer, name), 2)
		session, err := c.Session(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		id, err := strconv.ParseUint(session.ID(), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if s.service == "etcd" {
			_, err = s.etcdClient(t).Revoke(await.Context(t), clientv3.LeaseID(id))
		} else {
			err = c.counter.Session().Kill(await.Context(t), s.endpoints[0])
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := await.Receive(t, "the waiter's error", waiter); !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("the waiter got %v", err)
		}
		if !errors.Is(l.Err(), coordinator.ErrSessionLost) {
			t.Errorf("the hold has %v", l.Err())
		}
		again := lock(t, m) // on a new session
		if again.Token() <= l.Token() {
			t.Errorf("token %d after %d", again.Token(), l.Token())
		}
		unlock(t, again)
	})
}

func TestWaiterSurvivesCompaction(t *testing.T) {
	s := site{"etcd", servers.Etcd(t).Endpoints()}
	c, name := s.link(t, 20*time.Second), servers.Name(t)
	holder := s.client(t, 20*time.Second)
	l := lock(t, newMutex(t, holder, name))
	got := wait(context.Background(), newMutex(t, c.Client, name))
	awaitQueue(t, newMutex(t, holder, name), 2)
	raw, ctx := s.etcdClient(t), await.Context(t)
	c.proxy.Refuse()
	c.proxy.Reset()
	unlock(t, l) // while the waiter is cut off
	var rev int64
	for range 10 {
		resp, err := raw.Put(ctx, "noise", "")
		if err != nil {
			t.Fatal(err)
		}
		rev = resp.Header.Revision
	}
	if _, err := raw.Compact(ctx, rev); err != nil {
		t.Fatal(err)
	}
	if err := c.proxy.Admit(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("the wake-up was lost with the compacted revisions")
	}
}

func TestTokensRiseAfterZooKeeperReapedTheQueue(t *testing.T) {
	t.Parallel()
	s := site{"zk", servers.ZooKeeper(t).Endpoints()}
	c, name := s.client(t, 10*time.Second), servers.Name(t)
	m, conn := newMutex(t, c, name), s.zkConn(t, 5*time.Second)
	l := lock(t, m)
	first := l.Token()
	unlock(t, l)
	await.Until(t, "the empty container reaped", func() bool {
		there, _, err := conn.Exists("/baton-test/~/mutex/" + name)
		return err == nil && !there
	})
	l = lock(t, m)
	if l.Token() <= first {
		t.Errorf("token %d after %d: the sequence restarted, and the token with it", l.Token(), first)
	}
	unlock(t, l)
}

// The connection's owner can use it before, during and after.
func TestClientsOnExistingConnections(t *testing.T) {
	t.Parallel()
	use := func(t *testing.T, d driver.Driver, err error, ttl time.Duration) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		c, err := coordinator.New(d, coordinator.WithTTL(ttl), logTo(t))
		if err != nil {
			t.Fatal(err)
		}
		m := newMutex(t, c, servers.Name(t))
		unlock(t, lock(t, m))
		lock(t, m) // and not unlocked
		if err := c.Close(await.Context(t)); err != nil {
			t.Error(err)
		}
	}
	t.Run("clientv3.Client", func(t *testing.T) {
		s := site{"etcd", servers.Etcd(t).Endpoints()}
		ec := s.etcdClient(t)
		d, err := etcd.FromClient(ec, etcd.Namespace("baton-test"))
		use(t, d, err, 10*time.Second)
		if _, err := ec.Get(await.Context(t), "x"); err != nil {
			t.Errorf("the client was closed: %v", err)
		}
	})
	t.Run("concurrency.Session", func(t *testing.T) {
		s := site{"etcd", servers.Etcd(t).Endpoints()}
		ec := s.etcdClient(t)
		cs, err := concurrency.NewSession(ec, concurrency.WithTTL(30))
		if err != nil {
			t.Fatal(err)
		}
		d, err := etcd.FromSession(cs, etcd.Namespace("baton-test"))
		use(t, d, err, 30*time.Second)
		lease, err := ec.TimeToLive(await.Context(t), cs.Lease(), clientv3.WithAttachedKeys())
		if err != nil || lease.TTL <= 0 || len(lease.Keys) != 0 {
			t.Errorf("lease %+v, %v: want a live lease without keys", lease, err)
		}
		_ = cs.Close()
	})
}

func TestTTLThatTheServerWouldChangeIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		site
		ttl time.Duration
	}{
		{site{"etcd", servers.Etcd(t).Endpoints()}, 1500 * time.Millisecond},
		{site{"zk", servers.ZooKeeper(t).Endpoints()}, time.Hour},
	} {
		c := s.client(t, s.ttl)
		_, err := c.Session(await.Context(t))
		if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), s.ttl.String()) {
			t.Errorf("%s: Session = %v, want ErrInvalid naming %v", s.service, err, s.ttl)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v: it was retried", s.service, err)
		}
	}
}
