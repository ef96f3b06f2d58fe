package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/rwlock"
)

// TestHoldersLearnThatTheyAreWanted by a writer: a reader and a writer that
// wait for that give way to it.
func TestHoldersLearnThatTheyAreWanted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		l, o := newRWLock(t, s.client(t, 10*time.Second), name), newRWLock(t, s.client(t, 10*time.Second), name)
		for _, do := range []func(context.Context, func(context.Context, *rwlock.Lock) error) error{l.RDo, l.Do} {
			err := do(await.Context(t), func(ctx context.Context, lock *rwlock.Lock) error {
				next := goLock(t, o.Lock)
				if err := lock.Wanted(ctx); err != nil {
					return err
				}
				if next.granted() {
					t.Error("granted beside a holder")
				}
				if err := lock.Unlock(ctx); err != nil {
					return err
				}
				return next.wait().Unlock(context.Background())
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
