package integration_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/internal/pages"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/doublebarrier"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/recipes/once"
	"github.com/baton-go/baton/recipes/partition"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// Each key and node of holders and waiters matches one in docs/concepts.md, and
// each documented one exists.
func TestConceptsShowWhatIsStored(t *testing.T) {
	t.Parallel()
	for service, at := range map[string]struct {
		endpoints func(testing.TB) []string
		prefix    string // of what the page shows
	}{
		"etcd": {func(t testing.TB) []string { return servers.Etcd(t).Endpoints() }, "orders/./"},
		"zk":   {func(t testing.TB) []string { return servers.ZooKeeper(t).Endpoints() }, "/orders/~/"},
	} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			s, root := site{service, at.endpoints(t)}, servers.Name(t)
			populate(t, s, root)
			populateAll(t, s, root)
			shown := shapes(t, at.prefix, strings.Replace(at.prefix, "orders", root, 1))
			var missing []string
			await.Until(t, "all documented keys to exist", func() bool {
				keys := s.stored(t, root)
				for _, k := range keys {
					if !slices.ContainsFunc(shown, func(shape *regexp.Regexp) bool { return shape.MatchString(k) }) {
						t.Errorf("docs/concepts.md has no entry for %s", k)
					}
				}
				missing = nil
				for _, shape := range shown {
					if !slices.ContainsFunc(keys, shape.MatchString) {
						missing = append(missing, shape.String())
					}
				}
				return len(missing) == 0
			})
		})
	}
}

// populate holds and requests a lock and permits, and makes a sequencer.
func populate(t *testing.T, s site, root string) {
	t.Helper()
	open := func() *coordinator.Client {
		c, err := coordinator.Open(s.service+"://"+s.endpoints[0]+"/"+root+"?ttl=10s", logTo(t))
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, c)
		return c
	}
	a, b := open(), open()
	held := lock(t, newMutex(t, a, "job"))
	if _, err := held.Sequencer(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	waiting, err := mutex.New(b, "job")
	if err != nil {
		t.Fatal(err)
	}
	// On ZooKeeper a session that has found three others in a queue creates a
	// successor node the next time.
	var others sync.WaitGroup
	contending, cancel := context.WithCancel(ctx)
	for range 3 {
		others.Go(func() {
			if _, err := waiting.Lock(contending); err == nil {
				t.Error("two hold")
			}
		})
	}
	awaitQueue(t, newMutex(t, a, "job"), 4)
	settleFrom(t, a, b) // b has the replies to its joins
	cancel()
	others.Wait()
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		_, _ = waiting.Lock(ctx)
	}()
	pool, err := semaphore.New(a, "pool", 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Acquire(await.Context(t), 2); err != nil { // will be converted
		t.Fatal(err)
	}
	short := make(chan struct{})
	t.Cleanup(func() { stop(); <-short })
	go func() {
		defer close(short)
		_, _ = pool.Acquire(ctx, 3)
	}()
}

