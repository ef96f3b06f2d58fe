package rwlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/rwlock"
)

// requests counts those of a call.
func (p party) requests(f func()) int {
	before := p.svc.Stats().Total()
	f()
	return p.svc.Stats().Total() - before
}

func TestReenteringCostsNoRequestAndCounts(t *testing.T) {
	parties(t, func(a, b, _ party) {
		for _, again := range [][]take{{a.l.Lock, a.l.Lock, a.l.TryLock}, {a.l.RLock, a.l.RLock, a.l.TryRLock}} {
			outer := a.take(again[0], a.Context())
			n := a.requests(func() {
				inner := a.take(again[1], outer.Context())
				innermost := a.take(again[2], inner.Context())
				if inner.Token() != outer.Token() || innermost.Token() != outer.Token() || inner.Writer() != outer.Writer() {
					t.Error("re-entering gave something else")
				}
				a.unlock(outer, innermost) // in any order
				wantErr(t, inner.Err())
				wantErr(t, inner.Context().Err())
				outer = inner
			})
			if n != 0 {
				t.Errorf("%d requests", n)
			}
			writer := b.begin(b.l.Lock)
			admitted(t, "", writer)
			a.unlock(outer)
			admitted(t, "a", writer)
			writer.unlock()
		}
	})
}

func TestReadWithinAWriteIsTheSameGrant(t *testing.T) {
	parties(t, func(a, b, _ party) {
		for _, read := range []take{a.l.RLock, a.l.TryRLock} {
			w := a.lock()
			var r *rwlock.Lock
			if n := a.requests(func() { r = a.take(read, w.Context()) }); n != 0 {
				t.Errorf("%d requests", n)
			}
			if r.Token() != w.Token() || r.Session() != w.Session() || r.Writer() || !w.Writer() {
				t.Errorf("read %v, write %v", r, w)
			}
			// Writing within reading within writing: the hold is a write hold still.
			inner := a.take(a.l.Lock, r.Context())
			if inner.Token() != w.Token() || !inner.Writer() {
				t.Error("another grant")
			}
			reader := b.begin(b.l.RLock)
			a.unlock(r, inner)
			admitted(t, "", reader)
			a.unlock(w)
			admitted(t, "a", reader)
			reader.unlock()
		}
	})
}

// TestOnlyTheHoldsContextEnters is FIELD 44, and H2 and H3 of its list: not the same goroutine, nor the same client, nor
// the context of a hold that is over, nor that of another client's.
func TestOnlyTheHoldsContextEnters(t *testing.T) {
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
			t.Error("the hold of one lock was taken for one of another")
		}
		inner := a.take(a.l.RLock, o.Context()) // the hold is found behind that of another lock
		a.unlock(inner, o, w)

		next := b.lock()
		_, err = a.l.RLock(w.Context())
		wantErr(t, err, coordinator.ErrReleased)
		_, err = a.l.TryRLock(context.WithoutCancel(w.Context())) // what was held once is not held now
		wantErr(t, err, coordinator.ErrTaken)
		b.unlock(next)
	})
}

// TestLostHoldIsNotEntered is FIELD's H2 and H3: a write hold whose session is gone admits no reader beside the next writer.
func TestLostHoldIsNotEntered(t *testing.T) {
	parties(t, func(a, b, _ party) {
		w := a.lock()
		r := a.take(a.l.RLock, w.Context())
		a.svc.Expire(w.Session())
		synctest.Wait() // the client hears of it
		next := b.lock()
		for _, l := range []*rwlock.Lock{w, r} {
			_, err := a.l.RLock(l.Context())
			wantErr(t, err, coordinator.ErrSessionLost)
			_, err = a.l.TryRLock(context.WithoutCancel(l.Context()))
			wantErr(t, err, coordinator.ErrTaken)
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrSessionLost)
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrNotHeld)
		}
		b.unlock(next)
	})
}

func TestHandleIsUnlockedOnce(t *testing.T) {
	parties(t, func(a, b, _ party) {
		for _, f := range []take{a.l.Lock, a.l.RLock} {
			outer := a.take(f, a.Context())
			inner := a.take(a.l.RLock, outer.Context())
			a.unlock(inner)
			wantErr(t, inner.Unlock(a.Context()), coordinator.ErrNotHeld)
			wantErr(t, inner.Err(), coordinator.ErrReleased)
			wantErr(t, outer.Err())
			a.unlock(outer)
			next := b.lock()
			wantErr(t, outer.Unlock(a.Context()), coordinator.ErrNotHeld)
			wantErr(t, inner.Unlock(a.Context()), coordinator.ErrNotHeld)
			wantErr(t, next.Err())
			b.unlock(next)
		}
	})
}

// TestUpgradeIsRefusedAndHarmless is FIELD 45: it would wait for itself for ever. Nothing is sent.
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
		err := a.l.Do(inner.Context(), func(context.Context) error { t.Error("the work ran"); return nil })
		wantErr(t, err, rwlock.ErrUpgrade)
		wantErr(t, r.Err())
		a.unlock(r, inner)
		admitted(t, "a", waits)
		waits.unlock()
		a.unlock(a.lock())
	})
}

// TestWriterWithoutItsContextWaitsForItself, as the package says, and gives up with its context.
func TestWriterWithoutItsContextWaitsForItself(t *testing.T) {
	parties(t, func(a, _, _ party) {
		w := a.lock()
		ctx, cancel := context.WithTimeout(a.Context(), time.Second)
		defer cancel()
		_, err := a.l.RLock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		a.unlock(w)
	})
}
