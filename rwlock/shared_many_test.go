package rwlock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// TestReadersOfATurnDoNotPayForEachOther: a reader that ends looks at nothing
// of the two thousand others that share its entry, and whose work would end
// with it. The look would show in what a read allocates. The same holds for
// calls that re-enter a read lock with the context of a lock within it.
func TestReadersOfATurnDoNotPayForEachOther(t *testing.T) {
	const many, most = 2000, 4096 // bytes
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		c, err := coordinator.New(svc.Driver(), quiet)
		check(t, err)
		l, err := rwlock.New(c, "catalogue", rwlock.WithSharedReads())
		check(t, err)
		other, err := rwlock.New(c, "other")
		check(t, err)
		outer, err := l.RLock(t.Context())
		check(t, err)
		inner, err := other.Lock(outer.Context())
		check(t, err)
		for name, ctx := range map[string]context.Context{
			"readers": t.Context(), "re-entries": inner.Context(),
		} {
			read := func(work func()) {
				check(t, l.RDo(ctx, func(context.Context, *rwlock.Lock) error { work(); return nil }))
			}
			end := make(chan struct{})
			for range many {
				go read(func() { <-end })
			}
			synctest.Wait()
			var before, after runtime.MemStats
			const reads = 100
			runtime.ReadMemStats(&before)
			for range reads {
				read(func() {})
			}
			runtime.ReadMemStats(&after)
			if n := (after.TotalAlloc - before.TotalAlloc) / reads; n > most {
				t.Errorf("%s: one beside %d others allocates %d bytes, more than %d", name, many, n, most)
			}
			close(end)
			synctest.Wait()
		}
		check(t, inner.Unlock(t.Context()))
		check(t, outer.Unlock(t.Context()))
		check(t, c.Close(context.Background()))
	})
}
