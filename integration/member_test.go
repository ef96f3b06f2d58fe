package integration_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/h2wire"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/integration/internal/zkwire"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// member is a client of a crew whose network can be broken. Each of its servers
// is behind a proxy of its own, so that the client can move between servers as
// usual.
type member struct {
	who         string
	url         string
	proxies     []*netproxy.Proxy
	counter     *zkwire.Counter // on ZooKeeper
	join, leave netproxy.Match
	aim         chan struct{} // receives when a long hold begins

	mu     sync.Mutex
	client *coordinator.Client
}

// member makes a client of a crew. It logs nothing, since its faults are
// intended.
func (s site) member(t *testing.T, who string, ttl time.Duration) *member {
	t.Helper()
	m := &member{who: who, aim: make(chan struct{}, 1), join: netproxy.Named("/etcdserverpb.KV/Txn"), leave: netproxy.Named("/etcdserverpb.KV/DeleteRange", "/etcdserverpb.KV/Txn")}
	sniffer := h2wire.NewSniffer
	if s.service == "zk" {
		m.counter = zkwire.NewCounter()
		sniffer, m.join, m.leave = m.counter.Sniffer, netproxy.Named("multi"), netproxy.Named("delete", "multi")
	}
	var addrs []string
	for _, e := range s.endpoints {
		p := servers.Proxy(t, []string{e}, netproxy.WithSniffer(sniffer))
		m.proxies, addrs = append(m.proxies, p), append(addrs, p.Addr())
	}
	m.url = s.url(ttl, addrs...)
	m.open(t)
	t.Cleanup(func() { m.close() })
	return m
}

// silentClient opens a client that logs nothing.
func (s site) silentClient(t *testing.T, ttl time.Duration) *coordinator.Client {
	t.Helper()
	c, err := coordinator.Open(s.url(ttl), silent)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	return c
}

func (m *member) open(t testing.TB) {
	c, err := coordinator.Open(m.url, silent, coordinator.WithIdentity(m.who))
	if err != nil {
		t.Error(err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.client = c
}

func (m *member) current() *coordinator.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.client
}

func (m *member) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = m.current().Close(ctx) // its network may be broken
}

// heal ends all faults of the member's network.
func (m *member) heal() {
	for _, p := range m.proxies {
		p.Delay(netproxy.Up, 0)
		p.Delay(netproxy.Down, 0)
		p.Heal()
		p.Deliver()
		_ = p.Admit()
	}
}

// netFault breaks a member's network in one of many ways and heals it. The
// fault is usually shorter than the TTL and sometimes longer; an aimed fault
// always outlasts the TTL, so that holds are lost.
func netFault(ctx context.Context, r *rand.Rand, h *history.History, m *member, ttl time.Duration, aimed bool) {
	all := func(f func(*netproxy.Proxy)) func() {
		return func() {
			for _, p := range m.proxies {
				f(p)
			}
		}
	}
	one := m.proxies[r.IntN(len(m.proxies))]
	var traps []*netproxy.Trap
	trap := func(set func(*netproxy.Proxy, netproxy.Match) *netproxy.Trap) func() {
		match := m.join
		if r.IntN(2) == 0 {
			match = m.leave
		}
		return all(func(p *netproxy.Proxy) { traps = append(traps, set(p, match)) })
	}
	delay := time.Duration(r.IntN(300)) * time.Millisecond
	const dropped, stranded = "cut, and the held bytes dropped", "stranded, and delivered late"
	faults := []struct {
		kind  string
		begin func()
	}{
		{"cut", all((*netproxy.Proxy).Cut)},
		{"cut, up", all((*netproxy.Proxy).CutUp)},
		{"cut, down", all((*netproxy.Proxy).CutDown)},
		{dropped, all((*netproxy.Proxy).Cut)},
		{stranded, all((*netproxy.Proxy).Cut)},
		{"refused", all(func(p *netproxy.Proxy) { p.Refuse(); p.Reset() })}, // the last fault that affects all servers
		{"reset", all((*netproxy.Proxy).Reset)},
		{"reset of one server", one.Reset},
		{"cut from one server", one.Cut},
		{"delay", all(func(p *netproxy.Proxy) { p.Delay(netproxy.Up, delay); p.Delay(netproxy.Down, delay) })},
		{"lost reply", trap((*netproxy.Proxy).LoseReply)},
		{"lost request", trap((*netproxy.Proxy).LoseRequest)},
		{"held reply", trap((*netproxy.Proxy).HoldReply)},
	}
	f := faults[r.IntN(len(faults))]
	if aimed {
		f = faults[r.IntN(6)]
	}
	length := func() time.Duration {
		x := r.Float64()
		if aimed || r.IntN(4) == 0 {
			return ttl + time.Duration(x*float64(ttl))
		}
		return time.Duration(x * x * float64(ttl))
	}
	end := h.Fault(f.kind)
	f.begin()
	await.For(ctx, length())
	switch f.kind {
	case dropped:
		all((*netproxy.Proxy).DropHeld)()
	case stranded:
		all((*netproxy.Proxy).Strand)()
		await.For(ctx, length())
	}
	for _, t := range traps {
		t.Disarm()
	}
	m.heal()
	end(m.who)
}

// fork adds a process to the crew.
func (c *crew) fork() { c.flocks = append(c.flocks, newFlock(c.t, c, len(c.flocks))) }

