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

func try(r recipes.Request) recipes.Request { r.Try = true; return r }

func TestRequestsAndQueuesThatBreakARuleAreRefused(t *testing.T) {
	inWorld(t, func(w world) {
		for _, r := range []recipes.Request{
			{Op: "x", Mode: "x"}, {Op: "x", Rule: recipes.Exclusive},
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

// TestHoldIsAcquiredIntoOnce: a Hold that holds is not overwritten, nor one
// that did; one whose acquiring failed can be used again.
func TestHoldIsAcquiredIntoOnce(t *testing.T) {
	inWorld(t, func(w world) {
		var first, second recipes.Hold
		wantErr(t, w.a.queue.AcquireInto(w.Context(), &first, write))
		token := first.Token()
		for range 2 {
			for _, ctx := range []context.Context{w.Context(), first.Context()} {
				wantErr(t, w.a.queue.AcquireInto(ctx, &first, write), coordinator.ErrInvalid)
			}
			if first.Token() != token {
				t.Errorf("token %d, was %d", first.Token(), token)
			}
			wantErr(t, w.b.queue.AcquireInto(w.Context(), &second, try(write)),
				coordinator.ErrTaken)
			wantErr(t, w.b.queue.AcquireInto(w.bounded(time.Second), &second, write),
				context.DeadlineExceeded)
			if _, err := w.b.queue.Acquire(w.Context(), try(write)); !errors.Is(err,
				coordinator.ErrTaken) {
				t.Errorf("%v while it is held", err)
			}
		}
		w.release(&first)
		wantErr(t, w.a.queue.AcquireInto(w.Context(), &first, write), coordinator.ErrInvalid)
		wantErr(t, w.a.queue.AcquireInto(w.Context(), nil, write), coordinator.ErrInvalid)
		wantErr(t, w.b.queue.AcquireInto(w.Context(), &second, write))
		w.release(&second)
	})
}

// TestReenteringAllocatesTheHandleAlone: each handle can be released once, and
// says so for as long as its owner keeps it. So there is one for each re-entry,
// and nothing else.
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
		if n != 1 {
			t.Errorf("%s: re-entering and leaving allocates %v times, want 1", what, n)
		}
	}
	if err := errors.Join(locked.Unlock(ctx), reading.Unlock(ctx)); err != nil {
		t.Error(err)
	}
}
