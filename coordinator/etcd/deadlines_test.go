package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// TestDeadlinesThatEndDuringJoinsKeepTheEpoch: goroutines whose deadlines end
// while their joins are under way leave the session's epoch alone, on an etcd
// that answers each transaction in 2 ms. So the other joins of the client are
// not refused: a free name is locked in one request.
func TestDeadlinesThatEndDuringJoinsKeepTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
			select {
			case <-time.After(2 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		d, err := FromClient(c)
		check(t, err)
		client, err := coordinator.New(d)
		check(t, err)
		lock := func(ctx context.Context, name string) error {
			m, err := mutex.New(client, name)
			check(t, err)
			l, err := m.Lock(ctx)
			if err == nil {
				_ = l.Unlock(context.Background())
			}
			return err
		}
		check(t, lock(t.Context(), "free"))
		epoch := f.epoch()
		var hasty sync.WaitGroup
		end := time.Now().Add(time.Second)
		for i := range 50 {
			hasty.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(t.Context(),
						time.Duration(rand.IntN(20_000))*time.Microsecond)
					_ = lock(ctx, fmt.Sprint("hasty-", i%5))
					cancel()
				}
			})
		}
		for range 20 {
			began := time.Now()
			check(t, lock(t.Context(), "free"))
			if took := time.Since(began); took > 20*time.Millisecond {
				t.Errorf("a free name was locked and unlocked in %v", took)
			}
		}
		hasty.Wait()
		time.Sleep(time.Second)
		if now := f.epoch(); now != epoch {
			t.Errorf("the epoch rose from %d to %d", epoch, now)
		}
		check(t, client.Close(t.Context()))
		if len(f.kvs) != 0 {
			t.Errorf("left behind: %v", f.kvs)
		}
	})
}

// epoch is the epoch of the only session.
func (f *fake) epoch() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, kv := range f.kvs {
		if strings.Contains(key, "/sessions/") {
			return kv.ModRevision
		}
	}
	return 0
}
