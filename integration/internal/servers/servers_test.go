package servers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func etcdClient(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := etcdserver.NewClient(endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func zkClient(t *testing.T, timeout time.Duration, endpoints ...string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zk.Connect(endpoints, timeout, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	reaches(t, events, zk.StateHasSession)
	return conn, events
}

// reaches waits until a connection reports a state.
func reaches(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	for e := (zk.Event{State: -1}); e.State != state; {
		e = await.Receive(t, fmt.Sprint(state), events)
	}
}

func TestSharedServersAreStartedOnce(t *testing.T) {
	one, two := servers.Etcd(t), servers.ZooKeeper(t)
	if servers.Etcd(t) != one || servers.ZooKeeper(t) != two {
		t.Error("a second call returned another server")
	}
	if len(one.Nodes()) != 1 || len(servers.EtcdCluster(t).Nodes()) != 3 ||
		len(two.Nodes()) != 1 || len(servers.ZooKeeperCluster(t).Nodes()) != 3 {
		t.Error("wrong numbers of nodes")
	}
}

func TestStartedServerIsInTheSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary")
	t.Setenv("BATON_SUMMARY", path)
	cluster := servers.NewEtcd(t, etcdserver.Options{})
	got, err := os.ReadFile(path)
	want := "etcd " + cluster.Version() + ", 1 node(s), package servers\n"
	if err != nil || string(got) != want {
		t.Errorf("summary %q, %v; want %q", got, err, want)
	}
}

func TestNamesDiffer(t *testing.T) {
	a, b := servers.Name(t), servers.Name(t)
	if a == b || !strings.HasPrefix(a, "TestNamesDiffer-") {
		t.Errorf("names %q and %q", a, b)
	}
}

func TestSkippedTestIsInTheSummaryWithTheReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary")
	t.Setenv("BATON_SUMMARY", path)
	t.Run("inner", func(t *testing.T) { servers.CannotRun(t, errors.New("as planned")) })
	b, err := os.ReadFile(path)
	if want := "skipped " + t.Name() + "/inner: cannot run here: as planned\n"; err != nil || string(b) != want {
		t.Errorf("the summary has %q, %v; want %q", b, err, want)
	}
}
