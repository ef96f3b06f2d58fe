package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// waits are blocking calls: for a state other than a known version, or for the
// removal of an entry of another queue.
func waits(w wired) map[string]func(ctx context.Context, known driver.Version) error {
	return map[string]func(context.Context, driver.Version) error{
		"Head": func(ctx context.Context, known driver.Version) error {
			_, err := w.s.Head(ctx, queue, known)
			return err
		},
		"Record": func(ctx context.Context, known driver.Version) error {
			_, err := w.s.Record(ctx, queue, known)
			return err
		},
		"Watch": func(ctx context.Context, _ driver.Version) error {
			return w.s.Watch(ctx, "m/other", w.svc.AddForeign("m/other"))
		},
	}
}

func wantWatches(t *testing.T, svc *memory.Service, n int, when string) {
	t.Helper()
	if got := svc.Stats().Watches; got != n {
		t.Errorf("%d watches %s, want %d", got, when, n)
	}
}

func TestCancelledWaitRemovesItsWatch(t *testing.T) {
	for name := range waits(wired{}) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w wired) {
				wait := waits(w)[name]
				for range 3 {
					wantErr(t, wait(within(t, time.Second), 0), context.DeadlineExceeded)
				}
				wantWatches(t, w.svc, 0, "after cancelled waits")
				// While the link is cut, the cancellation is held like any
				// request.
				done := start(func() error { return wait(within(t, time.Second), 0) })
				synctest.Wait()
				w.d.Cut()
				wantErr(t, <-done, context.DeadlineExceeded)
				wantWatches(t, w.svc, 1, "while the cancellation is held")
				w.d.Heal()
				wantWatches(t, w.svc, 0, "after healing")
				// A cancellation overtakes its request, which then registers
				// nothing.
				w.svc.OnRequest(func(memory.Request) memory.Fate { return memory.Fate{DelayRequest: 2 * time.Second} })
				wantErr(t, wait(within(t, time.Second), 0), context.DeadlineExceeded)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				wantWatches(t, w.svc, 0, "after a late request arrived")
			})
		})
	}
}

// TestHeadReturnsOnceWhenASessionEnds: all entries of a session leave in one
// step, so no later one of them is ever shown as the head.
func TestHeadReturnsOnceWhenASessionEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		dying := open(t, w.svc.Driver())
		for range 5 {
			join(t, dying)
		}
		own := join(t, w.s)
		known, err := w.s.Head(t.Context(), queue, driver.Any)
		must(t, err)
		var got driver.Head
		done := start(func() (err error) { got, err = w.s.Head(t.Context(), queue, known.Version); return err })
		synctest.Wait()
		w.svc.Expire(dying.ID())
		must(t, <-done)
		if got.Place != own.Place || w.svc.Stats().Wakeups != 1 {
			t.Errorf("head %+v after %d wake-ups, want %+v after one", got.Place, w.svc.Stats().Wakeups, own.Place)
		}
	})
}

func TestRemovedRecordWakesAndItsVersionIsNotReused(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		if w.svc.RemoveRecord(queue) {
			t.Error("removed a record that is not there")
		}
		one, err := w.s.SetRecord(t.Context(), queue, []byte("one"), 0)
		must(t, err)
		var got driver.Record
		done := start(func() (err error) { got, err = w.s.Record(t.Context(), queue, one); return err })
		synctest.Wait()
		if !w.svc.RemoveRecord(queue) {
			t.Error("did not remove the record")
		}
		must(t, <-done)
		if got.Version != 0 || got.Value != nil {
			t.Errorf("record %+v, want none", got)
		}
		_, err = w.s.SetRecord(t.Context(), queue, []byte("two"), one)
		wantErr(t, err, driver.ErrStale)
		two, err := w.s.SetRecord(t.Context(), queue, []byte("two"), 0)
		must(t, err)
		if two == one {
			t.Errorf("version %d was reused", two)
		}
	})
}
