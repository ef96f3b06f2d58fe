package servers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkwire"
)

// Acceptance tests of the infrastructure: each fault has the documented effect
// on ZooKeeper.

func zkCreate(conn *zk.Conn, path string, flags int32) error {
	_, err := conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll))
	return err
}

func zkExists(t *testing.T, conn *zk.Conn, path string) bool {
	t.Helper()
	var found bool
	await.State(t, "an answer about "+path, func() (string, bool) {
		var err error
		found, _, err = conn.Exists(path)
		return fmt.Sprint(err), err == nil
	})
	return found
}

func TestZooKeeperLostReplyIsAppliedAndTheClientSeesAnError(t *testing.T) {
	cluster := servers.ZooKeeper(t)
	counter := zkwire.NewCounter()
	proxy := servers.Proxy(t, cluster.Endpoints(), netproxy.WithSniffer(counter.Sniffer))
	direct, _ := zkClient(t, 10*time.Second, cluster.Endpoints()...)
	victim, _ := zkClient(t, 10*time.Second, proxy.Addr())
	path := "/" + servers.Name(t)

	trap := proxy.LoseReply(netproxy.Named("create"))
	if zkExists(t, victim, path) { // must not spring the trap
		t.Fatal("the node exists")
	}
	start := time.Now()
	err := zkCreate(victim, path, zk.FlagEphemeral)
	if err == nil {
		t.Fatal("the client saw the reply")
	}
	t.Logf("after %v: %v", time.Since(start), err)
	if err := trap.Wait(within(t, time.Second)); err != nil {
		t.Fatal(err)
	}
	if !zkExists(t, direct, path) {
		t.Fatal("the create was not applied")
	}
	if !zkExists(t, victim, path) {
		t.Fatal("the client does not see its own node after it recovered")
	}
	if got := counter.Snapshot(); got.Requests["create"] != 1 || got.Connects != 2 || len(counter.Sessions()) != 1 {
		t.Errorf("counted %+v, %d sessions; want 1 create and 2 connects of 1 session", got, len(counter.Sessions()))
	}
}

func TestZooKeeperLostRequestIsNotApplied(t *testing.T) {
	cluster := servers.ZooKeeper(t)
	proxy := servers.Proxy(t, cluster.Endpoints(), netproxy.WithSniffer(zkwire.NewCounter().Sniffer))
	victim, _ := zkClient(t, 10*time.Second, proxy.Addr())
	path := "/" + servers.Name(t)
	proxy.LoseRequest(netproxy.Named("create"))
	if err := zkCreate(victim, path, 0); err == nil {
		t.Fatal("the client saw a reply")
	}
	if zkExists(t, victim, path) {
		t.Fatal("the create was applied")
	}
}

func TestZooKeeperRequestsAndNotificationsAreCounted(t *testing.T) {
	counter := zkwire.NewCounter()
	proxy := servers.Proxy(t, servers.ZooKeeper(t).Endpoints(), netproxy.WithSniffer(counter.Sniffer))
	conn, _ := zkClient(t, 6*time.Second, proxy.Addr()) // with a ping every two seconds
	path := "/" + servers.Name(t)
	before := counter.Snapshot()
	_, _, event, err := conn.ExistsW(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := zkCreate(conn, path, 0); err != nil {
		t.Fatal(err)
	}
	<-event
	if _, err := conn.Multi(&zk.SetDataRequest{Path: path, Version: -1}, &zk.DeleteRequest{Path: path, Version: -1}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a ping", func() bool { return counter.Snapshot().Pings > before.Pings })
	got := counter.Snapshot().Since(before)
	if got.Total() != 3 || got.Requests["exists"] != 1 || got.Requests["create"] != 1 || got.Requests["multi"] != 1 ||
		got.Notifications != 1 || got.Connects != 0 {
		t.Errorf("counted %+v", got)
	}
}

func TestZooKeeperSessionIsKilledFromOutside(t *testing.T) {
	cluster := servers.ZooKeeper(t)
	counter := zkwire.NewCounter()
	proxy := servers.Proxy(t, cluster.Endpoints(), netproxy.WithSniffer(counter.Sniffer))
	direct, _ := zkClient(t, 10*time.Second, cluster.Endpoints()...)
	victim, events := zkClient(t, 10*time.Second, proxy.Addr())
	path := "/" + servers.Name(t)
	if err := zkCreate(victim, path, zk.FlagEphemeral); err != nil {
		t.Fatal(err)
	}
	session := counter.Session()
	if session.ID != victim.SessionID() || session.Timeout != 10*time.Second {
		t.Fatalf("the proxy saw session %#x of %v, the client has %#x", session.ID, session.Timeout, victim.SessionID())
	}
	start := time.Now()
	if err := session.Kill(await.Context(t), cluster.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	killed := time.Since(start)
	if zkExists(t, direct, path) {
		t.Fatal("the ephemeral node outlived its session")
	}
	reaches(t, events, zk.StateExpired)
	t.Logf("killed in %v, the client knew after %v", killed, time.Since(start))
	if err := session.Kill(await.Context(t), cluster.Endpoints()[0]); !errors.Is(err, zkwire.ErrSessionGone) {
		t.Errorf("killed again: %v", err)
	}
}

func TestZooKeeperSessionExpiresBehindACut(t *testing.T) {
	cluster := servers.ZooKeeperCluster(t)
	proxy := servers.Proxy(t, cluster.Endpoints())
	direct, _ := zkClient(t, 10*time.Second, cluster.Endpoints()...)
	victim, events := zkClient(t, 4*time.Second, proxy.Addr())
	path := "/" + servers.Name(t)
	if err := zkCreate(victim, path, zk.FlagEphemeral); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Sync(path); err != nil {
		t.Fatal(err)
	}
	found, _, gone, err := direct.ExistsW(path)
	if err != nil || !found {
		t.Fatalf("exists %v, %v", found, err)
	}
	proxy.Cut()
	start := time.Now()
	await.Receive(t, "the session's end", gone)
	t.Logf("a session of 4 s expired %v after the cut", time.Since(start))
	proxy.Heal()
	reaches(t, events, zk.StateExpired)
}
