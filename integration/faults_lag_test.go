package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/netproxy"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

const lag = 300 * time.Millisecond

// lagging runs a test with a member that learns late of what is written. An
// etcd's disk is slow, so it has not written down, and not applied, what the
// others agree on; a ZooKeeper's link to its leader is.
func lagging(t *testing.T, test func(t *testing.T, e *ensemble, behind int)) {
	t.Parallel()
	t.Run("etcd-3", func(t *testing.T) {
		t.Parallel()
		tool(t, "strace", "strace")
		e := ownEtcd(t, etcdserver.Options{Nodes: 3, Fsync: true})
		behind := e.follower(t)
		t.Cleanup(e.ail(t, behind, "delay_enter=300ms"))
		raw := plainEtcd(t, e.endpoints[behind])
		writer := e.etcdClient(t)
		late(t, func(i int) error {
			_, err := writer.Put(within(t, patience), fmt.Sprint("late", i), "x")
			return err
		}, func(i int) bool {
			resp, err := raw.Get(within(t, patience), fmt.Sprint("late", i), clientv3.WithSerializable())
			return err == nil && len(resp.Kvs) == 1
		})
		test(t, e, behind)
	})
	t.Run("zookeeper-3", func(t *testing.T) {
		t.Parallel()
		const behind = 0
		var links []*netproxy.Proxy
		e := ownZooKeeper(t, zkserver.Options{Nodes: 3, Quorum: func(from, _ int, addr string) string {
			if from != behind {
				return addr
			}
			links = append(links, servers.Proxy(t, []string{addr}))
			return links[len(links)-1].Addr()
		}})
		if e.leader(t) == behind {
			e.members[behind].Kill()
			e.leader(t)
			e.start(t, behind)
		}
		for _, l := range links {
			l.Delay(netproxy.Down, lag)
		}
		raw, writer := plainZooKeeper(t, e.endpoints[behind]), plainZooKeeper(t, e.endpoints[e.leader(t)])
		late(t, func(i int) error {
			_, err := writer.Create(fmt.Sprint("/late", i), nil, 0, zk.WorldACL(zk.PermAll))
			return err
		}, func(i int) bool { there, _, err := raw.Exists(fmt.Sprint("/late", i)); return err == nil && there })
		test(t, e, behind)
	})
}

// late checks that what is written is not seen at once. A writer that is told
// late itself sees no lag, so it tries a few times.
func late(t *testing.T, write func(int) error, seen func(int) bool) {
	t.Helper()
	var most time.Duration
	for i := range 10 {
		if err := write(i); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		eventually(t, patience, "the write is seen", func() bool { return seen(i) })
		if most = max(most, time.Since(began)); most >= lag/3 {
			break // the writer itself was not late
		}
	}
	t.Logf("behind by %v", most.Round(time.Millisecond))
	if most < lag/3 {
		t.Errorf("the member is behind by %v only: the test shows nothing", most)
	}
}

// TestMemberThatLagsBehind: contenders at a member that lags behind, and others
// at members that do not.
func TestMemberThatLagsBehind(t *testing.T) {
	lagging(t, func(t *testing.T, e *ensemble, behind int) {
		const ttl = 20 * time.Second
		crowd := site{e.service, []string{e.endpoints[behind]}}.crowd(t, 2, ttl)
		crowd.join(site{e.service, []string{e.endpoints[(behind+1)%3], e.endpoints[(behind+2)%3]}}, 2, ttl)
		for range 6 {
			crowd.goesOn("with a member behind")
		}
		crowd.disperse()
	})
}

// TestClientMovesToAMemberThatLagsBehind: a contender joins at a member that is
// up to date, and from then on has one that is behind it. That one has not
// heard yet of the contender, nor of those ahead of it, and admits nobody by
// that.
func TestClientMovesToAMemberThatLagsBehind(t *testing.T) {
	lagging(t, func(t *testing.T, e *ensemble, behind int) {
		const ttl = 30 * time.Second
		network := newCable(t, e.endpoints)
		c := e.client(t, ttl, network.addrs()...)
		near := site{e.service, []string{e.endpoints[(behind+1)%3], e.endpoints[(behind+2)%3]}}.client(t, ttl)
		for range 2 {
			network.each((*netproxy.Proxy).Refuse)
			network.each((*netproxy.Proxy).Reset)
			for i, p := range network.proxies {
				if i == behind {
					continue
				}
				if err := p.Admit(); err != nil {
					t.Fatal(err)
				}
			}
			name := servers.Name(t)
			ahead, m := newMutex(t, near, name), newMutex(t, c, name)
			l := lock(t, ahead)
			got := granted(t.Context(), m)
			awaitQueue(t, ahead, 2)
			network.each((*netproxy.Proxy).Refuse)
			network.each((*netproxy.Proxy).Reset)
			if err := network.proxies[behind].Admit(); err != nil {
				t.Fatal(err)
			}
			select {
			case g := <-got:
				t.Fatalf("Lock = %v, %v while another holds", g.lock, g.err)
			case <-time.After(2 * time.Second):
			}
			unlock(t, l)
			next := get(t, got, "after the release")
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			unlock(t, next)
		}
	})
}
