package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

const lag = 300 * time.Millisecond

// lagging runs a test with a member that applies writes late: an etcd whose
// disk is slow, or a ZooKeeper whose link to its leader is slow.
func lagging(t *testing.T, test func(t *testing.T, e *ensemble, behind int)) {
	t.Parallel()
	t.Run("etcd-3", func(t *testing.T) {
		t.Parallel()
		tool(t, "strace", "strace")
		e := ownEtcd(t, etcdserver.Options{Nodes: 3, Fsync: true})
		behind := e.follower(t)
		t.Cleanup(e.breakDisk(t, behind, "delay_enter=300ms"))
		raw := plainEtcd(t, e.endpoints[behind])
		writer := e.etcdClient(t)
		late(t, func(i int) error {
			_, err := writer.Put(await.Context(t), fmt.Sprint("late", i), "x")
			return err
		}, func(i int) bool {
			resp, err := raw.Get(await.Context(t), fmt.Sprint("late", i), clientv3.WithSerializable())
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

// late checks that the member does not see a write at once. A writer whose own
// acknowledgement is late sees no lag, so it tries a few times.
func late(t *testing.T, write func(int) error, seen func(int) bool) {
	t.Helper()
	for i := range 10 {
		if err := write(i); err != nil {
			t.Fatal(err)
		}
		acknowledged, behind := time.Now(), !seen(i)
		await.Until(t, "the write is seen", func() bool { return seen(i) })
		if behind {
			t.Logf("behind by %v", time.Since(acknowledged).Round(time.Millisecond))
			return
		}
	}
	t.Error("the member is not behind: the test shows nothing")
}

// Contenders at a lagging member exclude contenders at the others.
func TestLaggingMemberKeepsExclusion(t *testing.T) {
	lagging(t, func(t *testing.T, e *ensemble, behind int) {
		const ttl = 20 * time.Second
		workload := site{e.service, []string{e.endpoints[behind]}}.workload(t, 2, ttl)
		workload.join(site{e.service, []string{e.endpoints[(behind+1)%3], e.endpoints[(behind+2)%3]}}, 2, ttl)
		for range 6 {
			workload.progresses("with a member behind")
		}
		workload.finish()
	})
}
