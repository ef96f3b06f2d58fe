package rwlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/rwlock"
)

// requests counts the requests of a call.
func (p party) requests(f func()) int {
	before := p.svc.Stats().Total()
	f()
	return p.svc.Stats().Total() - before
}

// TestOnlyTheHoldsContextReenters is FIELD 44, and H2 and H3 of its list: not
// the goroutine, nor the client, nor the context of another client's hold.
// Package recipes tests the context of a hold that is over.
func TestOnlyTheHoldsContextReenters(t *testing.T) {
	parties(t, func(a, b, _ party) {
		w := a.lock()
		for _, ctx := range []context.Context{a.Context(), context.Background()} {
			_, err := a.l.TryRLock(ctx)
			wantErr(t, err, coordinator.ErrTaken)
		}
		_, err := b.l.TryRLock(w.Context())
		wantErr(t, err, coordinator.ErrTaken)
		other, err := rwlock.New(a.client, "catalogue/2")
		wantErr(t, err)
		o := a.take(other.RLock, w.Context())
		if o.Token() == w.Token() {
			t.Error("the hold of another lock was re-entered")
		}
		inner := a.take(a.l.RLock, o.Context()) // the context carries two holds
		a.unlock(inner, o, w)
	})
}

// TestUpgradeIsRefusedAndHarmless is FIELD 45: an upgrade would wait for itself
// for ever. It sends nothing.
func TestUpgradeIsRefusedAndHarmless(t *testing.T) {
	parties(t, func(a, b, _ party) {
		r := a.rlock()
		inner := a.take(a.l.RLock, r.Context())
		waits := b.begin(b.l.Lock)
		for _, f := range []take{a.l.Lock, a.l.TryLock} {
			for _, l := range []*rwlock.Lock{r, inner} {
				n := a.requests(func() {
					_, err := f(l.Context())
					wantErr(t, err, rwlock.ErrUpgrade, coordinator.ErrInvalid)
					if errors.Is(err, coordinator.ErrTaken) || coordinator.MayHaveApplied(err) {
						t.Errorf("error %v", err)
					}
				})
				if n != 0 {
					t.Errorf("%d requests", n)
				}
			}
		}
		err := a.l.Do(inner.Context(),
			func(context.Context, *rwlock.Lock) error { t.Error("the work ran"); return nil })
		wantErr(t, err, rwlock.ErrUpgrade)
		wantErr(t, r.Err())
		a.unlock(r, inner)
		admitted(t, "a", waits)
		waits.unlock()
		a.unlock(a.lock())
	})
}
