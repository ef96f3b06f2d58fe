package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
)

func inMemory(t *testing.T) config {
	return config{url: fleet.InMemory, dir: t.TempDir(), orders: 6, stop: 3, work: 100 * time.Millisecond}
}

// TestOrdersAreMovedByOneWorkerAtATime, although one of them is stopped in the middle of a move.
func TestOrdersAreMovedByOneWorkerAtATime(t *testing.T) {
	for _, c := range []struct{ workers, stop, asked int }{
		{1, 0, 6},
		{3, 1, 7}, // the payment that the first worker asked for is asked for again, by another one
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) { play(t, c.workers, c.stop, c.asked) })
	}
}

func play(t *testing.T, workers, stop, asked int) {
	c := inMemory(t)
	c.workers, c.stop = workers, stop
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out, c); err != nil {
			t.Errorf("%v\n%s", err, &out)
		}
		want := fmt.Sprintf("6 of 6 orders are shipped, in 22 moves; %d payments were asked for and 6 made", asked) // two are packed twice
		if strings.Contains(out.String(), "comes late to order-") != (stop > 0) || !strings.Contains(out.String(), want) {
			t.Errorf("want %q:\n%s", want, &out)
		}
	})
	for n := range c.orders {
		o, err := records.Read[order](records.Store(c.dir), key(n+1))
		if err != nil {
			t.Fatal(err)
		}
		at, token := newState, o.Moves[0].Token
		for _, m := range o.Moves {
			if m.From != at || m.Token < token {
				t.Errorf("%s: %v", key(n+1), o.Moves)
			}
			at, token = m.To, m.Token
		}
	}
}

// TestStateThatCameAgainDoesNotAdmitTheLate: the order is as the late worker saw it, and has been elsewhere.
func TestStateThatCameAgainDoesNotAdmitTheLate(t *testing.T) {
	book := records.Store(t.TempDir())
	scope := fence.Scope{Service: "0123456789abcdef0123456789abcdef", Kind: "mutex", Name: "orders/order-1"}
	late, next := fence.Sequencer{Scope: scope, Token: 5, Key: "a"}, fence.Sequencer{Scope: scope, Token: 9, Key: "b"}
	if err := advance(book, 1, late, move{From: newState, To: paidState}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []move{{From: paidState, To: packedState}, {From: packedState, To: paidState}} {
		if err := advance(book, 1, next, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := advance(book, 1, late, move{From: paidState, To: packedState}); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late one: %v", err)
	}
	if _, err := look(book, 1, late); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late one looks: %v", err)
	}
	for _, m := range []move{{From: packedState, To: shippedState}, {From: paidState, To: shippedState}} {
		if err := advance(book, 1, next, m); err == nil || !strings.Contains(err.Error(), "order-1 is paid") {
			t.Errorf("%v: %v", m, err)
		}
	}
}

func TestToldToStopIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		c := inMemory(t)
		c.stop = 0
		began := time.Now()
		if err := run(ctx, io.Discard, c); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestBadFlagsAreTold(t *testing.T) {
	for want, change := range map[string]func(*config){
		"-orders 0: must be at least 1":   func(c *config) { c.orders = 0 },
		"-workers -1: must be at least 0": func(c *config) { c.workers = -1 },
		"-stop -1: must be at least 0":    func(c *config) { c.stop = -1 },
		"-work 0s: must be positive":      func(c *config) { c.work = 0 },
		"redis":                           func(c *config) { c.url = "redis://here" },
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			c := inMemory(t)
			change(&c)
			if err := run(t.Context(), &out, c); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
				t.Errorf("run = %v, want %q; output:\n%s", err, want, &out)
			}
		})
	}
}
