package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// overtime runs a test on a queue with options.
func overtime(t *testing.T, opts []recipes.Option,
	f func(w world, seen *memory.Tally, log *bytes.Buffer)) {
	t.Helper()
	var seen memory.Tally
	var log bytes.Buffer
	inWorld(t, func(w world) {
		var err error
		if w.a.queue, err = recipes.NewQueue(w.a.client, "test", "queue", opts...); err != nil {
			t.Fatal(err)
		}
		f(w, &seen, &log)
	}, coordinator.WithObserver(&seen),
		coordinator.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
}

func TestLongHoldIsReportedOnce(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithHoldWarning(time.Minute)},
		func(w world, seen *memory.Tally, log *bytes.Buffer) {
			for range 3 { // short holds
				h := w.hold(w.a, w.Context(), write)
				time.Sleep(59 * time.Second)
				w.release(h)
			}
			if time.Sleep(time.Hour); seen.Count(event.HeldLong) != 0 || log.Len() != 0 {
				w.Fatalf("short holds were logged: %s", log)
			}
			h := w.hold(w.a, w.Context(), write)
			again := w.hold(w.a, h.Context(), write)
			w.release(h)
			time.Sleep(time.Hour)
			wantErr(w.T, again.Context().Err())
			if n, out := seen.Count(event.HeldLong), log.String(); n != 1 ||
				strings.Count(out, `level=WARN msg="baton: hold lasts long"`) != 1 ||
				!strings.Contains(out, "held=1m0s") || !strings.Contains(out, "queue=test/queue") {
				w.Errorf("observed %d times; log: %s", n, out)
			}
			w.release(again)
			all := seen.Events()
			if e := all[len(all)-1]; e.Kind != event.Released || !e.Long {
				w.Errorf("the release was observed as %+v", e)
			}
			if seen.Count(event.HeldTooLong) != 0 {
				w.Error("observed as too long")
			}
		})
}

// TestLongestHoldEndsTheContextAndNothingElse: others still wait, the release
// works, and the context of a re-entry has ended too.
func TestLongestHoldEndsTheContextAndNothingElse(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Minute),
		recipes.WithHoldWarning(time.Second)},
		func(w world, seen *memory.Tally, log *bytes.Buffer) {
			h := w.hold(w.a, w.Context(), lesser())
			began := time.Now()
			<-h.Context().Done()
			if d := time.Since(began); d != time.Minute ||
				!errors.Is(context.Cause(h.Context()), recipes.ErrHeldTooLong) {
				w.Errorf("ended after %v, because %v", d, context.Cause(h.Context()))
			}
			synctest.Wait()
			wantErr(w.T, h.Err())
			wantErr(w.T, h.Write(w.Context(), []byte("late")))
			if _, err := w.b.queue.Acquire(w.bounded(time.Minute), write); !errors.Is(err,
				context.DeadlineExceeded) {
				w.Errorf("another contender got the name: %v", err)
			}
			if _, err := w.a.queue.Acquire(h.Context(), write); !errors.Is(err,
				recipes.ErrHeldTooLong) {
				w.Errorf("re-entered with a context that has ended: %v", err)
			}
			reader := w.hold(w.a, context.WithoutCancel(h.Context()), read)
			if !errors.Is(context.Cause(reader.Context()), recipes.ErrHeldTooLong) {
				w.Error("a later re-entry has not ended")
			}
			if long, tooLong := seen.Count(event.HeldLong),
				seen.Count(event.HeldTooLong); long != 1 || tooLong != 1 ||
				!strings.Contains(log.String(), "hold lasts too long; its context was ended") {
				w.Errorf("observed %d and %d times; log: %s", long, tooLong, log)
			}
			w.release(h)
			w.release(reader)
			synctest.Wait()
			w.wantModes("")
		})
}

// TestWorkThatRanTooLongWasProtected: Do returns the error of the work.
func TestWorkThatRanTooLongWasProtected(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Second)},
		func(w world, seen *memory.Tally, _ *bytes.Buffer) {
			err := w.hold(w.a, w.Context(), write).Do(w.Context(), "unlock",
				func(ctx context.Context) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
			if err != recipes.ErrHeldTooLong { //nolint:errorlint // unwrapped
				w.Errorf("Do = %v", err)
			}
			synctest.Wait() // the context ends before observers are notified
			if seen.Count(event.Released) != 1 || seen.Count(event.HeldLong) != 1 {
				w.Errorf("observed %v", seen.Events())
			}
		})
}

// TestWriteIsOneAtATimeAfterTheLongestHold: the end of the hold's context does
// not let concurrent writes overlap.
func TestWriteIsOneAtATimeAfterTheLongestHold(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Second)},
		func(w world, _ *memory.Tally, _ *bytes.Buffer) {
			h := w.hold(w.a, w.Context(), write)
			<-h.Context().Done()
			var under, most atomic.Int32
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op != memory.OpWrite {
					return memory.Fate{}
				}
				if n := under.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.AfterFunc(time.Second-1, func() { under.Add(-1) })
				return memory.Fate{DelayReply: time.Second}
			})
			done := make(chan error, 5)
			for range 5 {
				go func() { done <- h.Write(context.Background(), nil) }()
			}
			for range 5 {
				wantErr(w.T, <-done)
			}
			if n := most.Load(); n != 1 {
				w.Errorf("%d writes at once", n)
			}
			w.release(h)
		})
}

