package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// TestLatestRecordChangesNothing: it sends a write that the service refuses,
// and an error of that write never may have been applied.
func TestLatestRecordChangesNothing(t *testing.T) {
	inWorld(t, func(w world) {
		cause := errors.New("gone")
		for _, value := range []string{"", "a"} {
			if value != "" {
				if err := w.a.queue.SetRecord(w.Context(), []byte(value), 0); err != nil {
					w.Fatal(err)
				}
			}
			for _, fate := range []memory.Fate{
				{}, {DropReply: true}, {DropRequest: true}, {Err: driver.ErrRefused},
			} {
				w.svc.OnRequest(memory.Once(memory.OpSetRecord, fate))
				before := w.svc.Record(name).Version
				r, err := w.a.queue.LatestRecord(w.Context())
				if err != nil || string(r.Value) != value || r.Version != before || w.svc.Record(name).Version != before {
					w.Errorf("%+v: %q of version %d, %v", fate, r.Value, r.Version, err)
				}
			}
			for _, op := range []memory.Op{memory.OpSetRecord, memory.OpRecord} {
				w.svc.OnRequest(memory.Once(op, memory.Fate{DelayReply: time.Minute}))
				ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, cause)
				_, err := w.a.queue.LatestRecord(ctx)
				cancel()
				if !errors.Is(err, cause) || coordinator.MayHaveApplied(err) {
					w.Errorf("%s: %v", op, err)
				}
			}
			w.a.link.Expire()
			synctest.Wait()
			if r, err := w.a.queue.LatestRecord(w.Context()); err != nil || string(r.Value) != value {
				w.Errorf("after a lost session: %q, %v", r.Value, err)
			}
		}
	})
}

// TestWaitsForTheRecordAndForAPlace end with the event, or with ctx and its
// cause, and leave no watch.
func TestWaitsForTheRecordAndForAPlace(t *testing.T) {
	inWorld(t, func(w world) {
		cause := errors.New("gone")
		h, err := w.b.queue.Acquire(w.Context(), recipes.Request{Op: "lock", Mode: "x"})
		if err != nil {
			w.Fatal(err)
		}
		waits := map[string]func(context.Context) error{
			"record": func(ctx context.Context) error { _, err := w.a.queue.NextRecord(ctx, 0); return err },
			"place":  func(ctx context.Context) error { return w.a.queue.AwaitGone(ctx, h.Place()) },
		}
		for what, wait := range waits {
			ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, cause)
			if err := wait(ctx); err != cause { //nolint:errorlint // unchanged
				w.Errorf("%s: %v", what, err)
			}
			cancel()
			synctest.Wait()
			if n := w.a.link.Stats().Watches; n != 0 {
				w.Errorf("%s: %d watches", what, n)
			}
		}
		ended := make(chan error, 2)
		for _, wait := range waits {
			go func() { ended <- wait(w.Context()) }()
		}
		synctest.Wait()
		w.a.link.Expire() // the waits go on in another session
		synctest.Wait()
		if err := w.b.queue.SetRecord(w.Context(), []byte("a"), 0); err != nil {
			w.Error(err)
		}
		if err := h.Release(w.Context()); err != nil {
			w.Error(err)
		}
		for range waits {
			if err := <-ended; err != nil {
				w.Error(err)
			}
		}
	})
}

// TestWaitForARecordSeesOneWithTheVersionOfTheLast: after a loss of data
// versions begin anew, so that another record may have the known version.
func TestWaitForARecordSeesOneWithTheVersionOfTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, empty := memory.NewService(), memory.NewService()
		d := &replaced{Driver: old.Driver()}
		d.now.Store(d.Driver)
		c, q := queueOn(t, d)
		other := newParty(t, empty)
		check(t, q.SetRecord(t.Context(), []byte("old"), 0))
		check(t, other.queue.SetRecord(t.Context(), []byte("new"), 0))
		known, err := q.Record(t.Context())
		check(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var r driver.Record
		done := start(func() (err error) {
			r, err = q.NextRecord(ctx, known.Version)
			return err
		})
		d.now.Store(empty.Driver())
		old.Expire(old.Sessions()[0])
		if err := <-done; err != nil || string(r.Value) != "new" || r.Version != known.Version {
			t.Errorf("the next record: %q, %v", r.Value, err)
		}
		check(t, c.Close(t.Context()))
		check(t, other.client.Close(t.Context()))
	})
}
