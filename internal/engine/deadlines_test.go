package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// TestDeadlinesThatEndDuringJoinsForgetNothing: on a service that answers each
// request in 2 ms, a hundred goroutines lock and unlock with deadlines between
// 0 and 20 ms, so that many deadlines end while a join is under way. Each of
// these joins is answered, and its entry leaves by the reply: no contender is
// forgotten, which on etcd makes all joins of the session fail. Beside them the
// same client locks free names without delay, and nothing is left in the end.
func TestDeadlinesThatEndDuringJoinsForgetNothing(t *testing.T) {
	for name, names := range map[string]int{"one name": 1, "a name each": 100} {
		t.Run(name, func(t *testing.T) {
			within(t, func(w world) {
				w.session()
				w.link.Delay(time.Millisecond, time.Millisecond)
				var hasty sync.WaitGroup
				end := time.Now().Add(400 * time.Millisecond)
				for i := range 100 {
					m, err := mutex.New(w.client, fmt.Sprint("hasty-", i%names))
					check(w, err)
					hasty.Go(func() {
						for time.Now().Before(end) {
							hurry(w.Context(), m)
						}
					})
				}
				for i := range 20 {
					m, err := mutex.New(w.client, fmt.Sprint("free-", i))
					check(w, err)
					began := time.Now()
					check(w, w.lock(m).Unlock(w.Context()))
					if took := time.Since(began); took > 20*time.Millisecond {
						w.Errorf("a free name's lock and unlock took %v", took)
					}
				}
				hasty.Wait()
				time.Sleep(time.Second)
				stats := w.svc.Stats()
				if n := stats.Requests[memory.OpForget]; n != 0 {
					w.Errorf("%d contenders were forgotten (%v)", n, stats.Requests)
				}
				for _, q := range w.svc.Queues() {
					if left := w.svc.Snapshot(q); len(left) != 0 {
						w.Errorf("%s: left behind: %v", q, left)
					}
				}
			})
		})
	}
}

// hurry locks and unlocks with one deadline between 0 and 20 ms.
func hurry(ctx context.Context, m *mutex.Mutex) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(20_000))*time.Microsecond)
	defer cancel()
	if l, err := m.Lock(ctx); err == nil {
		_ = l.Unlock(ctx)
	}
}
