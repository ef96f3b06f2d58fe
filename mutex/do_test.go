package mutex_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
)

func TestDoHoldsWhileTheWorkRuns(t *testing.T) {
	parties(t, func(a, b party) {
		began := time.Now()
		err := a.m.Do(a.Context(), func(ctx context.Context) error {
			if _, err := b.m.TryLock(b.Context()); !errors.Is(err, coordinator.ErrTaken) {
				a.Errorf("TryLock during Do = %v", err)
			}
			time.Sleep(time.Hour) // renewed
			if ctx.Err() != nil {
				a.Errorf("context of the work: %v", context.Cause(ctx))
			}
			return a.m.Do(ctx, func(context.Context) error { return nil }) // re-enters
		})
		if err != nil || time.Since(began) != time.Hour {
			a.Errorf("Do = %v after %v", err, time.Since(began))
		}
		b.unlock(b.lock())
	})
}

func TestDoReturnsTheErrorOfTheWorkItself(t *testing.T) {
	parties(t, func(a, b party) {
		mine := errors.New("mine")
		if err := a.m.Do(a.Context(), func(context.Context) error { return mine }); err != mine { //nolint:errorlint // itself
			a.Errorf("Do = %v", err)
		}
		b.unlock(b.lock())
	})
}

func TestDoUnlocksWhenTheWorkPanics(t *testing.T) {
	parties(t, func(a, b party) {
		func() {
			defer func() {
				if recover() != "boom" {
					a.Error("the panic was swallowed")
				}
			}()
			_ = a.m.Do(a.Context(), func(context.Context) error { panic("boom") })
		}()
		b.unlock(b.lock())
	})
}

func TestDoTellsTheWorkOfTheLossAndReportsIt(t *testing.T) {
	parties(t, func(a, b party) {
		err := a.m.Do(a.Context(), func(ctx context.Context) error {
			a.link.Cut()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, coordinator.ErrSessionLost) {
				a.Errorf("cause %v", cause)
			}
			return nil // says nothing of it
		})
		a.link.Heal()
		if !errors.Is(err, coordinator.ErrSessionLost) {
			a.Errorf("Do = %v although the work ran without protection at its end", err)
		}
		b.unlock(b.lock())
	})
}

func TestDoEndsTheWorkWithItsCallersContext(t *testing.T) {
	parties(t, func(a, b party) {
		ctx, cancel := context.WithTimeout(a.Context(), time.Second)
		defer cancel()
		err := a.m.Do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			a.Errorf("Do = %v", err)
		}
		b.unlock(b.lock()) // given back although the context was dead
	})
}
