package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

const (
	soakTTL = 4 * time.Second
	// stormTime is how long faults are injected in one round.
	stormTime = 20 * time.Second
	// Clients of a soak: some in this process, whose network is broken, and
	// processes that are stopped and killed.
	soakMembers, soakChildren = 3, 2
)

// soakTime is how long faults are injected: BATON_SOAK, or one short round.
func soakTime(t *testing.T) time.Duration {
	s := os.Getenv("BATON_SOAK")
	if s == "" {
		return 8 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		t.Fatalf("BATON_SOAK=%q is not a time such as 30m", s)
	}
	return d
}

// Clients and processes contend for all recipes on clusters of three servers
// while all sorts of faults are injected concurrently. After each round the
// faults end, every contender must be granted once more, the queues must be
// empty, and the history is checked. BATON_SEED repeats the choice of faults,
// not the schedule of a real cluster.
func TestSoak(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("BATON_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("etcd", func(t *testing.T) {
		c := servers.NewEtcd(t, etcdserver.Options{Nodes: 3})
		soak(t, &field{site: site{"etcd", c.Endpoints()}, cluster: levers[*etcdserver.Node]{c}}, seed)
	})
	t.Run("zookeeper", func(t *testing.T) {
		c := servers.NewZooKeeper(t, zkserver.Options{Nodes: 3})
		soak(t, &field{site: site{"zk", c.Endpoints()}, cluster: levers[*zkserver.Node]{c}}, seed)
	})
}

// soak runs rounds until the time is over or a round fails.
func soak(t *testing.T, f *field, seed uint64) {
	fmt.Fprintf(os.Stderr, "soak %s: %v, seed %d\n", t.Name(), soakTime(t), seed)
	for i := range soakMembers {
		f.members = append(f.members, f.site.member(t, fmt.Sprintf("client-%d", i), soakTTL))
	}
	var total history.Report
	var first, last usage
	began := time.Now()
	rounds := 0
	defer every(30*time.Second, func() {
		fmt.Fprintf(os.Stderr, "soak %s: %v\n", t.Name(), time.Since(began).Round(time.Second))
	})()
	for left := soakTime(t); left > 0 && !t.Failed(); rounds++ {
		length := min(left, stormTime)
		left -= length
		t.Run(fmt.Sprintf("round-%d", rounds+1), func(t *testing.T) {
			total.Add(f.round(t, seed+uint64(rounds), length))
		})
		if last = use(); rounds == 0 {
			first = last
		}
		grants := 0
		for _, n := range total.Grants {
			grants += n
		}
		fmt.Fprintf(os.Stderr, "soak %s: %v, round %d: %d grants, %d faults, %d violations; %v\n", t.Name(),
			time.Since(began).Round(time.Second), rounds+1, grants, sumOf(total.Faults), len(total.Violations), last)
	}
	fmt.Fprintf(os.Stderr, "\nsoak %s, %v in %d rounds, seed %d\n%vafter the first round %v\nafter the last one   %v\n\n",
		t.Name(), time.Since(began).Round(time.Second), rounds, seed, total, first, last)
	if last.goroutines > first.goroutines+50 || last.heap > 2*first.heap+32<<20 {
		t.Errorf("resources grew: %v after the first round, %v after the last", first, last)
	}
}

// every calls f at intervals until the returned function is called.
func every(d time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

func sumOf[K comparable](counts map[K]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// usage is this process's use of resources.
type usage struct {
	goroutines int
	heap       uint64
}

func use() usage {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc}
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MiB of heap", u.goroutines, float64(u.heap)/(1<<20))
}

// field is the environment of a soak.
type field struct {
	site    site
	cluster cluster
	members []*member
}

// round injects faults for some time, and then checks the history.
func (f *field) round(t *testing.T, seed uint64, length time.Duration) history.Report {
	c := startCrew(t, f.site, seed, f.members)
	o := newOperator(t, f, c)
	for range soakChildren {
		c.fork()
	}
	var wg sync.WaitGroup
	ctx := within(t, length)
	wg.Go(func() { c.injectFaults(ctx, soakTTL) })
	for i, injure := range []func(context.Context, *rand.Rand) bool{o.breakServers, o.interfere} {
		r := rand.New(rand.NewPCG(seed, 2000+uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil && injure(ctx, r) {
				await.For(ctx, time.Duration(1000+r.IntN(7000))*time.Millisecond)
			}
		})
	}
	wg.Wait()
	return c.end(soakTTL)
}
