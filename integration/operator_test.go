package integration_test

import (
	"context"
	"errors"
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
