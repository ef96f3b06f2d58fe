package integration_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

// This file has the helpers of the fault tests: clusters that a test may break,
// contenders that run meanwhile, and the handling of tests that a machine
// cannot run.

// ensemble is a cluster of one test.
type ensemble struct {
	site
	members []*child.Server // in the order of the endpoints
	etcd    *etcdserver.Cluster
	zk      *zkserver.Cluster
}

func ownEtcd(t testing.TB, o etcdserver.Options) *ensemble {
	e := &ensemble{etcd: servers.NewEtcd(t, o)}
	e.site = site{"etcd", e.etcd.Endpoints()}
	for _, n := range e.etcd.Nodes() {
		e.members = append(e.members, n.Server)
	}
	return e
}

func ownZooKeeper(t testing.TB, o zkserver.Options) *ensemble {
	e := &ensemble{zk: servers.NewZooKeeper(t, o)}
	e.site = site{"zk", e.zk.Endpoints()}
	for _, n := range e.zk.Nodes() {
		e.members = append(e.members, n.Server)
	}
	return e
}

// version returns the service and its version, such as "etcd 3.7.3".
func (e *ensemble) version() string {
	if e.etcd != nil {
		return "etcd " + e.etcd.Version()
	}
	return "ZooKeeper " + e.zk.Version()
}

// trio runs a test against a cluster of three of each service, in parallel.
func trio(t *testing.T, test func(t *testing.T, e *ensemble)) {
	t.Helper()
	t.Parallel()
	t.Run("etcd-3", func(t *testing.T) {
		t.Parallel()
		test(t, ownEtcd(t, etcdserver.Options{Nodes: 3}))
	})
	t.Run("zookeeper-3", func(t *testing.T) {
		t.Parallel()
		test(t, ownZooKeeper(t, zkserver.Options{Nodes: 3}))
	})
}

// single runs a test against one server of each service.
func single(t *testing.T, test func(t *testing.T, e *ensemble)) {
	t.Helper()
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		test(t, ownEtcd(t, etcdserver.Options{Nodes: 1}))
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		test(t, ownZooKeeper(t, zkserver.Options{Nodes: 1}))
	})
}

