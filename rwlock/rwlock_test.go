package rwlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/rwlock"
)

// TestDoAndRDoNest in all combinations except a write within a read.
func TestDoAndRDoNest(t *testing.T) {
	nothing := func(context.Context, *rwlock.Lock) error { return nil }
	parties(t, func(a, b, _ party) {
		err := a.l.Do(a.Context(), func(ctx context.Context, _ *rwlock.Lock) error {
			n := a.requests(func() {
				wantErr(t, a.l.Do(ctx, nothing))
				wantErr(t, a.l.RDo(ctx, func(ctx context.Context, _ *rwlock.Lock) error {
					// Still a write hold.
					return errors.Join(a.l.RDo(ctx, nothing), a.l.Do(ctx, nothing))
				}))
			})
			if n != 0 {
				t.Errorf("%d requests", n)
			}
			_, err := b.l.TryRLock(b.Context())
			wantErr(t, err, coordinator.ErrTaken)
			return ctx.Err()
		})
		wantErr(t, err)
		err = a.l.RDo(a.Context(), func(ctx context.Context, _ *rwlock.Lock) error {
			wantErr(t, a.l.RDo(ctx, nothing))
			wantErr(t, a.l.Do(ctx, nothing), rwlock.ErrUpgrade)
			return ctx.Err()
		})
		wantErr(t, err)
	})
}

// TestReadLockOutlivesTheDoItWasTakenIn: a downgrade with Do.
func TestReadLockOutlivesTheDoItWasTakenIn(t *testing.T) {
	parties(t, func(a, b, c party) {
		var r *rwlock.Lock
		var waits []*pending
		var inside context.Context
		err := a.l.Do(a.Context(), func(ctx context.Context, _ *rwlock.Lock) error {
			inside = ctx
			r = a.take(a.l.RLock, ctx)
			waits = append(waits, b.begin(b.l.RLock), c.begin(c.l.Lock))
			return nil
		})
		wantErr(t, err)
		wantErr(t, context.Cause(inside), coordinator.ErrReleased)
		wantErr(t, context.Cause(r.Context()))
		admitted(t, "a", waits...)
		waits[0].unlock()
		a.unlock(r)
		admitted(t, "ab", waits...)
		waits[1].unlock()
	})
}
