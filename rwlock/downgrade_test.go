package rwlock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// TestDowngradeAdmitsReadersAndNoWriter is FIELD 43: after a downgrade the
// reader blocks all writers, also those that joined before its read lock.
func TestDowngradeAdmitsReadersAndNoWriter(t *testing.T) {
	parties(t, func(a, b, c party) {
		w := a.lock()
		r1, r2 := b.begin(b.l.RLock), c.begin(c.l.RLock)
		w2 := b.begin(b.l.Lock)
		r3 := c.begin(c.l.RLock)
		r := a.take(a.l.RLock, w.Context()) // the last request
		admitted(t, "", r1, r2, w2, r3)
		a.unlock(w)
		admitted(t, "ab", r1, r2, w2, r3)
		r1.unlock()
		r2.unlock()
		admitted(t, "ab", r1, r2, w2, r3)
		wantErr(t, r.Err())
		a.unlock(r)
		admitted(t, "abc", r1, r2, w2, r3)
		w2.unlock()
		r3.unlock()
		if r.Token() != w.Token() || w.Token() >= r1.lock.Token() ||
			r2.lock.Token() >= w2.lock.Token() {
			t.Error("tokens do not rise")
		}
	})
}

// TestReadLockTakenWhileTheWriteLockIsReleased is part of the hold, or queued.
func TestReadLockTakenWhileTheWriteLockIsReleased(t *testing.T) {
	parties(t, func(a, _, _ party) {
		for range 300 {
			w := a.lock()
			keep := context.WithoutCancel(w.Context())
			var wg sync.WaitGroup
			var r *rwlock.Lock
			wg.Go(func() { a.unlock(w) })
			wg.Go(func() { r = a.take(a.l.RLock, keep) })
			wg.Wait()
			wantErr(t, r.Err())
			if all := a.svc.Snapshot(queue); len(all) != 1 || all[0].Token != r.Token() ||
				all[0].Mode != "r" {
				t.Fatalf("token %d, the queue is %v", r.Token(), all)
			}
			a.unlock(r)
		}
	})
}

// TestNoWriteBetweenADowngradedWriteAndItsRead, with delays and stale views.
func TestNoWriteBetweenADowngradedWriteAndItsRead(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService(memory.WithStaleViews(seed))
			version := 0 // guarded by the lock
			var wg sync.WaitGroup
			downgrades, reads := 0, make(chan int, 1)
			reads <- 0
			for i := range 8 {
				p := join(t, svc)
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				p.link.Delay(time.Duration(r.IntN(5))*time.Millisecond,
					time.Duration(r.IntN(5))*time.Millisecond)
				pause := func() { time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) }
				wg.Go(func() {
					for range 10 {
						pause()
						if r.IntN(2) == 0 {
							l := p.rlock()
							was := version
							pause()
							if version != was {
								t.Error("written under a read lock")
							}
							reads <- <-reads + 1
							p.unlock(l)
							continue
						}
						w := p.lock()
						version++
						wrote := version
						downgrades++
						l := p.take(p.l.RLock, w.Context())
						p.unlock(w)
						pause()
						if version != wrote {
							t.Error("written between a write and the read of its downgrade")
						}
						p.unlock(l)
					}
					if err := p.client.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if downgrades+<-reads != 80 || version != downgrades {
				t.Errorf("%d downgrades, version %d", downgrades, version)
			}
			if n := svc.Stats().Entries; n != 0 {
				t.Errorf("seed %d: %d left in the queue", seed, n)
			}
		})
	}
}
