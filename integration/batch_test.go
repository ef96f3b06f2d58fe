package integration_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
)

// The client batches the requests of many goroutines on many names, and its
// connections are reset meanwhile. In the end all queues are empty.
func TestManyNamesOfOneClientExcludeAndRise(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		const names, apiece, rounds = 48, 2, 12
		var proxies []*netproxy.Proxy
		var addrs []string
		for _, e := range s.endpoints {
			p := servers.Proxy(t, []string{e})
			proxies, addrs = append(proxies, p), append(addrs, p.Addr())
		}
		c := s.client(t, longTTL, addrs...)
		var lines [names]struct {
			holders atomic.Int32
			token   atomic.Uint64
		}
		name := func(i int) string { return fmt.Sprintf("%s/%d", t.Name(), i) }
		var all sync.WaitGroup
		var grants atomic.Int32
		var over atomic.Bool
		for i := range names * apiece {
			at, m := &lines[i%names], newMutex(t, c, name(i%names))
			all.Go(func() {
				for range rounds {
					l, err := m.Lock(await.Context(t))
					if err != nil {
						t.Error(err)
						return
					}
					if at.holders.Add(1) != 1 {
						t.Errorf("%s has two holders", name(i%names))
					}
					if last := at.token.Swap(uint64(l.Token())); last >= uint64(l.Token()) {
						t.Errorf("%s: token %d after %d", name(i%names), l.Token(), last)
					}
					at.holders.Add(-1)
					grants.Add(1)
					if err := l.Unlock(await.Context(t)); err != nil && !errors.Is(err, coordinator.ErrUnavailable) {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); over.Store(true); close(done) }()
		for broken := range 5 {
			at := grants.Load() + 50
			await.Until(t, "fifty more grants, or the end", func() bool { return grants.Load() >= at || over.Load() })
			proxies[broken%len(proxies)].Reset()
		}
		<-done
		other := s.client(t, 10*time.Second)
		for i := range names {
			l, err := newMutex(t, other, name(i)).Lock(await.Context(t)) // pending releases finish in the background
			if err != nil {
				t.Fatalf("%s: %v", name(i), err)
			}
			unlock(t, l)
		}
	})
}
