package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
)

// shared runs a test with a queue of readers and writers on two clients.
func shared(t *testing.T, f func(t *testing.T, a, b *recipes.Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		var queues [2]*recipes.Queue
		for i := range queues {
			c, err := coordinator.New(svc.Driver(), quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			if queues[i], err = recipes.NewQueue(c, "test", "queue"); err != nil {
				t.Fatal(err)
			}
		}
		f(t, queues[0], queues[1])
	})
}

var (
	read  = recipes.Request{Op: "read", Mode: "r", Rule: recipes.Shared("r")}
	write = recipes.Request{Op: "write", Mode: "w", Rule: recipes.Exclusive}
)

func try(r recipes.Request) recipes.Request { r.Try = true; return r }

// TestHoldIsNotReenteredInAnotherMode: a reader that wants to write would wait for itself, or
// worse, be taken for a writer.
func TestHoldIsNotReenteredInAnotherMode(t *testing.T) {
	shared(t, func(t *testing.T, a, _ *recipes.Queue) {
		h, err := a.Acquire(t.Context(), read)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Acquire(h.Context(), write); !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("write within read = %v", err)
		}
		inner, err := a.Acquire(h.Context(), read)
		if err != nil || inner.Token() != h.Token() {
			t.Errorf("read within read = %v, %v", inner, err)
		}
	})
}

// TestTryOnASharedQueueLooksBeforeItJoins: what would not be admitted is not written at all.
func TestTryOnASharedQueueLooksBeforeItJoins(t *testing.T) {
	shared(t, func(t *testing.T, a, b *recipes.Queue) {
		r1, err := a.Acquire(t.Context(), try(read))
		if err != nil {
			t.Fatal(err)
		}
		r2, err := b.Acquire(t.Context(), try(read))
		if err != nil {
			t.Fatal(err)
		}
		var taken *recipes.TakenError
		if _, err := b.Acquire(t.Context(), try(write)); !errors.As(err, &taken) {
			t.Errorf("write beside readers = %v", err)
		}
		for _, h := range []*recipes.Hold{r1, r2} {
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		w, err := b.Acquire(t.Context(), try(write))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Acquire(t.Context(), try(read)); !errors.Is(err, coordinator.ErrTaken) {
			t.Errorf("read beside a writer = %v", err)
		}
		if err := w.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRequestsAndQueuesThatBreakARuleAreRefused(t *testing.T) {
	shared(t, func(t *testing.T, a, _ *recipes.Queue) {
		for _, r := range []recipes.Request{
			{Op: "x", Rule: recipes.Exclusive},
			{Op: "x", Mode: "x", Rule: recipes.Exclusive, Terms: terms("1", nil)},
		} {
			if _, err := a.Acquire(t.Context(), r); !errors.Is(err, coordinator.ErrInvalid) {
				t.Errorf("Acquire(%+v) = %v", r, err)
			}
		}
	})
	c, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"", "a/b", "..", "A"} {
		if _, err := recipes.NewQueue(c, kind, "name"); !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("NewQueue of kind %q = %v", kind, err)
		}
	}
}

// TestReenteringAllocatesTheHandleAlone: each handle can be released once, and says so for as long as its owner keeps it. So there is
// one for each re-entry, the recipe's and the hold in it, and nothing else.
func TestReenteringAllocatesTheHandleAlone(t *testing.T) {
	c, err := coordinator.New(memory.NewService().Driver(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	ctx := context.Background()
	m, err := mutex.New(c, "m")
	if err != nil {
		t.Fatal(err)
	}
	rw, err := rwlock.New(c, "rw")
	if err != nil {
		t.Fatal(err)
	}
	locked, err := m.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := rw.RLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string]func() error{
		"mutex": func() error {
			l, err := m.Lock(locked.Context())
			if err != nil {
				return err
			}
			return l.Unlock(ctx)
		},
		"rwlock": func() error {
			l, err := rw.RLock(reading.Context())
			if err != nil {
				return err
			}
			return l.Unlock(ctx)
		},
	} {
		n := testing.AllocsPerRun(200, func() {
			if err := pair(); err != nil {
				t.Error(err)
			}
		})
		if n != 2 {
			t.Errorf("%s: re-entering and leaving allocates %v times, want 2", what, n)
		}
	}
	if err := errors.Join(locked.Unlock(ctx), reading.Unlock(ctx)); err != nil {
		t.Error(err)
	}
}
