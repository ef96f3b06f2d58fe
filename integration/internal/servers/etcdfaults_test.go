package servers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/h2wire"
	"github.com/baton-go/baton/integration/internal/servers"
)

// Acceptance tests of the infrastructure: each fault has the documented effect
// on etcd.

func etcdValue(t *testing.T, client *clientv3.Client, key string) string {
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

func TestEtcdLostReplyIsAppliedAndTheClientSeesAnError(t *testing.T) {
	cluster := servers.Etcd(t)
	proxy := servers.Proxy(t, cluster.Endpoints(), netproxy.WithSniffer(h2wire.NewSniffer))
	direct, victim := etcdClient(t, cluster.Endpoints()...), etcdClient(t, proxy.Addr())
	key := servers.Name(t)
	if got := etcdValue(t, victim, key); got != "" {
		t.Fatalf("got %q", got)
	}

	trap := proxy.LoseReply(netproxy.Named("/etcdserverpb.KV/Txn"))
	// An unrelated request first, which must not spring the trap.
	if _, err := victim.Grant(await.Context(t), 5); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := victim.Txn(await.Context(t)).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, "1")).Commit()
	if status.Code(err) != codes.Unavailable {
		t.Fatalf("Txn: %v, want Unavailable", err)
	}
	t.Logf("after %v: %v", time.Since(start), err)
	if err := trap.Wait(within(t, time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := etcdValue(t, direct, key); got != "1" {
		t.Fatalf("the transaction was not applied: %q", got)
	}
	if got := etcdValue(t, victim, key); got != "1" {
		t.Fatalf("the client did not recover: %q", got)
	}
}

func TestEtcdLostRequestIsNotApplied(t *testing.T) {
	cluster := servers.Etcd(t)
	proxy := servers.Proxy(t, cluster.Endpoints(), netproxy.WithSniffer(h2wire.NewSniffer))
	direct, victim := etcdClient(t, cluster.Endpoints()...), etcdClient(t, proxy.Addr())
	key := servers.Name(t)
	if got := etcdValue(t, victim, key); got != "" {
		t.Fatalf("got %q", got)
	}
	proxy.LoseRequest(netproxy.Named("/etcdserverpb.KV/Put"))
	if _, err := victim.Put(await.Context(t), key, "1"); status.Code(err) != codes.Unavailable {
		t.Fatalf("Put: %v, want Unavailable", err)
	}
	if got := etcdValue(t, direct, key); got != "" {
		t.Fatalf("the put was applied: %q", got)
	}
}

func TestEtcdHeldReplyComesLate(t *testing.T) {
	cluster := servers.Etcd(t)
	proxy := servers.Proxy(t, cluster.Endpoints(), netproxy.WithSniffer(h2wire.NewSniffer))
	direct, victim := etcdClient(t, cluster.Endpoints()...), etcdClient(t, proxy.Addr())
	key := servers.Name(t)
	if got := etcdValue(t, victim, key); got != "" {
		t.Fatalf("got %q", got)
	}
	trap := proxy.HoldReply(netproxy.Named("/etcdserverpb.KV/Put"))
	done := make(chan error, 1)
	go func() {
		_, err := victim.Put(t.Context(), key, "1")
		done <- err
	}()
	if err := trap.Wait(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	if got := etcdValue(t, direct, key); got != "1" {
		t.Fatalf("the put was not applied: %q", got)
	}
	select {
	case err := <-done:
		t.Fatalf("the put returned %v while its reply was held", err)
	default:
	}
	proxy.Heal()
	if err := <-done; err != nil {
		t.Fatalf("the late reply: %v", err)
	}
}

func TestEtcdCutIsSilentAndHealRestoresTheConnection(t *testing.T) {
	cluster := servers.Etcd(t)
	proxy := servers.Proxy(t, cluster.Endpoints())
	direct, victim := etcdClient(t, cluster.Endpoints()...), etcdClient(t, proxy.Addr())
	key := servers.Name(t)
	if got := etcdValue(t, victim, key); got != "" {
		t.Fatalf("got %q", got)
	}
	proxy.Cut()
	if _, err := victim.Put(within(t, 300*time.Millisecond), key, "late"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("put during the cut: %v", err)
	}
	if got := etcdValue(t, direct, key); got != "" {
		t.Fatalf("the put passed the cut: %q", got)
	}
	proxy.Heal()
	// The client has given up, and its cancellation follows right after its
	// request: whether the late put is applied, before or after the next one,
	// is undefined. The connection works again.
	if _, err := victim.Put(await.Context(t), key+"-after", "1"); err != nil {
		t.Fatal(err)
	}
	if got := etcdValue(t, direct, key+"-after"); got != "1" {
		t.Fatalf("got %q", got)
	}
}
