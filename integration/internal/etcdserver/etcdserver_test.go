package etcdserver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func connect(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := etcdserver.NewClient(endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// within returns a context for one step, whose timeout fails the step and not
// the whole package.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	// A put during an election may fail; repeating it is harmless.
	ctx := await.Context(t)
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Put(attempt, key, value)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("put %s: %v", key, err)
		}
	}
}

func get(t *testing.T, client *clientv3.Client, key string) string {
	t.Helper()
	resp, err := client.Get(await.Context(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func TestEmbeddedServesAndGrantsAOneSecondLease(t *testing.T) {
	server, err := etcdserver.StartEmbedded(await.Context(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client := connect(t, server.Endpoints()...)
	put(t, client, "a", "1")
	if got := get(t, client, "a"); got != "1" {
		t.Fatalf("got %q", got)
	}
	lease, err := client.Grant(await.Context(t), 1)
	if err != nil || lease.TTL != 1 {
		t.Fatalf("granted %+v, %v; want 1 s", lease, err)
	}
}

func TestEmbeddedGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	server, err := etcdserver.StartEmbedded(ctx, 0)
	if err == nil { // it may be ready before the context is checked
		server.Close()
	} else if !errors.Is(err, cause) {
		t.Fatalf("StartEmbedded: %v", err)
	}
}

func TestSingleNodeKeepsDataOverKillUntilWiped(t *testing.T) {
	cluster := servers.NewEtcd(t, etcdserver.Options{})
	node := cluster.Node(0)
	client := connect(t, cluster.Endpoints()...)
	put(t, client, "a", "1")
	lease, err := client.Grant(await.Context(t), 1)
	if err != nil || lease.TTL != 1 {
		t.Fatalf("granted %+v, %v; want 1 s", lease, err)
	}

	if err := node.Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	if got := get(t, client, "a"); got != "1" {
		t.Fatalf("got %q after a restart", got)
	}

	if err := node.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	if got := get(t, connect(t, cluster.Endpoints()...), "a"); got != "" {
		t.Fatalf("got %q from an empty server", got)
	}
}

func TestPausedNodeIsSilentUntilResumed(t *testing.T) {
	cluster := servers.NewEtcd(t, etcdserver.Options{})
	client := connect(t, cluster.Endpoints()...)
	put(t, client, "a", "1")
	if err := cluster.Node(0).Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(within(t, 300*time.Millisecond), "a"); err == nil {
		t.Fatal("a paused server answered")
	}
	if err := cluster.Node(0).Resume(); err != nil {
		t.Fatal(err)
	}
	if got := get(t, client, "a"); got != "1" {
		t.Fatalf("got %q", got)
	}
}

func TestThreeNodesLiveWithoutTheirLeader(t *testing.T) {
	cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 3})
	client := connect(t, cluster.Endpoints()...)
	put(t, client, "a", "before")

	killed, err := cluster.Leader(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	killed.Kill()
	start := time.Now()
	put(t, client, "a", "killed")
	t.Logf("writes %v after kill -9 of the leader", time.Since(start))
	if err := killed.Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}

	paused, err := cluster.Leader(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	put(t, client, "a", "paused")
	t.Logf("writes %v after the leader was paused", time.Since(start))
	if next, err := cluster.Leader(await.Context(t)); err != nil || next == paused {
		t.Fatalf("leader %v, %v", next, err)
	}
	if err := paused.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Nodes() {
		if got := get(t, connect(t, node.Endpoint()), "a"); got != "paused" {
			t.Errorf("%s: got %q", node.Name(), got)
		}
	}
	if follower, err := cluster.Follower(await.Context(t)); err != nil || follower == nil {
		t.Errorf("follower: %v", err)
	}
}

func TestNodeWithoutAQuorumStartsAndIsNotReady(t *testing.T) {
	cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 3})
	for _, node := range cluster.Nodes() {
		node.Kill()
	}
	if err := cluster.Node(0).Launch(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Node(0).AwaitReady(within(t, 2*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("AwaitReady: %v", err)
	}
	if err := cluster.Node(1).Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Node(0).AwaitReady(await.Context(t)); err != nil {
		t.Fatal(err)
	}
}

func TestServerThatRefusesItsArgumentsShowsWhy(t *testing.T) {
	_, err := etcdserver.Start(await.Context(t), etcdserver.Options{Args: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("started")
	}
	t.Log(err)
}
