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
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/internal/pages"
	"github.com/baton-go/baton/mutex"
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
			shown := shapes(t, at.prefix, strings.Replace(at.prefix, "orders", root, 1))
			var missing []string
			eventually(t, patience, "all documented keys to exist", func() bool {
				keys := s.stored(t, root)
				for _, k := range keys {
					if !slices.ContainsFunc(shown, func(shape *regexp.Regexp) bool { return shape.MatchString(k) }) {
						t.Fatalf("docs/concepts.md has no entry for %s", k)
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
	if _, err := held.Sequencer(within(t, patience)); err != nil {
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
	pause(ctx, time.Second) // for the replies to the joins
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
	if _, err := pool.Acquire(within(t, patience), 2); err != nil { // will be converted
		t.Fatal(err)
	}
	short := make(chan struct{})
	t.Cleanup(func() { stop(); <-short })
	go func() {
		defer close(short)
		_, _ = pool.Acquire(ctx, 3)
	}()
}

var (
	hexes  = regexp.MustCompile(`[0-9a-f]{8,}`)
	digits = regexp.MustCompile(`_\d+`)
	asks   = regexp.MustCompile(`p\dv\d{4}`)
)

// shapes are patterns for the documented keys, with any numbers, names and
// modes.
func shapes(t *testing.T, prefix, actual string) []*regexp.Regexp {
	t.Helper()
	list, err := pages.All("..")
	if err != nil {
		t.Fatal(err)
	}
	var all []*regexp.Regexp
	for _, p := range list {
		for _, span := range p.Spans {
			key, found := strings.CutPrefix(span.Text, prefix)
			parent := !strings.ContainsAny(key, "0123456789+")
			if p.Path != "docs/concepts.md" || !found || parent {
				continue
			}
			shape := regexp.QuoteMeta(key)
			shape = hexes.ReplaceAllString(shape, `[0-9a-f]+`)
			shape = asks.ReplaceAllString(shape, `p\d+v[0-9a-z]{4}`)
			shape = digits.ReplaceAllString(shape, `_\d+`)
			all = append(all, regexp.MustCompile("^"+regexp.QuoteMeta(actual)+shape+"$"))
		}
	}
	if len(all) < 5 {
		t.Fatalf("docs/concepts.md shows only %d keys below %s", len(all), prefix)
	}
	return all
}

// stored returns all keys, or all nodes that are not parents of queues.
func (s site) stored(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	if s.service == "etcd" {
		resp, err := s.etcdClient(t).Get(within(t, patience), root+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
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
