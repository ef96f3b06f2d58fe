package integration_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// The conformance suite does not show that requests which a harness delivers
// late have any effect. These tests show it, with plain requests.

// strand sends a write through a network and strands it there.
func strand(t *testing.T, c *netproxy.Network, write func() error) {
	t.Helper()
	c.HoldRequests()
	wrote := make(chan error, 1)
	go func() { wrote <- write() }()
	await.Until(t, "the write to be held", func() bool { return c.Held() > 0 })
	await.Steady(t, "the whole write to be held", c.Held)
	c.Strand()
	if err := <-wrote; err == nil {
		t.Fatal("the write was acknowledged")
	}
}

func TestStrandedPutIsAppliedByEtcdWhenItIsDelivered(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, cluster *etcdserver.Cluster) {
		c := netproxy.NewNetwork(t, cluster.Endpoints())
		victim, witness := plainEtcd(t, c.Addrs()...), plainEtcd(t, cluster.Endpoints()...)
		key := servers.Name(t)
		there := func(client *clientv3.Client) bool {
			resp, err := client.Get(await.Context(t), key)
			if err != nil {
				t.Fatal(err)
			}
			return len(resp.Kvs) > 0
		}
		if there(victim) {
			t.Fatal("the key exists before it was put")
		}
		strand(t, c, func() error { _, err := victim.Put(await.Context(t), key, ""); return err })
		if there(victim) || there(witness) {
			t.Fatal("the put was applied before it was delivered")
		}
		c.Deliver()
		await.Until(t, "the put is applied", func() bool { return there(witness) })
	}
	t.Run("etcd", func(t *testing.T) { run(t, servers.Etcd(t)) })
	t.Run("etcd-3", func(t *testing.T) { run(t, servers.EtcdCluster(t)) })
}

func plainEtcd(t *testing.T, addrs ...string) *clientv3.Client {
	t.Helper()
	client, err := etcdserver.NewClient(addrs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// On ZooKeeper a write belongs to a session, and the session to one connection.
// A delivered write is applied while the client has not moved its session to
// another connection, and never after that. The driver's Forget and Close rely
// on this.
func TestStrandedCreateIsAppliedByZooKeeperUnlessTheSessionHasMoved(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, cluster *zkserver.Cluster, moves bool) {
		c := netproxy.NewNetwork(t, cluster.Endpoints())
		victim, witness := plainZooKeeper(t, c.Addrs()...), plainZooKeeper(t, cluster.Endpoints()...)
		node := "/" + servers.Name(t)
		there := func() bool {
			_, err := witness.Sync(node)
			found := false
			if err == nil {
				found, _, err = witness.Exists(node)
			}
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		if !moves {
			c.Each((*netproxy.Proxy).Refuse) // refuses new connections; the existing one stays
		}
		strand(t, c, func() error {
			_, err := victim.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			return err
		})
		if moves {
			await.Until(t, "the client is back", func() bool { _, err := victim.Sync("/"); return err == nil })
		}
		if there() {
			t.Fatal("the create was applied before it was delivered")
		}
		c.Deliver()
		if !moves {
			await.Until(t, "the create is applied", there)
			return
		}
		for range 100 { // requests that the same server answers after the create
			if there() {
				t.Fatal("the create was applied after its session had moved")
			}
		}
	}
	for _, moves := range []bool{false, true} {
		name := map[bool]string{false: "/stays", true: "/moves"}[moves]
		t.Run("zookeeper"+name, func(t *testing.T) { run(t, servers.ZooKeeper(t), moves) })
		t.Run("zookeeper-3"+name, func(t *testing.T) { run(t, servers.ZooKeeperCluster(t), moves) })
	}
}

// plainZooKeeper returns a connection with a session.
func plainZooKeeper(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	c := zooKeeperConn(addrs...)
	t.Cleanup(c.Close)
	if _, err := c.Sync("/"); err != nil {
		t.Fatal(err)
	}
	return c
}
