package interop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// batonClient opens a client in this process.
func batonClient(t *testing.T, url string) *coordinator.Client {
	t.Helper()
	c, err := coordinator.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(bounded(t)) })
	return c
}

func (s zkSite) client(t *testing.T, layout string) *coordinator.Client {
	t.Helper()
	return batonClient(t, "zk://"+s.addresses()+"?ttl=10s&layout="+layout)
}

func (s zkSite) conn(t *testing.T) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(s.endpoints, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// refusedBy fails the test unless the error is a refusal that contains name.
func refusedBy(t *testing.T, err error, name string) {
	t.Helper()
	if !errors.Is(err, coordinator.ErrRefused) || !strings.Contains(err.Error(), name) {
		t.Errorf("%v, want a refusal that names %s", err, name)
	}
}

// A child that is not a contender of the layout makes a queue ambiguous. It
// must neither admit a contender nor block it for ever: new contenders and
// waiters get an error that names it.
func TestStrayChildrenAreNamed(t *testing.T) {
	s := newZKSite(t)
	conn := s.conn(t)
	ctx := bounded(t)
	for layout, strays := range map[string][]string{
		"curator": {"!x", "zzz", "5f0c52e1a0b94b6f8a7f5f0c52e1a0b9__lock__0000000003", "_c_x-lease-0000000001",
			"_c_5f0c52e1-a0b9-4b6f-8a7f-5f0c52e1a0b9-latch-0000000001", "_c_x-lock-", "_c_x-lock-12"},
		"kazoo": {"lease_holder", "_c_5f0c52e1-a0b9-4b6f-8a7f-5f0c52e1a0b9-lock-0000000001", "5f0c52e1a0b94b6f8a7f5f0c52e1a0b9__rlock__0000000001"},
	} {
		c := s.client(t, layout)
		for i, stray := range strays {
			path := fmt.Sprintf("/interop/stray-%s-%d", layout, i)
			m, err := mutex.New(c, path)
			check(t, err)
			l, err := m.Lock(ctx)
			check(t, err)
			waits := make(chan error, 1)
			go func() {
				_, err := m.Lock(ctx)
				waits <- err
			}()
			awaitContenders(t, m, 2)
			_, err = conn.Create(path+"/"+stray, nil, 0, zk.WorldACL(zk.PermAll))
			check(t, err)
			_, err = m.Lock(ctx)
			refusedBy(t, err, stray)
			_, err = m.TryLock(ctx)
			refusedBy(t, err, stray)
			_, err = m.Contenders(ctx)
			refusedBy(t, err, stray)
			check(t, l.Unlock(ctx)) // remaining entries can be removed
			refusedBy(t, <-waits, stray)
			check(t, conn.Delete(path+"/"+stray, -1))
			awaitContenders(t, m, 0)
			l, err = m.TryLock(ctx) // nothing was left behind
			check(t, err)
			check(t, l.Unlock(ctx))
		}
	}
}

func awaitContenders(t *testing.T, m *mutex.Mutex, want int) {
	t.Helper()
	await.State(t, fmt.Sprintf("%d in the queue", want), func() (string, bool) {
		list, err := m.Contenders(bounded(t))
		return fmt.Sprintf("%d, %v", len(list), err), err == nil && len(list) == want
	})
}

// In Curator a mutex, a read-write lock and a latch of one path do not exclude
// each other. Baton refuses the mix.
func TestMixedRecipesOfOnePathAreRefused(t *testing.T) {
	s := newZKSite(t)
	c, ctx := s.client(t, "curator"), bounded(t)
	const path = "/interop/one-path"
	m, err := mutex.New(c, path)
	check(t, err)
	rw, err := rwlock.New(c, path)
	check(t, err)
	e, err := election.New(c, path)
	check(t, err)
	l, err := m.Lock(ctx)
	check(t, err)
	_, err = rw.RLock(ctx)
	refusedBy(t, err, "-lock-")
	_, err = rw.Lock(ctx)
	refusedBy(t, err, "-lock-")
	_, err = e.Campaign(ctx, nil)
	refusedBy(t, err, "-lock-")
	check(t, l.Unlock(ctx))
	r, err := rw.RLock(ctx)
	check(t, err)
	_, err = m.Lock(ctx)
	refusedBy(t, err, "__READ__")
	check(t, r.Unlock(ctx))
}

// TestStrayKeysAreNamed is TestStrayChildrenAreNamed for etcd.
func TestStrayKeysAreNamed(t *testing.T) {
	s := newEtcdSite(t)
	ec, ctx := s.client(t), bounded(t)
	c := batonClient(t, "etcd://"+s.addresses()+"?ttl=10s&layout=concurrency")
	lease, err := ec.Grant(ctx, 60)
	check(t, err)
	for i, stray := range []string{"x", "1234", "nested/694d0", ""} {
		name := "/interop/stray-key-" + string(rune('a'+i))
		key := name + "/" + stray
		var bound []clientv3.OpOption
		if i > 1 { // with another client's lease
			bound = append(bound, clientv3.WithLease(lease.ID))
		}
		_, err = ec.Put(ctx, key, "", bound...)
		check(t, err)
		m, err := mutex.New(c, name)
		check(t, err)
		_, err = m.Lock(ctx)
		refusedBy(t, err, key)
		_, err = m.TryLock(ctx)
		refusedBy(t, err, key)
		_, err = ec.Delete(ctx, key)
		check(t, err)
		awaitContenders(t, m, 0)
		l, err := m.TryLock(ctx)
		check(t, err)
		_, err = ec.Put(ctx, key, "", bound...)
		check(t, err)
		_, err = m.Lock(ctx)
		refusedBy(t, err, key)
		check(t, l.Unlock(ctx))
		_, err = ec.Delete(ctx, key)
		check(t, err)
	}
}

// The error has the reason, and comes before any request.
func TestLayoutsRefuseUnsupportedFeatures(t *testing.T) {
	zoo, etcd := newZKSite(t), newEtcdSite(t)
	open := func(url string) *coordinator.Client { return batonClient(t, url) }
	concurrency := open("etcd://" + etcd.addresses() + "?layout=concurrency")
	kazoo, curator := zoo.client(t, "kazoo"), zoo.client(t, "curator")
	ctx := bounded(t)
	invalid := func(_ any, err error) {
		t.Helper()
		check(t, err, coordinator.ErrInvalid)
	}
	_, err := rwlock.New(concurrency, "x")
	check(t, err, coordinator.ErrInvalid)
	_, err = semaphore.New(concurrency, "x", 1)
	check(t, err, coordinator.ErrInvalid)
	invalid(mutex.New(concurrency, ""))
	invalid(mutex.New(concurrency, "./x"))
	invalid(mutex.New(concurrency, "\x00"))
	invalid(mutex.New(kazoo, "/"))
	invalid(mutex.New(kazoo, "a//b"))
	invalid(mutex.New(kazoo, "/a/../b"))
	invalid(mutex.New(curator, "x", mutex.WithPayload([]byte("__REVOKE__"))))
	invalid(rwlock.New(curator, "x", rwlock.WithIdentity("__REVOKE__")))
	check(t, second(mutex.New(kazoo, "x", mutex.WithPayload([]byte("__REVOKE__"))))) // has no meaning there
	e, err := election.New(curator, "/interop/silent")
	check(t, err)
	term, err := e.Campaign(ctx, []byte("one"))
	check(t, err)
	check(t, term.Proclaim(ctx, []byte("two")), coordinator.ErrInvalid) // a waiting latch would not notice the resignation
	check(t, term.Resign(ctx))
	for _, url := range []string{
		"etcd://h?layout=curator", "etcd://h?layout=x", "etcd://h?layout=", "zk://h?layout=concurrency", "zk://h?layout=curator&election=x",
		"zk://h?layout=kazoo&election=latch", "zk://h?election=latch",
	} {
		_, err := coordinator.Open(url)
		check(t, err, coordinator.ErrInvalid)
	}
	for _, url := range []string{"etcd://h?layout=native", "zk://h?layout=native", "zk://h?layout=curator&election=latch"} {
		check(t, second(coordinator.Open(url)))
	}
}

func second(_ any, err error) error { return err }

// Names are used with and without a slash, and below a chroot or namespace.
func TestNamesMapToTheOtherClientsPaths(t *testing.T) {
	zoo, etcd := newZKSite(t), newEtcdSite(t)
	ctx := bounded(t)
	hold := func(c *coordinator.Client, name string) func() {
		t.Helper()
		m, err := mutex.New(c, name)
		check(t, err)
		l, err := m.TryLock(ctx)
		check(t, err)
		return func() { check(t, l.Unlock(ctx)) }
	}
	conn := zoo.conn(t)
	for _, c := range []struct{ chroot, name, path string }{
		{"", "/interop/n 1", "/interop/n 1"}, {"", "interop/n%2F2", "/interop/n%2F2"}, {"/interop/chroot", "/n/3", "/interop/chroot/n/3"},
	} {
		release := hold(batonClient(t, "zk://"+zoo.addresses()+c.chroot+"?layout=curator"), c.name)
		if names, _, err := conn.Children(c.path); err != nil || len(names) != 1 || !strings.HasPrefix(names[0], "_c_") {
			t.Errorf("%s has %v, %v", c.path, names, err)
		}
		release()
	}
	ec := etcd.client(t)
	for _, c := range []struct{ namespace, name, prefix string }{
		{"", "/interop/n 1", "/interop/n 1/"}, {"", "interop%2Fn//", "interop%2Fn///"}, {"/ns/x", "n", "ns/x/n/"}, {"/ns/x", "/n", "ns/x//n/"},
	} {
		release := hold(batonClient(t, "etcd://"+etcd.addresses()+c.namespace+"?layout=concurrency"), c.name)
		if resp, err := ec.Get(ctx, c.prefix, clientv3.WithPrefix()); err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].Lease == 0 {
			t.Errorf("%s has %v, %v", c.prefix, resp, err)
		}
		release()
	}
}
