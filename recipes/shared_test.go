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

// TestWorkOfSharedReadersEndsInTime: that of one reader with its own release,
// its longest hold and the loss of its outer hold, while the others go on; that
// of all readers with the entry.
func TestWorkOfSharedReadersEndsInTime(t *testing.T) {
	sharing(t, func(w world) {
		long, err := recipes.NewQueue(w.a.client, "test", "queue", recipes.WithSharedTurns(),
			recipes.WithMaxHold(time.Minute))
		check(w, err)
		w.a.queue = long
		outer, err := recipes.NewQueue(w.b.client, "test", "outer")
		check(w, err)
		o, err := outer.Acquire(w.Context(), exclusive)
		check(w, err)
		type reader struct {
			*recipes.Hold
			work context.Context
		}
		reads := func(in context.Context) (r reader) {
			r.Hold = w.hold(w.a, in, sharedRead)
			var stop func()
			r.work, stop = r.Under(context.Background())
			w.Cleanup(stop)
			return r
		}
		alive := func(all ...reader) {
			w.Helper()
			for i, r := range all {
				if r.work.Err() != nil {
					w.Errorf("the work of reader %d has ended: %v", i, context.Cause(r.work))
				}
			}
		}
		ended := func(r reader, why error) {
			w.Helper()
			select { // at once, and not only when a clock is read
			case <-r.work.Done():
			default:
				w.Errorf("the work goes on after %v", why)
			}
			wantErr(w.T, context.Cause(r.work), why)
		}
		early := reads(w.Context())
		time.Sleep(time.Second)
		first, nested := reads(w.Context()), reads(o.Context())
		again := reads(first.Context())

		w.release(first.Hold)
		alive(early, first, nested, again) // again holds
		w.release(again.Hold)
		ended(first, coordinator.ErrReleased)
		ended(again, coordinator.ErrReleased)
		alive(early, nested)

		w.svc.Expire(o.Session())
		synctest.Wait()
		ended(nested, coordinator.ErrSessionLost)
		alive(early)
		_ = o.Release(w.Context())

		last := reads(w.Context())
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		ended(early, recipes.ErrHeldTooLong)
		alive(last)
		w.svc.Remove(name, last.Place().Key)
		synctest.Wait()
		ended(last, coordinator.ErrRemoved)
		for _, r := range []reader{early, nested, last} {
			wantErr(w.T, r.Release(w.Context()), coordinator.ErrRemoved)
		}
	})
}
