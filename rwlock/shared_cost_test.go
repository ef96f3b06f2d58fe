package rwlock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// load is what readers and a writer have measured.
type load struct {
	reads, writes int
	requests      float64         // for each read
	waits         []time.Duration // of the writer, in order
}

func (l load) median() time.Duration { return l.waits[len(l.waits)/2] }

// readersAndAWriter: in each of four clients sixteen goroutines read for 1 ms
// with pauses of 1 ms, and a fifth client writes for 1 ms every 20 ms, all on
// average: with fixed times they would march in step. A round trip takes 0.6
// ms.
func readersAndAWriter(t *testing.T, opts ...rwlock.Option) (result load) {
	t.Helper()
	const clients, each, lasts = 4, 16, time.Second
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		end := time.Now().Add(lasts)
		var all []*coordinator.Client
		open := func() *rwlock.RWLock {
			link := svc.Driver()
			link.Delay(300*time.Microsecond, 300*time.Microsecond)
			c, err := coordinator.New(link, quiet)
			check(t, err)
			all = append(all, c)
			l, err := rwlock.New(c, "catalogue", opts...)
			check(t, err)
			return l
		}
		var mu sync.Mutex
		var done sync.WaitGroup
		for i := range clients {
			l := open()
			for j := range each {
				done.Go(func() {
					about := roughly(uint64(i*each + j))
					time.Sleep(about(time.Millisecond))
					for time.Now().Before(end) {
						held, err := l.RLock(t.Context())
						check(t, err)
						time.Sleep(about(time.Millisecond))
						check(t, held.Unlock(context.Background()))
						mu.Lock()
						result.reads++
						mu.Unlock()
						time.Sleep(about(time.Millisecond))
					}
				})
			}
		}
		l := open()
		done.Go(func() {
			about := roughly(1000)
			for time.Now().Before(end) {
				time.Sleep(about(20 * time.Millisecond))
				began := time.Now()
				held, err := l.Lock(t.Context())
				check(t, err)
				result.waits = append(result.waits, time.Since(began))
				time.Sleep(about(time.Millisecond))
				check(t, held.Unlock(context.Background()))
			}
		})
		done.Wait()
		result.requests = float64(svc.Stats().Total()) / float64(result.reads)
		for _, c := range all {
			check(t, c.Close(context.Background()))
		}
	})
	slices.Sort(result.waits)
	result.writes = len(result.waits)
	return result
}

// roughly draws times between half and one and a half of a mean.
func roughly(seed uint64) func(mean time.Duration) time.Duration {
	r := rand.New(rand.NewPCG(seed, 8))
	return func(mean time.Duration) time.Duration {
		return mean/2 + time.Duration(r.Int64N(int64(mean)))
	}
}

// TestSharedReadsNeedFewRequests: at most half a request for a read, the
// writer's included, and the writer waits no longer than without the option.
func TestSharedReadsNeedFewRequests(t *testing.T) {
	own, shared := readersAndAWriter(t), readersAndAWriter(t, rwlock.WithSharedReads())
	for name, l := range map[string]load{"own entries": own, "shared": shared} {
		t.Logf("%s: %d reads, %.2f requests a read; %d writes, median wait %v, longest %v",
			name, l.reads, l.requests, l.writes, l.median(), l.waits[len(l.waits)-1])
	}
	if shared.requests > 0.5 || shared.requests > own.requests/4 {
		t.Errorf("%.2f requests a read, %.2f without the option", shared.requests, own.requests)
	}
	if shared.median() > own.median() {
		t.Errorf("the writer waits for %v, without the option for %v", shared.median(), own.median())
	}
}
