package rwlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

type do func(context.Context, func(context.Context) error) error

func TestDoHoldsWhileTheWorkRuns(t *testing.T) {
	parties(t, func(a, b, _ party) {
		for _, tt := range []struct {
			do         do
			read, also error // what a TryRLock and a TryLock of another return meanwhile
		}{{a.l.Do, coordinator.ErrTaken, coordinator.ErrTaken}, {a.l.RDo, nil, coordinator.ErrTaken}} {
			began := time.Now()
			err := tt.do(a.Context(), func(ctx context.Context) error {
				r, err := b.l.TryRLock(b.Context())
				if wantErr(t, err, tt.read); err == nil {
					b.unlock(r)
				}
				_, err = b.l.TryLock(b.Context())
				wantErr(t, err, tt.also)
				time.Sleep(time.Hour) // renewed
				return ctx.Err()
			})
			wantErr(t, err)
			if took := time.Since(began); took != time.Hour {
				t.Errorf("took %v", took)
			}
			b.unlock(b.lock())
		}
	})
}

// TestDoAndRDoNest: what locks for itself can be called by what has locked, in all ways but read and then write.
func TestDoAndRDoNest(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	parties(t, func(a, b, _ party) {
		err := a.l.Do(a.Context(), func(ctx context.Context) error {
			n := a.requests(func() {
				wantErr(t, a.l.Do(ctx, nothing))
				wantErr(t, a.l.RDo(ctx, func(ctx context.Context) error {
					return errors.Join(a.l.RDo(ctx, nothing), a.l.Do(ctx, nothing)) // it is a write hold still
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
		err = a.l.RDo(a.Context(), func(ctx context.Context) error {
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
		err := a.l.Do(a.Context(), func(ctx context.Context) error {
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

func TestDoReturnsTheErrorOfTheWorkAndUnlocksWhenItPanics(t *testing.T) {
	mine := errors.New("mine")
	parties(t, func(a, b, _ party) {
		for _, f := range []do{a.l.Do, a.l.RDo} {
			if err := f(a.Context(), func(context.Context) error { return mine }); err != mine { //nolint:errorlint // itself
				t.Errorf("%v", err)
			}
			func() {
				defer func() {
					if recover() != "boom" {
						t.Error("the panic was swallowed")
					}
				}()
				_ = f(a.Context(), func(context.Context) error { panic("boom") })
			}()
			b.unlock(b.lock())
		}
	})
}

func TestDoTellsTheWorkOfTheLossAndReportsIt(t *testing.T) {
	mine := errors.New("mine")
	parties(t, func(a, b, _ party) {
		for _, f := range []do{a.l.Do, a.l.RDo} {
			for _, says := range []error{nil, mine} {
				err := f(a.Context(), func(ctx context.Context) error {
					a.link.Cut()
					<-ctx.Done()
					wantErr(t, context.Cause(ctx), coordinator.ErrSessionLost)
					return says
				})
				a.link.Reset()
				a.link.Heal()
				wantErr(t, err, coordinator.ErrSessionLost)
				if says != nil {
					wantErr(t, err, mine)
				}
				b.unlock(b.lock())
			}
		}
	})
}

func TestDoEndsTheWorkWithItsCallersContextAndGivesBack(t *testing.T) {
	parties(t, func(a, b, _ party) {
		for _, f := range []do{a.l.Do, a.l.RDo} {
			ctx, cancel := context.WithTimeout(a.Context(), time.Second)
			want, _ := ctx.Deadline()
			err := f(ctx, func(ctx context.Context) error {
				if d, ok := ctx.Deadline(); !ok || !d.Equal(want) {
					t.Errorf("deadline %v, %v", d, ok)
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			cancel()
			wantErr(t, err, context.DeadlineExceeded)
			b.unlock(b.lock())
		}
	})
}

// TestDoThatCannotUnlockSaysSo, by the name that its user knows.
func TestDoThatCannotUnlockSaysSo(t *testing.T) {
	parties(t, func(a, b, _ party) {
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpLeave {
				return memory.Fate{Err: errors.New("no permission")}
			}
			return memory.Fate{}
		})
		err := a.l.Do(a.Context(), func(context.Context) error { return nil })
		wantErr(t, err, coordinator.ErrRefused)
		if !strings.HasPrefix(err.Error(), `baton: unlock "catalogue": `) {
			t.Errorf("error %v", err)
		}
		a.svc.OnRequest(nil)
		b.unlock(b.lock())
	})
}

func TestDoWithoutWorkIsInvalid(t *testing.T) {
	parties(t, func(a, _, _ party) {
		for _, f := range []do{a.l.Do, a.l.RDo} {
			n := a.requests(func() { wantErr(t, f(a.Context(), nil), coordinator.ErrInvalid) })
			if n != 0 {
				t.Errorf("%d requests", n)
			}
		}
	})
}