func TestLostHoldIsNotReportedAsLong(t *testing.T) {
	overtime(t, []recipes.Option{recipes.WithMaxHold(time.Minute)},
		func(w world, seen *memory.Tally, _ *bytes.Buffer) {
			h := w.hold(w.a, w.Context(), write)
			w.svc.Expire(h.Session())
			time.Sleep(time.Hour)
			if seen.Count(event.HeldLong) != 0 || seen.Count(event.Lost) != 1 ||
				!errors.Is(context.Cause(h.Context()), coordinator.ErrSessionLost) {
				w.Errorf("observed %v", seen.Events())
			}
		})
}

// TestEachRecipeReportsLongHolds with the options that it has.
func TestEachRecipeReportsLongHolds(t *testing.T) {
	var seen memory.Tally
	inWorld(t, func(w world) {
		ctx, c := w.Context(), w.a.client
		const warn, longest = time.Minute, time.Hour
		m, err := mutex.New(c, "n", mutex.WithHoldWarning(warn), mutex.WithMaxHold(longest))
		wantErr(w.T, err)
		rw, err := rwlock.New(c, "n", rwlock.WithHoldWarning(warn), rwlock.WithMaxHold(longest))
		wantErr(w.T, err)
		s, err := semaphore.New(c, "n", 2, semaphore.WithHoldWarning(warn),
			semaphore.WithMaxHold(longest))
		wantErr(w.T, err)
		e, err := election.New(c, "n", election.WithHoldWarning(warn))
		wantErr(w.T, err)
		lock, err := m.Lock(ctx)
		wantErr(w.T, err)
		read, err := rw.RLock(ctx)
		wantErr(w.T, err)
		permit, err := s.Acquire(ctx, 1)
		wantErr(w.T, err)
		term, err := e.Campaign(ctx, nil)
		wantErr(w.T, err)
		time.Sleep(warn)
		synctest.Wait()
		observed := map[string]int{}
		for _, e := range seen.Events() {
			if e.Kind == event.HeldLong {
				observed[string(e.Queue)]++
			}
		}
		if want := map[string]int{"mutex/n": 1, "rwlock/n": 1, "semaphore/n": 1,
			"election/n": 1}; !maps.Equal(observed, want) {
			w.Errorf("observed %v", observed)
		}
		time.Sleep(longest)
		synctest.Wait()
		for _, held := range []context.Context{lock.Context(), read.Context(), permit.Context()} {
			wantErr(w.T, context.Cause(held), recipes.ErrHeldTooLong)
		}
		wantErr(w.T, term.Context().Err())
		for _, release := range []func(context.Context) error{lock.Unlock, read.Unlock,
			permit.Release, term.Resign} {
			wantErr(w.T, release(ctx))
		}
		w.svc.RemoveRecord("semaphore/n")
	}, coordinator.WithObserver(&seen))
}

// TestCloseWaitsForTheObserverOfALongHold: after Close nothing is logged or
// observed.
func TestCloseWaitsForTheObserverOfALongHold(t *testing.T) {
	var observed atomic.Bool
	slow := event.ObserverFunc(func(e event.Event) {
		if e.Kind == event.HeldLong {
			time.Sleep(time.Second)
			observed.Store(true)
		}
	})
	inWorld(t, func(w world) {
		queue, err := recipes.NewQueue(w.a.client, "test", "queue",
			recipes.WithHoldWarning(time.Minute))
		wantErr(w.T, err)
		_, err = queue.Acquire(w.Context(), write)
		check(w, err)
		time.Sleep(time.Minute)
		synctest.Wait() // the observer runs
		wantErr(w.T, w.a.client.Close(w.Context()))
		if !observed.Load() {
			w.Error("Close has returned, and the observer has not")
		}
	}, coordinator.WithObserver(slow))
}

func TestTimeToHoldIsChecked(t *testing.T) {
	inWorld(t, func(w world) {
		for d, ok := range map[time.Duration]bool{-1: false, time.Microsecond: false, 0: true,
			time.Millisecond: true, 24 * time.Hour: true} {
			for what, o := range map[string]recipes.Option{
				"hold warning after": recipes.WithHoldWarning(d),
				"longest hold":       recipes.WithMaxHold(d)} {
				_, err := recipes.NewQueue(w.a.client, "test", "queue", o)
				if (err == nil) != ok {
					w.Errorf("%v: %v", d, err)
				}
				if err != nil && (!errors.Is(err, coordinator.ErrInvalid) ||
					!strings.Contains(err.Error(), what) ||
					!strings.Contains(err.Error(), d.String())) {
					w.Errorf("error %v", err)
				}
			}
		}
	})
}
