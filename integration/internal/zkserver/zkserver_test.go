package zkserver_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

func TestMain(m *testing.M) { servers.Main(m) }

// containerFlag is the create mode of a container node; the client library has
// no name for it.
const containerFlag = 4

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect makes a session without the library's log.
func connect(t *testing.T, timeout time.Duration, endpoints ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(endpoints, timeout, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for e := (zk.Event{State: -1}); e.State != zk.StateHasSession; {
		e = await.Receive(t, "a session", events)
	}
	return conn
}

func create(t *testing.T, conn *zk.Conn, path string, flags int32) {
	t.Helper()
	if _, err := conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
}

// insist repeats a call that an election may interrupt.
func insist(t *testing.T, what string, call func() error) {
	t.Helper()
	await.State(t, what, func() (string, bool) {
		err := call()
		return fmt.Sprint(err), err == nil
	})
}

func TestSingleNodeKeepsDataOverKillUntilWiped(t *testing.T) {
	cluster := servers.NewZooKeeper(t, zkserver.Options{})
	node := cluster.Node(0)
	conn := connect(t, 10*time.Second, cluster.Endpoints()...)
	create(t, conn, "/a", 0)

	if err := node.Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	insist(t, "exists after a restart", func() error {
		found, _, err := conn.Exists("/a")
		if err == nil && !found {
			t.Fatal("the restart lost the data")
		}
		return err
	})
	conn.Close()

	if err := node.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	if found, _, err := connect(t, 10*time.Second, cluster.Endpoints()...).Exists("/a"); err != nil || found {
		t.Fatalf("exists %v, %v on an empty server", found, err)
	}
}

func TestWordsShowSessionsEphemeralsAndWatches(t *testing.T) {
	cluster := servers.ZooKeeper(t)
	addr := cluster.Endpoints()[0]
	conn := connect(t, 10*time.Second, addr)
	path := "/" + servers.Name(t)
	create(t, conn, path, zk.FlagEphemeral)
	if _, _, _, err := conn.ExistsW(path + "-absent"); err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t)

	dump, err := zkserver.Sessions(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	if id := conn.SessionID(); !slices.Contains(dump.Sessions, id) || !slices.Contains(dump.Ephemerals[id], path) {
		t.Errorf("session %#x is not in %+v", id, dump)
	}
	watches, err := zkserver.Watches(ctx, addr)
	if err != nil || !slices.Contains(watches[conn.SessionID()], path+"-absent") {
		t.Errorf("watches %v, %v", watches, err)
	}
	monitor, err := zkserver.Monitor(ctx, addr)
	if err != nil || monitor["watch_count"] < 1 || monitor["ephemerals_count"] < 1 {
		t.Errorf("watch_count %d, ephemerals_count %d, %v", monitor["watch_count"], monitor["ephemerals_count"], err)
	}
	status, err := zkserver.Stat(ctx, addr)
	if err != nil || status.Mode != "standalone" || status.Version != cluster.Version() || status.Zxid == 0 {
		t.Errorf("status %+v, %v", status, err)
	}
}

func TestEmptyContainerIsReapedSoon(t *testing.T) {
	conn := connect(t, 10*time.Second, servers.ZooKeeper(t).Endpoints()...)
	path := "/" + servers.Name(t)
	if _, err := conn.CreateContainer(path, nil, containerFlag, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	create(t, conn, path+"/child", 0)
	if err := conn.Delete(path+"/child", -1); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	insist(t, "removal of the container", func() error {
		if found, _, err := conn.Exists(path); err != nil || found {
			return errors.Join(errors.New("it exists"), err)
		}
		return nil
	})
	t.Logf("reaped after %v", time.Since(start))
}

func TestPausedNodeIsSilentUntilResumed(t *testing.T) {
	cluster := servers.NewZooKeeper(t, zkserver.Options{})
	node := cluster.Node(0)
	if err := node.Pause(); err != nil {
		t.Fatal(err)
	}
	if status, err := node.Status(t.Context()); err == nil {
		t.Fatalf("a paused server answered: %+v", status)
	}
	if err := node.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := node.AwaitReady(await.Context(t)); err != nil {
		t.Fatal(err)
	}
}

func TestThreeNodesLiveWithoutTheirLeader(t *testing.T) {
	cluster := servers.NewZooKeeper(t, zkserver.Options{Nodes: 3})
	// The library allows a handshake six times the session's timeout, and a
	// paused server accepts connections: a short session timeout keeps that
	// short.
	conn := connect(t, 2*time.Second, cluster.Endpoints()...)
	insist(t, "create /a", func() error {
		_, err := conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) { // the reply to the first try was lost
			return nil
		}
		return err
	})
	set := func(value string) time.Duration {
		start := time.Now()
		insist(t, "set "+value, func() error { _, err := conn.Set("/a", []byte(value), -1); return err })
		return time.Since(start)
	}
	leader := func() *zkserver.Node {
		node, err := cluster.Leader(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return node
	}

	killed := leader()
	killed.Kill()
	t.Logf("writes %v after kill -9 of the leader", set("killed"))
	if err := killed.Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}

	paused := leader()
	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Logf("writes %v after the leader was paused", set("paused"))
	if next := leader(); next == paused {
		t.Fatal("the paused node is reported as the leader")
	}
	if err := paused.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Nodes() {
		if err := node.AwaitReady(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		own := connect(t, 10*time.Second, node.Endpoint())
		// The resumed node leads for a moment, until it notices the new leader.
		insist(t, node.Name()+" has the last write", func() error {
			_, err := own.Sync("/a")
			got, _, failed := own.Get("/a")
			if string(got) != "paused" {
				err = errors.Join(err, fmt.Errorf("got %q", got))
			}
			return errors.Join(err, failed)
		})
	}
	if _, err := cluster.Follower(await.Context(t)); err != nil {
		t.Error(err)
	}
}

func TestServerThatRefusesItsConfigurationShowsWhy(t *testing.T) {
	_, err := zkserver.Start(await.Context(t), zkserver.Options{Config: []string{"syncLimit=none"}})
	if err == nil {
		t.Fatal("started")
	}
	t.Log(err)
}
