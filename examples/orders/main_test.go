package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/examples/internal/demo"
)

// TestOrdersAreMovedByOneWorkerAtATime, although a worker is cut off in the
// middle of a move, and continues when another has made it.
func TestOrdersAreMovedByOneWorkerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		orders := []*order{newOrder("a"), newOrder("b"), newOrder("c")}
		var mu sync.Mutex
		asked, paid, paused := 0, map[string]bool{}, false
		var wg sync.WaitGroup
		for range 3 {
			link := svc.Driver()
			client, err := coordinator.New(link, coordinator.WithTTL(coordinator.MinTTL),
				coordinator.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			work := func(ctx context.Context, to state, key string) error {
				mu.Lock()
				if to == "paid" { // the other side makes a payment once for each key
					asked++
					paid[key] = true
				}
				pause := to == "paid" && !paused
				paused = paused || pause
				mu.Unlock()
				if !pause {
					return demo.Sleep(ctx, 100*time.Millisecond)
				}
				link.Cut()
				time.Sleep(3 * coordinator.MinTTL) // a paused process checks no context
				link.Heal()
				return nil
			}
			wg.Go(func() {
				w := worker{orders, work, log.New(io.Discard, "", 0)}
				if err := w.run(t.Context(), client); err != nil {
					t.Error(err)
				}
				if err := client.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, o := range orders {
			if o.state != "shipped" || o.moves != 3 {
				t.Errorf("%s is %s after %d moves", o.id, o.state, o.moves)
			}
		}
		if asked != 4 || len(paid) != 3 {
			t.Errorf("%d payments were requested, and %d made; want 4 and 3", asked, len(paid))
		}
	})
}

// TestRecurringStateDoesNotAdmitALateWorker: the order has the state that the
// late worker saw, but had another one meanwhile.
func TestRecurringStateDoesNotAdmitALateWorker(t *testing.T) {
	o, ctx := newOrder("a"), t.Context()
	scope := fence.Scope{Service: "4f0c", Kind: "mutex", Name: "orders/a"}
	late := fence.Sequencer{Scope: scope, Token: 5, Key: "a"}
	next := fence.Sequencer{Scope: scope, Token: 9, Key: "b"}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(o.move(ctx, late, "new", "paid"))
	ok(o.move(ctx, next, "paid", "packed"))
	ok(o.move(ctx, next, "packed", "paid"))
	if err := o.move(ctx, late, "paid", "packed"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late worker moves: %v", err)
	}
	if _, _, err := o.read(ctx, late); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late worker reads: %v", err)
	}
	for _, m := range [][2]state{{"packed", "shipped"}, {"paid", "shipped"}} {
		err := o.move(ctx, next, m[0], m[1])
		if err == nil || !strings.Contains(err.Error(), "a is paid") {
			t.Errorf("%v: %v", m, err)
		}
	}
}
