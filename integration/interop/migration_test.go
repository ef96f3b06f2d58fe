package interop_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/baton-go/baton/mutex"
)

// both locks the shared name and then Baton's own: the intermediate step of a
// migration.
type both struct{ old, own *mutex.Mutex }

func (b both) lock(ctx context.Context) (unlock func() error, err error) {
	var held []*mutex.Lock
	unlock = func() (err error) {
		for i := len(held) - 1; i >= 0; i-- {
			err = errors.Join(err, held[i].Unlock(ctx))
		}
		return err
	}
	for _, m := range []*mutex.Mutex{b.old, b.own} {
		if m == nil {
			continue
		}
		l, err := m.Lock(ctx)
		if err != nil {
			return nil, errors.Join(err, unlock())
		}
		held = append(held, l)
	}
	return unlock, nil
}

// A fleet migrates from the other client's layout to Baton's own in three
// releases, of which two run at a time. The intermediate release acquires both
// locks, always in the same order.
func TestMigrationLeavesNoGap(t *testing.T) {
	zoo, etcd := newZKSite(t), newEtcdSite(t)
	for _, urls := range [][2]string{
		{"zk://" + zoo.addresses() + "?ttl=10s&layout=curator", "zk://" + zoo.addresses() + "/apps?ttl=10s"},
		{"etcd://" + etcd.addresses() + "?ttl=10s&layout=concurrency", "etcd://" + etcd.addresses() + "/apps?ttl=10s"},
	} {
		ctx := bounded(t)
		release := func(old, own bool) both {
			var b both
			var err error
			if old {
				b.old, err = mutex.New(batonClient(t, urls[0]), "/interop/migrated")
				check(t, err)
			}
			if own {
				b.own, err = mutex.New(batonClient(t, urls[1]), "migrated")
				check(t, err)
			}
			return b
		}
		var inside, turns atomic.Int32
		run := func(wg *sync.WaitGroup, b both) {
			wg.Go(func() {
				for range 20 {
					unlock, err := b.lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d have the lock", n)
					}
					turns.Add(1)
					inside.Add(-1)
					check(t, unlock())
				}
			})
		}
		for _, phase := range [][]both{
			{release(true, false), release(true, false), release(true, true), release(true, true)},
			{release(true, true), release(true, true), release(false, true), release(false, true)},
		} {
			var wg sync.WaitGroup
			for _, b := range phase {
				run(&wg, b)
			}
			wg.Wait()
		}
		if n := turns.Load(); n != 160 {
			t.Errorf("%d turns", n)
		}
	}
}