// injectFaults breaks the network of each member, and stops and kills the
// processes, repeatedly until ctx ends.
func (c *crew) injectFaults(ctx context.Context, ttl time.Duration) {
	for _, f := range c.flocks {
		c.children.Go(func() { f.run(ctx) })
	}
	var wg sync.WaitGroup
	for i, m := range c.members {
		r := rand.New(rand.NewPCG(c.seed, 1000+uint64(i)))
		wg.Go(func() {
			for aimed := false; ctx.Err() == nil; {
				netFault(ctx, r, c.h, m, ttl, aimed)
				select {
				case <-m.aim: // from before or during the fault
				default:
				}
				resting, end := context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
				select {
				case <-resting.Done():
					aimed = false
				case <-m.aim:
					aimed = r.IntN(2) == 0
				}
				end()
			}
		})
	}
	wg.Wait()
}

// crew has all contenders of one round.
type crew struct {
	t         *testing.T
	s         site
	h         *history.History
	name      string
	dir       string
	members   []*member
	eye       *coordinator.Client // with an intact network
	seed      uint64
	healed    chan struct{}
	finished  chan struct{}
	flocks    []*flock
	children  sync.WaitGroup
	stuck     sync.Map // who: kinds
	recovered sync.Map // who: time from the last fault to its grants
	began     time.Time

	mu     sync.Mutex
	grants map[history.Kind]int // to the members
}

func (c *crew) note(kind history.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants[kind]++
}

// fewest returns the number of grants of the kind with the fewest grants.
func (c *crew) fewest() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := math.MaxInt
	for _, kind := range kinds {
		least = min(least, c.grants[kind])
	}
	return least
}

// startCrew makes the members contend until end is called.
func startCrew(t *testing.T, s site, seed uint64, members []*member) *crew {
	c := &crew{
		t: t, s: s, h: history.New(), name: servers.Name(t), dir: t.TempDir(), members: members, seed: seed, eye: s.silentClient(t, 10*time.Second),
		healed: make(chan struct{}), finished: make(chan struct{}), grants: map[history.Kind]int{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		<-c.healed
		await.For(ctx, settle)
		cancel()
	}()
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			stuck := contendAll(ctx, c.healed, seed+uint64(i), contender{
				client: m.current, aim: m.aim, who: m.who, name: c.name, h: c.h, dir: c.dir, note: c.note,
			})
			if len(stuck) > 0 {
				c.stuck.Store(m.who, stuck)
			}
			c.recovered.Store(m.who, time.Since(c.began))
		})
	}
	go func() { defer close(c.finished); wg.Wait() }()
	return c
}

// settle bounds the time from the last fault until every contender was granted
// once more.
const settle = 90 * time.Second

// merge adds the histories that the processes recorded.
func (c *crew) merge() {
	logs, err := filepath.Glob(filepath.Join(c.dir, "*.history"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range logs {
		h, err := history.Load(path)
		if err != nil {
			c.t.Fatal(err)
		}
		c.h.Merge(h)
	}
}

// end ends the faults, waits until every contender was granted once more,
// checks that the queues are empty, and checks the history.
func (c *crew) end(ttl time.Duration) history.Report {
	t := c.t
	c.began = time.Now()
	close(c.healed)
	c.children.Wait()
	<-c.finished
	var slowest time.Duration
	c.recovered.Range(func(who, after any) bool {
		t.Logf("%s was granted again %v after the last fault", who, after.(time.Duration).Round(time.Millisecond))
		slowest = max(slowest, after.(time.Duration))
		return true
	})
	c.merge()
	c.stuck.Range(func(who, what any) bool {
		t.Errorf("%v after the last fault %s was not admitted to %v", settle, who, what)
		return true
	})
	defer func() {
		if t.Failed() {
			c.dumpQueues()
		}
	}()
	await.Until(t, "the queues to be empty, at the latest with the end of the sessions", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, name := range crewNames(c.name) {
			if left, err := entries(ctx, c.eye, name); err != nil || len(left) > 0 {
				return false
			}
		}
		return true
	})
	for _, name := range crewNames(c.name) {
		tally{c.dir, name}.record(t, c.h)
	}
	report := c.h.Check(t)
	report.Recovery["all faults, until all were admitted"] = slowest
	return report
}

// entry is a contender's entry, as an operator sees it.
type entry struct{ kind, who, key string }

// entries lists the queues of a name.
func entries(ctx context.Context, c *coordinator.Client, name string) (all []entry, err error) {
	add := func(kind string, e recipes.Contender) { all = append(all, entry{kind, e.Identity, e.Key}) }
	m, err1 := mutex.New(c, name)
	l, err2 := rwlock.New(c, name)
	s, err3 := semaphore.New(c, name, semaphore.Stored)
	e, err4 := election.New(c, name)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	locks, err1 := m.Contenders(ctx)
	both, err2 := l.Contenders(ctx)
	permits, err3 := s.List(ctx)
	candidates, err4 := e.Candidates(ctx)
	for _, c := range locks {
		add("mutex", c)
	}
	for _, c := range both {
		add("rwlock", c.Contender)
	}
	for _, c := range permits.Contenders {
		add("semaphore", c.Contender)
	}
	for _, c := range candidates {
		add("election", c)
	}
	return all, errors.Join(err1, err2, err3, err4)
}

// dumpQueues logs the remaining entries, and each ZooKeeper's view of them: a
// server whose view differs from the others is at fault itself.
func (c *crew) dumpQueues() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, name := range crewNames(c.name) {
		left, err := entries(ctx, c.eye, name)
		c.t.Logf("left in %s: %+v, %v", name, left, err)
	}
	if c.s.service != "zk" {
		return
	}
	for _, addr := range c.s.endpoints {
		for _, word := range []string{"srvr", "dump"} {
			answer, err := zkserver.Word(ctx, addr, word)
			c.t.Logf("%s says to %s: %s, %v", addr, word, answer, err)
		}
	}
}