// leader returns the number of the current leader.
func (e *ensemble) leader(t testing.TB) int {
	t.Helper()
	i, err := e.leads(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// leads is leader with a context.
func (e *ensemble) leads(ctx context.Context) (int, error) {
	var leader *child.Server
	if e.etcd != nil {
		n, err := e.etcd.Leader(ctx)
		if err != nil {
			return 0, err
		}
		leader = n.Server
	} else {
		n, err := e.zk.Leader(ctx)
		if err != nil {
			return 0, err
		}
		leader = n.Server
	}
	i := slices.Index(e.members, leader)
	if i < 0 {
		panic("the leader is no member")
	}
	return i, nil
}

// follower returns the number of a current follower.
func (e *ensemble) follower(t testing.TB) int { return (e.leader(t) + 1) % len(e.members) }

// start starts a member that was killed, and waits until it serves.
func (e *ensemble) start(t testing.TB, i int) {
	t.Helper()
	if err := e.members[i].Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}
}

func (e *ensemble) pause(t testing.TB, i int) {
	t.Helper()
	if err := e.members[i].Pause(); err != nil {
		t.Fatal(err)
	}
}

func (e *ensemble) resume(t testing.TB, i int) {
	t.Helper()
	if err := e.members[i].Resume(); err != nil {
		t.Fatal(err)
	}
}

// at opens a client that has its session at one member, and may move to any
// other.
func (e *ensemble) at(t *testing.T, member int, ttl time.Duration) *coordinator.Client {
	t.Helper()
	network := netproxy.NewNetwork(t, e.endpoints)
	for i, p := range network.Proxies() {
		if i != member {
			p.Refuse()
		}
	}
	c := e.client(t, ttl, network.Addrs()...)
	if _, err := c.Session(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	for _, p := range network.Proxies() {
		if err := p.Admit(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// workload is a number of contenders that repeatedly acquire one lock, and
// record the grants. The service's clock is ours here, and no contender is
// paused: a hold that is alive by its own clock must be the only one.
type workload struct {
	mu     sync.Mutex
	holder *mutex.Lock
	last   coordinator.Token
	count  int

	t       *testing.T
	name    string
	seed    uint64
	size    uint64
	ctx     context.Context
	stop    context.CancelFunc
	members sync.WaitGroup
	probe   *mutex.Mutex
}

// workload starts n clients with two contenders each.
func (s site) workload(t *testing.T, n int, ttl time.Duration) *workload {
	t.Helper()
	c := s.newWorkload(t, servers.Name(t))
	c.join(s, n, ttl)
	return c
}

// newWorkload returns a workload without contenders, for the lock of a name.
func (s site) newWorkload(t *testing.T, name string) *workload {
	t.Helper()
	c := &workload{t: t, name: name, seed: rand.Uint64()}
	t.Logf("seed %d", c.seed)
	c.ctx, c.stop = context.WithCancel(t.Context())
	c.probe = newMutex(t, s.client(t, 30*time.Second), c.name)
	return c
}

// join adds n clients of a site.
func (c *workload) join(s site, n int, ttl time.Duration) {
	for range n {
		m := newMutex(c.t, s.client(c.t, ttl), c.name)
		for range 2 {
			c.size++
			r := rand.New(rand.NewPCG(c.seed, c.size))
			c.members.Go(func() { c.contend(r, m) })
		}
	}
}

// grants returns the number of grants so far.
func (c *workload) grants() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// contend repeatedly acquires the lock for a short time. Some attempts time
// out.
func (c *workload) contend(r *rand.Rand, m *mutex.Mutex) {
	for c.ctx.Err() == nil {
		patience, cancel := context.WithTimeout(c.ctx, time.Duration(1+r.IntN(3000))*time.Millisecond)
		l, err := m.Lock(patience)
		cancel()
		if err != nil {
			continue
		}
		c.enter(l)
		await.For(l.Context(), time.Duration(r.IntN(5))*time.Millisecond)
		c.exit(l)
		patience, cancel = context.WithTimeout(context.Background(), time.Second)
		_ = l.Unlock(patience) // continues in the background after a timeout
		cancel()
	}
}

func (c *workload) enter(l *mutex.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder != nil && c.holder.Err() == nil && l.Err() == nil {
		c.t.Errorf("token %d is granted while %d holds", l.Token(), c.holder.Token())
	}
	if l.Err() == nil { // after a loss this may run later than in the successor
		if l.Token() <= c.last {
			c.t.Errorf("token %d after %d", l.Token(), c.last)
		}
		c.holder, c.last = l, l.Token()
	}
	c.count++
}

func (c *workload) exit(l *mutex.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder == l {
		c.holder = nil
	}
}

// progresses waits for a few more grants.
func (c *workload) progresses(what string) {
	c.t.Helper()
	from := c.grants()
	await.Until(c.t, "grants "+what, func() bool { return c.grants() >= from+5 })
}

// finish ends the contenders, and checks that the queue is empty and that the
// lock can be acquired.
func (c *workload) finish() {
	c.t.Helper()
	c.stop()
	c.members.Wait()
	c.t.Logf("%d grants", c.grants())
	await.Until(c.t, "nothing left in the queue", func() bool {
		list, err := c.probe.Contenders(within(c.t, 10*time.Second))
		return err == nil && len(list) == 0
	})
	unlock(c.t, lock(c.t, c.probe))
}

// mustHold checks that a lock is held, by its own clock and at the service: a
// renewal is acknowledged.
func mustHold(t testing.TB, l *mutex.Lock, what string) {
	t.Helper()
	if err := l.Err(); err != nil {
		t.Errorf("%s: the holder has lost its lock: %v", what, err)
		return
	}
	before := l.Deadline()
	await.Until(t, what+": a renewal, or a loss", func() bool { return l.Err() != nil || l.Deadline().After(before) })
	if err := l.Err(); err != nil {
		t.Errorf("%s: the holder has lost its lock: %v", what, err)
	}
}

// granted locks in the background.
func granted(ctx context.Context, m *mutex.Mutex) <-chan grant {
	got := make(chan grant, 1)
	go func() {
		l, err := m.Lock(ctx)
		got <- grant{l, err, time.Now()}
	}()
	return got
}

// grant is the outcome and the time of a Lock.
type grant struct {
	lock *mutex.Lock
	err  error
	at   time.Time
}

// get waits for a grant.
func get(t testing.TB, got <-chan grant, what string) *mutex.Lock {
	t.Helper()
	g := await.Receive(t, "the grant "+what, got)
	if g.err != nil {
		t.Fatalf("%s: Lock = %v", what, g.err)
	}
	return g.lock
}

// wholeMatrix reports whether to run all fault tests, however long they take.
func wholeMatrix() bool { return os.Getenv("BATON_FAULTS") == "all" }

// expensive skips a test unless `make test-all` or `make faults` runs. The
// output and the summary report it.
func expensive(t *testing.T) {
	t.Helper()
	if !wholeMatrix() && os.Getenv("BATON_TESTS") != "all" {
		servers.Skip(t, "left to make test-all and make faults")
	}
}

// tool returns the path of a program that the test needs. The test fails
// without it, since it can be installed.
func tool(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing; on Debian and its relatives, as root: apt-get install %s", name, debian)
	}
	return path
}
