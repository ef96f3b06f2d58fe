package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/semaphore"
)

// TestFleetIsLimited: five replicas of two workers each.
func TestFleetIsLimited(t *testing.T) {
	for _, limit := range []int{1, 3, 100} {
		synctest.Test(t, func(t *testing.T) {
			var g gauge
			l := limiter{limit: limit, workers: 2, calls: 4}
			l.call = func(ctx context.Context, connection int) error {
				if running := g.add(1); running > limit || connection >= limit {
					t.Errorf("%d running, on connection %d", running, connection)
				}
				defer g.add(-1)
				return demo.Sleep(ctx, 80*time.Millisecond)
			}
			if err := demo.Run(t.Context(), demo.InMemory, 5, l.replica); err != nil {
				t.Fatal(err)
			}
			if g.total != 40 || g.most != min(limit, 10) {
				t.Errorf("limit %d: %d calls, at most %d at a time", limit, g.total, g.most)
			}
		})
	}
}

func TestLimitIsChangedForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter{limit: 3, workers: 1, calls: 1}
		l.call = func(context.Context, int) error { return nil }
		replica := func(ctx context.Context, client *coordinator.Client) error {
			if err := l.replica(ctx, client); err != nil {
				return err
			}
			l.limit = 5
			if other := (*semaphore.LimitError)(nil); !errors.As(l.replica(ctx, client), &other) {
				t.Error("another limit was accepted without -change")
			}
			l.change = true
			return l.replica(ctx, client)
		}
		if err := demo.Run(t.Context(), demo.InMemory, 1, replica); err != nil {
			t.Error(err)
		}
	})
}

// TestFleetStopsWithItsContext, and releases its permits.
func TestFleetStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		l := limiter{limit: 3, workers: 2, calls: 1000}
		l.call = func(ctx context.Context, _ int) error {
			return demo.Sleep(ctx, 80*time.Millisecond)
		}
		began := time.Now()
		err := demo.Run(ctx, demo.InMemory, 5, l.replica)
		if err != nil || time.Since(began) > 300*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