// populateAll uses every recipe, with the options that store something.
func populateAll(t *testing.T, s site, root string) {
	t.Helper()
	c, err := coordinator.Open(s.service+"://"+s.endpoints[0]+"/"+root+"?ttl=10s", logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	ctx := await.Context(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	late, err := mutex.New(c, "late", mutex.WithLockDelay(time.Second))
	must(err)
	_, err = late.Lock(ctx)
	must(err)
	gpu, err := semaphore.New(c, "gpu", 4)
	must(err)
	permit, err := gpu.Acquire(ctx, 2)
	must(err)
	_, err = permit.Slots(ctx)
	must(err)
	catalogue, err := rwlock.New(c, "catalogue")
	must(err)
	_, err = catalogue.RLock(ctx)
	must(err)
	go func() { _, _ = catalogue.Lock(ctx) }() // waits until the end
	delayed, err := election.New(c, "late", election.WithLockDelay(time.Second))
	must(err)
	_, err = delayed.Campaign(ctx, nil)
	must(err)
	scheduler, err := election.New(c, "scheduler")
	must(err)
	term, err := scheduler.Campaign(ctx, []byte("value"))
	must(err)
	go func() { _, _ = scheduler.Campaign(ctx, []byte("value")) }() // leads next, until the end
	await.Until(t, "the next candidate to be queued", func() bool {
		all, err := scheduler.Candidates(ctx)
		return err == nil && len(all) == 2
	})
	must(term.TransferTo(ctx, c.Identity()))
	workers, err := group.New(c, "workers")
	must(err)
	_, err = workers.Join(ctx, []byte("value"))
	must(err)
	stock, err := counter.New(c, "stock")
	must(err)
	_, err = stock.Add(ctx, 1)
	must(err)
	invoices, err := counter.NewIDs(c, "invoices", 10)
	must(err)
	_, err = invoices.Next(ctx)
	must(err)
	nightly, err := once.New(c, "nightly")
	must(err)
	must(nightly.Do(ctx, "2026-11-28", func(context.Context, *once.Hold) error { return nil }))
	gate, err := barrier.New(c, "import")
	must(err)
	must(gate.Set(ctx))
	phase, err := doublebarrier.New(c, "phase", 1)
	must(err)
	_, err = phase.Enter(ctx)
	must(err)
	shards(t, c)
	both, err := multilock.New(multilock.Mutex(c, "left"), multilock.Mutex(c, "right"))
	must(err)
	_, err = both.Lock(ctx)
	must(err)
}

// shards runs two members of a partition until the end of the test.
func shards(t *testing.T, c *coordinator.Client) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var members sync.WaitGroup
	t.Cleanup(func() { stop(); members.Wait() })
	for range 2 {
		jobs, err := partition.New(c, "jobs", 2)
		if err != nil {
			t.Fatal(err)
		}
		members.Go(func() {
			_ = jobs.Run(ctx, func(ctx context.Context, _ *partition.Shard) error {
				<-ctx.Done()
				return nil
			})
		})
	}
}

var (
	bareRecord = regexp.MustCompile(`^[a-z-]+/[a-zA-Z0-9%]+\+record$`)
	bareQueue  = regexp.MustCompile(`^[a-z-]+/[a-zA-Z0-9%]+$`)
	entryQueue = regexp.MustCompile(`^(mutex/job|semaphore/pool)`)
	seat       = regexp.MustCompile(`%2F\d+`)
	mode       = regexp.MustCompile(`([-/])x(_|$)`)

	hexes  = regexp.MustCompile(`[0-9a-f]{8,}`)
	digits = regexp.MustCompile(`_\d+`)
	asks   = regexp.MustCompile(`p\dv\d{4}`)
)

// shapes are patterns for the documented keys: with any numbers and modes, and
// entries in any queue of a documented kind.
func shapes(t *testing.T, prefix, actual string) []*regexp.Regexp {
	t.Helper()
	list, err := pages.All("..")
	if err != nil {
		t.Fatal(err)
	}
	queue := queues(list)
	var all []*regexp.Regexp
	for _, p := range list {
		for _, span := range p.Spans {
			key, found := strings.CutPrefix(span.Text, prefix)
			record := bareRecord.MatchString(span.Text)
			parent := !strings.ContainsAny(key, "0123456789+")
			if p.Path != "docs/concepts.md" || !record && (!found || parent) {
				continue
			}
			shape := regexp.QuoteMeta(key)
			if strings.HasSuffix(key, "+record") {
				shape = strings.Replace(shape, "semaphore/pool", "semaphore/[^/]+", 1)
			} else {
				shape = entryQueue.ReplaceAllString(shape, queue)
			}
			shape = hexes.ReplaceAllString(shape, `[0-9a-f]+`)
			shape = asks.ReplaceAllString(shape, `p\d+v[0-9a-z]{4}`)
			shape = digits.ReplaceAllString(shape, `_\d+`)
			shape = seat.ReplaceAllString(shape, `%2F\d+`)
			shape = mode.ReplaceAllString(shape, `$1[a-z0-9]+$2`)
			all = append(all, regexp.MustCompile("^"+regexp.QuoteMeta(actual)+shape+"$"))
		}
	}
	if len(all) < 15 {
		t.Fatalf("docs/concepts.md shows only %d keys below %s", len(all), prefix)
	}
	return all
}

// queues matches the queues whose kinds docs/concepts.md names.
func queues(list []pages.Page) string {
	kinds := []string{"mutex", "semaphore"}
	for _, p := range list {
		for _, span := range p.Spans {
			if kind, _, found := strings.Cut(span.Text, "/"); found && p.Path == "docs/concepts.md" && bareQueue.MatchString(span.Text) {
				kinds = append(kinds, kind)
			}
		}
	}
	return "(" + strings.Join(kinds, "|") + ")/[^/]+"
}

// stored returns all keys, or all nodes that are not parents of queues.
func (s site) stored(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	if s.service == "etcd" {
		resp, err := s.etcdClient(t).Get(await.Context(t), root+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range resp.Kvs {
			all = append(all, string(kv.Key))
		}
		return all
	}
	conn := s.zkConn(t, 10*time.Second)
	var walk func(path string)
	walk = func(path string) {
		children, _, err := conn.Children(path)
		if err != nil && err != zk.ErrNoNode { //nolint:errorlint // the library wraps nothing
			t.Fatal(err)
		}
		for _, child := range children {
			node := path + "/" + child
			if depth := strings.Count(strings.TrimPrefix(node, "/"+root), "/"); depth == 4 || strings.Contains(child, "+") {
				all = append(all, node)
			}
			walk(node)
		}
	}
	walk("/" + root)
	return all
}
