package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
)

// TestReenteringReadsTheWallClockOnce, as P2 needs: reading clocks is most of
// its cost.
func TestReenteringReadsTheWallClockOnce(t *testing.T) {
	var reads atomic.Int64
	counted := engine.WithWallClock(func() time.Time {
		reads.Add(1)
		return time.Now()
	})
	within(t, func(w world) {
		m := w.mutex()
		check(w, m.Do(w.Context(), func(work context.Context, _ *mutex.Lock) error {
			outer, err := m.Lock(work)
			check(w, err)
			derived, cancel := context.WithCancel(outer.Context())
			defer cancel()
			for what, ctx := range map[string]context.Context{
				"Lock.Context()": outer.Context(), "Do's context": work, "a derived one": derived,
			} {
				reads.Store(0)
				inner, err := m.Lock(ctx)
				check(w, err)
				check(w, inner.Unlock(w.Context()))
				if n := reads.Load(); n != 1 {
					w.Errorf("with %s: %d reads of the wall clock, want 1", what, n)
				}
			}
			return outer.Unlock(w.Context())
		}))
	}, counted)
}

// TestReenteringWithinDoEndsByItsCallerAfterASleep although the service does
// not answer.
func TestReenteringWithinDoEndsByItsCallerAfterASleep(t *testing.T) {
	withClock(t, func(w world, c *wallClock, l *mutex.Lock) {
		m := w.mutex()
		within, cancel := context.WithTimeout(l.Context(), 50*time.Millisecond)
		defer cancel()
		_ = m.Do(within, func(work context.Context, _ *mutex.Lock) error {
			w.link.Cut()
			defer w.link.Heal()
			c.step(time.Hour)
			began := time.Now()
			if _, err := m.Lock(work); !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("Lock = %v", err)
			}
			if took := time.Since(began); took > 60*time.Millisecond {
				w.Errorf("Lock with a context of 50 ms took %v", took)
			}
			return nil
		})
	})
}
