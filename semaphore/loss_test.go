package semaphore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// replaced is a driver whose service can be replaced by an empty one.
type replaced struct {
	*memory.Driver
	now atomic.Pointer[memory.Driver]
}

// Open opens a session at the present service.
func (d *replaced) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	return d.now.Load().Open(ctx, ttl)
}

// TestLimitIsReadAgainAfterTheServiceLostItsData: versions begin anew, so the
// limit that another client stores can have the version of the earlier one.
func TestLimitIsReadAgainAfterTheServiceLostItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &replaced{Driver: memory.NewService().Driver()}
		d.now.Store(d.Driver)
		a, err := coordinator.New(d, quiet)
		check(t, err)
		t.Cleanup(func() { _ = a.Close(context.Background()) })
		s, err := semaphore.New(a, "jobs", 5)
		check(t, err)
		p, err := s.Acquire(t.Context(), 1)
		check(t, err)
		check(t, p.Release(t.Context()))

		empty, old := memory.NewService(), d.Service()
		d.now.Store(empty.Driver())
		b := join(t, empty, 1)
		b.acquire(1)
		for _, id := range old.Sessions() {
			old.Expire(id)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var limit *semaphore.LimitError
		if _, err = s.Acquire(ctx, 1); !errors.As(err, &limit) {
			t.Errorf("beside a holder of the only permit: %v", err)
		}
		check(t, a.Close(context.Background()))
	})
}
