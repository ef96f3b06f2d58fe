package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// waits are calls that wait: for another state than a known version, or for an
// entry of another queue to leave.
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

func TestGivenUpWaitIsWithdrawn(t *testing.T) {
	for name := range waits(wired{}) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w wired) {
				wait := waits(w)[name]
				for range 3 {
					wantErr(t, wait(within(t, time.Second), 0), context.DeadlineExceeded)
				}
				wantWatches(t, w.svc, 0, "after some were given up")
				// Cut off, the withdrawal waits as everything does.
				done := start(func() error { return wait(within(t, time.Second), 0) })
				synctest.Wait()
				w.d.Cut()
				wantErr(t, <-done, context.DeadlineExceeded)
				wantWatches(t, w.svc, 1, "while the withdrawal is held")
				w.d.Heal()
				wantWatches(t, w.svc, 0, "after healing")
				// One that its own withdrawal has overtaken registers nothing.
				w.svc.OnRequest(func(memory.Request) memory.Fate { return memory.Fate{DelayRequest: 2 * time.Second} })
				wantErr(t, wait(within(t, time.Second), 0), context.DeadlineExceeded)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				wantWatches(t, w.svc, 0, "after a late request arrived")
			})
		})
	}
}

func TestWaitEndsWithServiceConnectionAndSession(t *testing.T) {
	for name := range waits(wired{}) {
		for _, x := range []struct {
			what string
			end  func(w wired)
			want error
		}{
			{"stop", func(w wired) { w.svc.Stop() }, driver.ErrUnavailable},
			{"reset", func(w wired) { w.d.Reset() }, driver.ErrUnavailable},
			{"strand", func(w wired) { w.d.Strand() }, driver.ErrUnavailable},
			{"driver closed", func(w wired) { _ = w.d.Close(context.Background()) }, driver.ErrUnavailable},
			{"expired", func(w wired) { w.svc.Expire(w.s.ID()) }, driver.ErrSessionLost},
		} {
			t.Run(name+"/"+x.what, func(t *testing.T) {
				bubble(t, func(t *testing.T, w wired) {
					done := start(func() error { return waits(w)[name](t.Context(), 0) })
					synctest.Wait()
					pending(t, done)
					wantWatches(t, w.svc, 1, "while it waits")
					x.end(w)
					wantErr(t, <-done, x.want)
					wantWatches(t, w.svc, 0, "afterwards")
					if n := w.svc.Stats().Wakeups; n != 0 {
						t.Errorf("%d wake-ups", n)
					}
				})
			})
		}
	}
}

func TestStatsCountHeadsAndRecords(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		other := open(t, w.svc.Driver())
		first, second := join(t, other), join(t, other)
		head, err := w.s.Head(t.Context(), queue, driver.Any) // answered at once: no wake-up
		must(t, err)
		heads := start(func() error { return waits(w)["Head"](t.Context(), head.Version) })
		records := start(func() error { return waits(w)["Record"](t.Context(), 0) })
		synctest.Wait()
		want := memory.Stats{Watches: 2, Sessions: 1, Requests: map[memory.Op]int{
			memory.OpOpen: 1, memory.OpHead: 2, memory.OpRecord: 1,
		}}
		wantStats(t, w.d.Stats(), want)

		// Others change what they like, and nobody is woken.
		must(t, other.Write(t.Context(), queue, second.Place, []byte("x")))
		_, err = other.Convert(t.Context(), queue, second, "r", nil)
		must(t, err)
		must(t, other.Leave(t.Context(), queue, join(t, other).Place))
		synctest.Wait()
		pending(t, heads)
		pending(t, records)
		wantStats(t, w.d.Stats(), want)

		must(t, other.Write(t.Context(), queue, first.Place, []byte("x")))
		must(t, <-heads)
		pending(t, records)
		_, err = other.SetRecord(t.Context(), queue, []byte("x"), 0)
		must(t, err)
		must(t, <-records)
		want.Watches, want.Wakeups = 0, 2
		wantStats(t, w.d.Stats(), want)
		all := w.svc.Stats().Requests
		for op, n := range map[memory.Op]int{memory.OpWrite: 2, memory.OpConvert: 1, memory.OpSetRecord: 1} {
			if all[op] != n {
				t.Errorf("%d requests %s, want %d", all[op], op, n)
			}
		}
	})
}

// TestHeadIsToldOnceWhenASessionEnds: all that a session has goes in one step, so nobody is shown one of its
// entries as the first because another has gone before it.
func TestHeadIsToldOnceWhenASessionEnds(t *testing.T) {
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

func TestForeignEntryIsAHead(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		var got driver.Head
		wait := func(known driver.Version) <-chan error {
			done := start(func() (err error) { got, err = w.s.Head(t.Context(), queue, known); return err })
			synctest.Wait()
			return done
		}
		done := wait(0)
		foreign := w.svc.AddForeign(queue)
		must(t, <-done)
		if got.Place != foreign || got.Version == 0 {
			t.Errorf("head %+v, want the foreign entry %+v", got, foreign)
		}
		wantErr(t, w.s.Write(t.Context(), queue, foreign, nil), driver.ErrGone)
		_, err := w.s.Convert(t.Context(), queue, driver.Joined{Place: foreign, Token: got.Token}, "r", nil)
		wantErr(t, err, driver.ErrGone)
		done = wait(got.Version)
		w.svc.Remove(queue, foreign.Key)
		must(t, <-done)
		if got.Version != 0 {
			t.Errorf("head %+v of an empty queue", got)
		}
	})
}

func TestRecordOutlivesAllButTheService(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		version, err := w.s.SetRecord(t.Context(), queue, []byte("limit"), 0)
		must(t, err)
		own := join(t, w.s)
		must(t, w.s.Leave(t.Context(), queue, own.Place))
		must(t, w.s.Close(t.Context()))
		must(t, w.d.Close(t.Context()))
		w.svc.Stop()
		w.svc.Start()
		if r := w.svc.Record(queue); r.Version != version || string(r.Value) != "limit" {
			t.Errorf("record %+v, want version %d", r, version)
		}
		if queues := w.svc.Queues(); len(queues) != 0 {
			t.Errorf("queues %v have entries", queues)
		}
	})
}

func TestRemovedRecordIsToldAndItsVersionDoesNotComeBack(t *testing.T) {
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
			t.Errorf("version %d came back", two)
		}
	})
}
