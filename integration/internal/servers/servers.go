// Package servers gives tests real servers: shared ones, started on first use
// in a package and ended after its last test, and private ones for tests that
// break them.
//
//	func TestMain(m *testing.M) { servers.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		cluster := servers.Etcd(t)                                     // shared, one node: do not break it
//		trio := servers.NewZooKeeper(t, zkserver.Options{Nodes: 3})    // its own: break it
//		proxy := servers.Proxy(t, trio.Endpoints())                    // its own network
//	}
//
// Tests that share a server use different names, made by Name. A server that
// cannot be started fails the test: a missing server is never a skip. When a
// test fails, the end of its servers' logs is shown.
//
// If BATON_SUMMARY names a file, the servers used are appended to it; `make
// test` prints it.
package servers

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/sqlserver"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// startTimeout includes the first build of etcd on a machine.
const startTimeout = 10 * time.Minute

// Main runs the package's tests, ends the shared servers and exits. In a worker
// process it runs the worker instead (see package proc). TestMain needs no
// other call.
func Main(m *testing.M) {
	proc.Main()
	status := m.Run()
	for _, s := range []closer{&etcdOne, &etcdThree, &zooKeeperOne, &zooKeeperThree, &postgreSQL, &mariaDB} {
		s.close()
	}
	os.Exit(status)
}

// Etcd returns the package's shared etcd of one node.
func Etcd(t testing.TB) *etcdserver.Cluster { t.Helper(); return etcdOne.get(t) }

// EtcdCluster returns the package's shared etcd of three nodes.
func EtcdCluster(t testing.TB) *etcdserver.Cluster { t.Helper(); return etcdThree.get(t) }

// ZooKeeper returns the package's shared ZooKeeper of one node.
func ZooKeeper(t testing.TB) *zkserver.Cluster { t.Helper(); return zooKeeperOne.get(t) }

// ZooKeeperCluster returns the package's shared ZooKeeper of three nodes.
func ZooKeeperCluster(t testing.TB) *zkserver.Cluster { t.Helper(); return zooKeeperThree.get(t) }

// PostgreSQL returns the package's shared PostgreSQL, in which tests make
// databases of their own.
func PostgreSQL(t testing.TB) *sqlserver.Server { t.Helper(); return postgreSQL.get(t) }

// MariaDB returns the package's shared MariaDB, likewise.
func MariaDB(t testing.TB) *sqlserver.Server { t.Helper(); return mariaDB.get(t) }

// NewEtcd starts an etcd for this test alone.
func NewEtcd(t testing.TB, o etcdserver.Options) *etcdserver.Cluster {
	t.Helper()
	return private(t, func(ctx context.Context) (*etcdserver.Cluster, error) { return startEtcd(ctx, o) })
}

// NewZooKeeper starts a ZooKeeper for this test alone.
func NewZooKeeper(t testing.TB, o zkserver.Options) *zkserver.Cluster {
	t.Helper()
	return private(t, func(ctx context.Context) (*zkserver.Cluster, error) { return startZooKeeper(ctx, o) })
}

// NewSQL starts a database for this test alone.
func NewSQL(t testing.TB, start func(context.Context) (*sqlserver.Server, error)) *sqlserver.Server {
	t.Helper()
	return private(t, func(ctx context.Context) (*sqlserver.Server, error) { return startSQL(ctx, start) })
}

// Proxy starts a proxy for this test alone.
func Proxy(t testing.TB, targets []string, options ...netproxy.Option) *netproxy.Proxy {
	t.Helper()
	p, err := netproxy.New(targets, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// cluster has the methods common to all servers.
type cluster interface {
	comparable
	Log() string
	Close() error
}

func private[C cluster](t testing.TB, start func(context.Context) (C, error)) C {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		showLog(t, c.Log)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func showLog(t testing.TB, log func() string) {
	if t.Failed() {
		t.Logf("server logs:\n%s", log())
	}
}

// shared is a cluster that all tests of a package use. It is started once; a
// failure to start fails each test that asks, with the same message.
type shared[C cluster] struct {
	start func(context.Context) (C, error)
	once  sync.Once
	c     C
	err   error
}

type closer interface{ close() }

var (
	etcdOne = shared[*etcdserver.Cluster]{start: func(ctx context.Context) (*etcdserver.Cluster, error) {
		return startEtcd(ctx, etcdserver.Options{Nodes: 1})
	}}
	etcdThree = shared[*etcdserver.Cluster]{start: func(ctx context.Context) (*etcdserver.Cluster, error) {
		return startEtcd(ctx, etcdserver.Options{Nodes: 3})
	}}
	zooKeeperOne = shared[*zkserver.Cluster]{start: func(ctx context.Context) (*zkserver.Cluster, error) {
		return startZooKeeper(ctx, zkserver.Options{Nodes: 1})
	}}
	zooKeeperThree = shared[*zkserver.Cluster]{start: func(ctx context.Context) (*zkserver.Cluster, error) {
		return startZooKeeper(ctx, zkserver.Options{Nodes: 3})
	}}
	postgreSQL = shared[*sqlserver.Server]{start: func(ctx context.Context) (*sqlserver.Server, error) {
		return startSQL(ctx, sqlserver.PostgreSQL)
	}}
	mariaDB = shared[*sqlserver.Server]{start: func(ctx context.Context) (*sqlserver.Server, error) {
		return startSQL(ctx, sqlserver.MariaDB)
	}}
)

func (s *shared[C]) get(t testing.TB) C {
	t.Helper()
	s.once.Do(func() {
		// Not the test's context: the server outlives the test that starts it.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		s.c, s.err = s.start(ctx)
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	t.Cleanup(func() { showLog(t, s.c.Log) })
	return s.c
}

// close is called after the last test.
func (s *shared[C]) close() {
	var none C
	if s.c == none {
		return
	}
	if err := s.c.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func startEtcd(ctx context.Context, o etcdserver.Options) (*etcdserver.Cluster, error) {
	c, err := etcdserver.Start(ctx, o)
	if err == nil {
		summarize("etcd", c.Version(), len(c.Nodes()))
	}
	return c, err
}

func startZooKeeper(ctx context.Context, o zkserver.Options) (*zkserver.Cluster, error) {
	c, err := zkserver.Start(ctx, o)
	if err == nil {
		summarize("ZooKeeper", c.Version(), len(c.Nodes()))
	}
	return c, err
}

func startSQL(ctx context.Context, start func(context.Context) (*sqlserver.Server, error)) (*sqlserver.Server, error) {
	s, err := start(ctx)
	if err == nil {
		summarize(s.Name(), s.Version(), 1)
	}
	return s, err
}
