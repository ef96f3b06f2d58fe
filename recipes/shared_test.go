package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// sharedRead is a request of a reader that shares.
var sharedRead = recipes.Request{Op: "read-lock", Mode: "r", Rule: recipes.Shared("r"), Shares: true}

// sharing runs a test with queues whose readers share.
func sharing(t *testing.T, f func(w world), opts ...coordinator.Option) {
	t.Helper()
	inWorld(t, func(w world) {
		for _, p := range []*party{&w.a, &w.b} {
			var err error
			p.queue, err = recipes.NewQueue(p.client, "test", "queue", recipes.WithSharedTurns())
			check(w, err)
		}
		f(w)
	}, opts...)
}

// TestEntryThatCallersShareIsNotChanged: what one of them changed would be the
// mode or the payload of the others.
func TestEntryThatCallersShareIsNotChanged(t *testing.T) {
	sharing(t, func(w world) {
		h := w.hold(w.a, w.Context(), sharedRead)
		wantErr(w.T, h.Write(w.Context(), []byte("mine")), coordinator.ErrInvalid)
		wantErr(w.T, h.Convert(w.Context(), "s"), coordinator.ErrInvalid)
		wantErr(w.T, h.Err())
		w.wantModes("r")
		w.release(h)
	})
}

// TestRequestsThatDifferHaveTheirOwnEntries: a payload, or another mode.
func TestRequestsThatDifferHaveTheirOwnEntries(t *testing.T) {
	sharing(t, func(w world) {
		named, other, own := sharedRead, sharedRead, sharedRead
		named.Payload, other.Mode, own.Shares = []byte("mine"), "s", false
		other.Rule = recipes.Shared("s")
		all := []*recipes.Hold{w.hold(w.a, w.Context(), sharedRead), w.hold(w.a, w.Context(), sharedRead)}
		for _, r := range []recipes.Request{named, own, sharedRead} {
			all = append(all, w.hold(w.a, w.Context(), r))
		}
		w.wantModes("rrr")
		for _, h := range all {
			w.release(h)
		}
		w.release(w.hold(w.a, w.Context(), other))
	})
}

func TestSharingIsCheckedAndRefused(t *testing.T) {
	inWorld(t, func(w world) {
		_, err := recipes.NewQueue(w.a.client, "test", "queue", recipes.WithSharedTurns(),
			recipes.WithRetain(time.Second))
		wantErr(w.T, err, coordinator.ErrInvalid)
		for _, r := range []recipes.Request{
			{Op: "lock", Mode: "w", Shares: true},
			{Op: "lock", Mode: "r", Rule: sharedRead.Rule, Lesser: "s", Shares: true},
		} {
			_, err := w.a.queue.Acquire(w.Context(), r)
			wantErr(w.T, err, coordinator.ErrInvalid)
		}
	})
}

// TestObserversGetEachReaderOfATurn: one event ends the one entry that has
// joined, and each grant has a release or a loss.
func TestObserversGetEachReaderOfATurn(t *testing.T) {
	tally := new(memory.Tally)
	sharing(t, func(w world) {
		one, two := w.hold(w.a, w.Context(), sharedRead), w.hold(w.a, w.Context(), sharedRead)
		w.release(one)
		w.release(two)
		h := w.hold(w.b, w.Context(), exclusive)
		ctx, cancel := context.WithCancel(w.Context())
		failed := make(chan error, 3)
		for range 3 {
			go func() { _, err := w.a.queue.Acquire(ctx, sharedRead); failed <- err }()
			synctest.Wait()
		}
		cancel()
		for range 3 {
			wantErr(w.T, <-failed, context.Canceled)
		}
		w.release(h)
		synctest.Wait()
	}, coordinator.WithObserver(tally))
	joined, ended, local := 0, 0, 0
	for _, e := range tally.Events() {
		switch {
		case e.Kind == event.Joined:
			joined++
		case e.Kind == event.NotGranted && e.Token != 0, e.Kind == event.Granted && !e.Local:
			ended++
		case e.Local && e.Kind == event.Granted:
			local++
		case e.Local && e.Kind == event.Released:
			local--
		}
	}
	if n := tally.Count(event.NotGranted); joined != 2 || ended != 2 || local != 0 || n != 3 {
		t.Errorf("%d joined, %d ended, %d local grants too many, %d not granted", joined, ended, local, n)
	}
	if g, r := tally.Count(event.Granted), tally.Count(event.Released); g != 2 || r != 2 {
		t.Errorf("%d granted, %d released", g, r)
	}
}
