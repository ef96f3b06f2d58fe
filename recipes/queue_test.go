package recipes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
)

var (
	read  = recipes.Request{Op: "read", Mode: "r", Rule: recipes.Shared("r")}
	write = recipes.Request{Op: "write", Mode: "w", Rule: recipes.Exclusive}
)

func TestRequestsAndQueuesThatBreakARuleAreRefused(t *testing.T) {
	inWorld(t, func(w world) {
		for _, r := range []recipes.Request{
			{Op: "x", Rule: recipes.Exclusive},
			{Op: "x", Mode: "x", Rule: recipes.Exclusive, Terms: terms("1", nil)},
		} {
			_, err := w.a.queue.Acquire(w.Context(), r)
			wantErr(w.T, err, coordinator.ErrInvalid)
		}
		for _, kind := range []string{"", "a/b", "..", "A"} {
			_, err := recipes.NewQueue(w.a.client, kind, "name")
			wantErr(w.T, err, coordinator.ErrInvalid)
		}
	})
}

// TestReenteringAllocatesTheHandleAlone: a handle can be released once, so each
// re-entry needs another: the recipe's handle and its hold, and nothing else.
func TestReenteringAllocatesTheHandleAlone(t *testing.T) {
	c, err := coordinator.New(memory.NewService().Driver(), quiet)
	check(t, err)
	defer c.Close(context.Background())
	ctx := context.Background()
	m, err := mutex.New(c, "m")
	check(t, err)
	rw, err := rwlock.New(c, "rw")
	check(t, err)
	locked, err := m.Lock(ctx)
	check(t, err)
	reading, err := rw.RLock(ctx)
	check(t, err)
	for what, pair := range map[string]func(){
		"mutex": func() {
			l, err := m.Lock(locked.Context())
			check(t, err)
			check(t, l.Unlock(ctx))
		},
		"rwlock": func() {
			l, err := rw.RLock(reading.Context())
			check(t, err)
			check(t, l.Unlock(ctx))
		},
	} {
		n := testing.AllocsPerRun(5000, pair) // renewals allocate, too
		if n != 2 {
			t.Errorf("%s: re-entering and leaving allocates %v times, want 2", what, n)
		}
	}
	check(t, errors.Join(locked.Unlock(ctx), reading.Unlock(ctx)))
}

// TestRelockOfAKeptTurnAllocatesTwoObjects: the recipe's handle, and the call
// with its hold. Nothing is allocated for a context that nobody asks for, nor
// for a request that is not sent, also with a context that can end.
func TestRelockOfAKeptTurnAllocatesTwoObjects(t *testing.T) {
	c, err := coordinator.New(memory.NewService().Driver(), quiet)
	check(t, err)
	defer c.Close(context.Background())
	m, err := mutex.New(c, "m", mutex.WithRetain(time.Hour))
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pair := func() {
		l, err := m.Lock(ctx)
		check(t, err)
		check(t, l.Unlock(ctx))
	}
	pair() // its first turn
	if n := testing.AllocsPerRun(1000, pair); n != 2 {
		t.Errorf("locking again and unlocking allocates %v times, want 2", n)
	}
}
