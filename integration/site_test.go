package integration_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/h2wire"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkwire"
	"github.com/baton-go/baton/mutex"
)

func TestMain(m *testing.M) {
	// Child processes inherit ignored signals and could not trap them: nohup
	// ignores SIGHUP, and a shell's "&" the other two. Caught signals are not
	// inherited.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	servers.Main(m)
}

// site is a service under test.
type site struct {
	service   string // etcd or zk
	endpoints []string
}

// each runs a test against both services, with one and with three nodes.
func each(t *testing.T, test func(t *testing.T, s site)) {
	t.Helper()
	for _, c := range []struct {
		name, service string
		endpoints     func(testing.TB) []string
	}{
		{"etcd", "etcd", func(t testing.TB) []string { return servers.Etcd(t).Endpoints() }},
		{"etcd-3", "etcd", func(t testing.TB) []string { return servers.EtcdCluster(t).Endpoints() }},
		{"zookeeper", "zk", func(t testing.TB) []string { return servers.ZooKeeper(t).Endpoints() }},
		{"zookeeper-3", "zk", func(t testing.TB) []string { return servers.ZooKeeperCluster(t).Endpoints() }},
	} {
		t.Run(c.name, func(t *testing.T) { test(t, site{c.service, c.endpoints(t)}) })
	}
}

// url returns the URL of the site, or of other addresses of the same service.
func (s site) url(ttl time.Duration, addrs ...string) string {
	if len(addrs) == 0 {
		addrs = s.endpoints
	}
	return fmt.Sprintf("%s://%s/baton-test?ttl=%v", s.service, strings.Join(addrs, ","), ttl)
}

// client opens a client and closes it at the end of the test.
func (s site) client(t *testing.T, ttl time.Duration, addrs ...string) *coordinator.Client {
	t.Helper()
	c, err := coordinator.Open(s.url(ttl, addrs...), logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	return c
}

// becomesEmpty waits until no queue of a name has a contender.
func (s site) becomesEmpty(t *testing.T, name string) {
	t.Helper()
	c := s.client(t, 4*time.Second)
	await.State(t, "the queues to be empty", func() (string, bool) {
		left, err := c.Queues(t.Context(), name)
		return fmt.Sprintf("at %v: %v, %v", s.endpoints, left, err), err == nil && len(left) == 0
	})
}

func closeAtEnd(t *testing.T, c *coordinator.Client) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the test may have stopped its server
	})
}

// logTo shows a client's log when the test fails.
func logTo(t *testing.T) coordinator.Option {
	return coordinator.WithLogger(slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
}

var silent = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// link is a client whose network the test controls.
type link struct {
	*coordinator.Client
	proxy   *netproxy.Proxy
	counter *zkwire.Counter // on ZooKeeper
	// join and leave match the requests that enter and leave a queue.
	join, leave netproxy.Match
}

// link opens a client through a proxy of its own.
func (s site) link(t *testing.T, ttl time.Duration) link {
	t.Helper()
	sniffer, join, alone := h2wire.NewSniffer, "/etcdserverpb.KV/Txn", "/etcdserverpb.KV/DeleteRange"
	counter := zkwire.NewCounter()
	if s.service == "zk" {
		sniffer, join, alone = counter.Sniffer, "multi", "delete"
	}
	leave := netproxy.Named(alone, join) // a leave that may have a successor uses the other request
	proxy := servers.Proxy(t, s.endpoints, netproxy.WithSniffer(sniffer))
	return link{s.client(t, ttl, proxy.Addr()), proxy, counter, netproxy.Named(join), leave}
}

func newMutex(t testing.TB, c *coordinator.Client, name string) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(c, name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func lock(t testing.TB, m *mutex.Mutex) *mutex.Lock {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(t))
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func unlock(t testing.TB, l *mutex.Lock) {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(t))
	defer cancel()
	if err := l.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// inQueue returns the number of contenders of a name. It asks once, and a
// server must answer: use awaitQueue while servers are broken.
func inQueue(t testing.TB, m *mutex.Mutex) int {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(t))
	defer cancel()
	list, err := m.Contenders(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// awaitQueue waits until a name has n contenders. Another session may use
// another server, which applies changes late or is down; then awaitQueue asks
// again.
func awaitQueue(t testing.TB, m *mutex.Mutex, n int) {
	t.Helper()
	awaitCount(t, n, func(ctx context.Context) (int, error) {
		list, err := m.Contenders(ctx)
		return len(list), err
	})
}

// awaitCount waits until count returns want. It repeats after an error.
func awaitCount(t testing.TB, want int, count func(context.Context) (int, error)) {
	t.Helper()
	await.State(t, fmt.Sprintf("%d in the queue", want), func() (string, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // then it asks again
		defer cancel()
		n, err := count(ctx)
		return fmt.Sprintf("%d, %v", n, err), err == nil && n == want
	})
}

// settle waits until a client's session has received and handled what the
// service had sent before: a hand-over of another name to this client follows
// it, by the same watches. A waiter that a test expects to go on waiting has
// been told by then of whatever could admit it.
func (s site) settle(t *testing.T, c *coordinator.Client) {
	t.Helper()
	settleFrom(t, s.client(t, 20*time.Second), c)
}

// settleFrom is settle with a given client from which the name is handed over.
func settleFrom(t *testing.T, from, to *coordinator.Client) {
	t.Helper()
	name := servers.Name(t)
	before, behind := newMutex(t, from, name), newMutex(t, to, name)
	for range 2 {
		l := lock(t, before)
		got := granted(t.Context(), behind)
		awaitQueue(t, before, 2)
		unlock(t, l)
		unlock(t, get(t, got, "of another name"))
	}
}

// within returns a context with a timeout, for the rest of the test.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// wait locks in the background and sends the error.
func wait(ctx context.Context, m *mutex.Mutex) <-chan error {
	got := make(chan error, 1)
	go func() {
		_, err := m.Lock(ctx)
		got <- err
	}()
	return got
}
