package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/once"
)

var (
	errGone = errors.New("gone")
	errWork = errors.New("the work failed")
)

// TestShortJobRunsOncePerKey although each replica comes when the run of the
// others has long ended.
func TestShortJobRunsOncePerKey(t *testing.T) {
	inWorld(t, func(w world) {
		a, b, c := w.join(), w.join(), w.join()
		for _, key := range []string{"mon", "tue"} {
			for _, p := range []*party{a, b, c} {
				w.is("Do", p.do(key), nil)
				time.Sleep(time.Second)
			}
		}
		w.called("mon", "tue")
		a.shows("mon", "tue")
	})
}

// TestReplicasThatCallTogetherWaitForTheRun, and take no part in it.
func TestReplicasThatCallTogetherWaitForTheRun(t *testing.T) {
	inWorld(t, func(w world) {
		a, b, c := w.join(), w.join(), w.join()
		a.lasts = time.Minute
		first := a.starts(w.Context(), "mon")
		second, third := b.starts(w.Context(), "mon"), c.starts(w.Context(), "mon")
		time.Sleep(30 * time.Second)
		if len(second)+len(third) > 0 {
			w.Error("a call returned before the run was complete")
		}
		time.Sleep(31 * time.Second)
		for _, done := range []<-chan error{first, second, third} {
			w.is("Do", <-done, nil)
		}
		w.called("mon")
	})
}

// TestRunsOfANameDoNotOverlap: a run that is due waits for one that is late.
func TestRunsOfANameDoNotOverlap(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		a.lasts = time.Minute
		first := a.starts(w.Context(), "mon")
		second := b.starts(w.Context(), "tue")
		time.Sleep(59 * time.Second)
		w.called("mon")
		w.is("TryDo", b.TryDo(w.Context(), "wed", b.work("wed")), coordinator.ErrTaken)
		w.is("first", <-first, nil)
		w.is("second", <-second, nil)
		w.called("mon", "tue")
		if calls := *w.calls; calls[1].token <= calls[0].token {
			w.Errorf("token %d after %d", calls[1].token, calls[0].token)
		}
	})
}

func TestWorkGetsItsHold(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		var held *once.Hold
		w.is("Do", a.Do(w.Context(), "mon", func(ctx context.Context, h *once.Hold) error {
			seq, err := h.Sequencer(ctx)
			w.is("sequencer", err, nil)
			w.is("check", a.client.Check(ctx, seq), nil)
			if h.Token() == 0 || seq.Token != h.Token() || h.Err() != nil {
				w.Errorf("token %d, sequencer %v, %v", h.Token(), seq, h.Err())
			}
			held = h
			return nil
		}), nil)
		w.is("afterwards", held.Err(), coordinator.ErrReleased)
		_, err := held.Sequencer(w.Context())
		w.is("sequencer afterwards", err, coordinator.ErrReleased)
		runs, err := a.Runs(w.Context())
		if w.is("runs", err, nil); len(runs) != 1 || runs[0].Token != held.Token() {
			w.Errorf("%v, want token %d", runs, held.Token())
		}
	})
}

// TestRunThatDoesNotComplete is over for all, or is repeated by the next caller
// WithRepeat: after an error, a panic, and the death of the process, for which
// others wait.
func TestRunThatDoesNotComplete(t *testing.T) {
	for name, interrupt := range map[string]func(a *party){
		"error": func(a *party) {
			a.fails = errWork
			a.is("Do", a.do("mon"), errWork)
		},
		"panic": func(a *party) {
			defer func() { _ = recover() }()
			_ = a.Do(a.Context(), "mon", func(_ context.Context, h *once.Hold) error {
				_ = a.work("mon")(a.Context(), h)
				panic("the work")
			})
		},
		"context": func(a *party) {
			ctx, cancel := context.WithTimeoutCause(a.Context(), time.Second, errGone)
			defer cancel()
			a.lasts = time.Minute
			a.is("Do", a.Do(ctx, "mon", a.work("mon")), errGone)
		},
		"death": func(a *party) {
			a.lasts = time.Hour
			a.starts(a.Context(), "mon")
			a.link.Cut()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w world) {
				a, b, c := w.join(), w.join(), w.join()
				interrupt(a)
				second, third := b.starts(w.Context(), "mon"), c.starts(w.Context(), "mon")
				time.Sleep(2 * ttl)
				w.incomplete("second", <-second)
				w.incomplete("third", <-third)
				w.called("mon")
				a.link.Heal()
				b.shows("mon?")
				w.is("the next key", b.do("tue"), nil)
			})
			inWorld(t, func(w world) {
				a, b, c := w.join(once.WithRepeat()), w.join(once.WithRepeat()), w.join(once.WithRepeat())
				interrupt(a)
				second, third := b.starts(w.Context(), "mon"), c.starts(w.Context(), "mon")
				time.Sleep(2 * ttl)
				w.is("second", <-second, nil)
				w.is("third", <-third, nil)
				w.called("mon", "mon")
				a.link.Heal()
				b.shows("mon")
			})
		})
	}
}

// TestIncompleteErrorNamesTheRun.
func TestIncompleteErrorNamesTheRun(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(once.WithIdentity("web-1")), w.join()
		a.fails = errWork
		w.is("Do", a.do("mon"), errWork)
		err := b.do("mon")
		i, ok := errors.AsType[*once.IncompleteError](err)
		if !ok || i.Name != "job" || i.Key != "mon" || i.Identity != "web-1" || i.Token != (*w.calls)[0].token ||
			!i.Began.Equal(time.Now()) || !i.Ended.IsZero() {
			w.Fatalf("%+v of %v", i, err)
		}
		want := fmt.Sprintf(`baton: do "job": the run of "mon" that web-1 began at 2000-01-01T00:00:00Z, with token %d, is over and not complete`, i.Token)
		if err.Error() != want {
			w.Errorf("%q, want %q", err, want)
		}
	})
}

// TestRequestLostAtAnyStep: the reply to each request of a run is lost, or the
// request, or it arrives late. The work is called once, Do returns nil, and the
// run is complete.
func TestRequestLostAtAnyStep(t *testing.T) {
	for _, op := range []memory.Op{memory.OpSetRecord, memory.OpRecord, memory.OpJoin} {
		for _, fate := range []memory.Fate{{DropReply: true}, {DropRequest: true},
			{DropReply: true, DelayRequest: time.Second}, {DelayRequest: 3 * time.Second}} {
			for i := range 3 {
				inWorld(t, func(w world) {
					a, b := w.join(), w.join()
					w.is("Do", a.do("sun"), nil)
					w.svc.OnRequest(nth(i, op, fate))
					a.lasts = time.Second
					w.is(fmt.Sprintf("%v %d %+v", op, i, fate), a.do("mon"), nil)
					w.svc.OnRequest(nil)
					w.is("Do", b.do("mon"), nil)
					w.called("sun", "mon")
					a.shows("sun", "mon")
				})
			}
		}
	}
}

// TestCancelledBeforeTheWork at any moment: the work is called by nobody, and
// the key is free for the next caller, unless the service cannot be reached.
func TestCancelledBeforeTheWork(t *testing.T) {
	for ms := range 24 {
		inWorld(t, func(w world) {
			a, b := w.join(), w.join()
			w.is("Do", a.do("sun"), nil)
			a.link.Delay(2*time.Millisecond, 2*time.Millisecond)
			ctx, cancel := context.WithTimeoutCause(w.Context(), time.Duration(ms)*time.Millisecond, errGone)
			defer cancel()
			err := a.Do(ctx, "mon", a.work("mon"))
			if len(*w.calls) == 2 { // it came that far
				w.is("Do", err, nil)
				return
			}
			w.is("cancelled", err, errGone)
			time.Sleep(time.Second)
			w.is("Do", b.do("mon"), nil)
			w.called("sun", "mon")
		})
	}
}

// TestBeginThatArrivesAfterItsCallGaveUp is refused: the key is free.
func TestBeginThatArrivesAfterItsCallGaveUp(t *testing.T) {
	for _, first := range []bool{false, true} {
		inWorld(t, func(w world) {
			a, b := w.join(), w.join()
			if !first { // the name has a record
				w.is("Do", a.do("sun"), nil)
			}
			before := len(*w.calls)
			w.svc.OnRequest(nth(0, memory.OpSetRecord, memory.Fate{DelayRequest: 3 * time.Second}))
			ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, errGone)
			defer cancel()
			w.is("Do", a.Do(ctx, "mon", a.work("mon")), errGone)
			w.svc.OnRequest(nil)
			time.Sleep(5 * time.Second)
			w.is("Do", b.do("mon"), nil)
			if n := len(*w.calls) - before; n != 1 {
				w.Errorf("%d calls", n)
			}
		})
	}
}

// TestContextThatEndsWithTheBegin: the work is not called, and the key is free.
func TestContextThatEndsWithTheBegin(t *testing.T) {
	inWorld(t, func(w world) {
		ctx, cancel := context.WithCancelCause(w.Context())
		a := w.joinBy(func(link *memory.Driver) driver.Driver {
			return hooked{link, func() { cancel(errGone) }}
		})
		b := w.join()
		w.is("Do", a.Do(ctx, "mon", a.work("mon")), errGone)
		w.called()
		w.is("Do", b.do("mon"), nil)
	})
}

// hooked calls a function after each write of a record.
type hooked struct {
	driver.Driver
	wrote func()
}

func (h hooked) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := h.Driver.Open(ctx, ttl)
	return hookedSession{s, h.wrote}, err
}

type hookedSession struct {
	driver.Session
	wrote func()
}

func (s hookedSession) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	v, err := s.Session.SetRecord(ctx, q, value, known)
	s.wrote()
	return v, err
}

// TestStaleReadOfARunThatIsComplete: the caller had waited for the run, and its
// server shows it without its end at first.
func TestStaleReadOfARunThatIsComplete(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		h := w.remember(func(int) int { return 0 })
		w.is("Do", a.do("sun"), nil)
		a.lasts = time.Second
		first := a.starts(w.Context(), "mon")
		b := w.joinBy(func(link *memory.Driver) driver.Driver { return lag{link, h} })
		for len(h.since(0)) > 1 { // b's server shows the begin, and nothing later
			h.all = h.all[1:]
		}
		second := b.starts(w.Context(), "mon")
		w.is("first", <-first, nil)
		w.is("second", <-second, nil)
		w.called("sun", "mon")
	})
}

// TestCancelledWithoutTheService: what was sent may be applied later, and says
// so. The work of the key is then called by nobody.
func TestCancelledWithoutTheService(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		w.is("Do", a.do("sun"), nil)
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpSetRecord {
				a.link.Cut()
				return memory.Fate{DelayRequest: 5 * time.Second}
			}
			return memory.Fate{}
		})
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, errGone)
		defer cancel()
		err := a.Do(ctx, "mon", a.work("mon"))
		if w.is("Do", err, errGone); !coordinator.MayHaveApplied(err) {
			w.Errorf("not said that it may have been applied: %v", err)
		}
		w.svc.OnRequest(nil)
		time.Sleep(2 * ttl)
		if err := b.do("mon"); err != nil {
			w.incomplete("Do", err)
		}
		if n := len(*w.calls); n > 2 {
			w.Errorf("%d calls", n)
		}
	})
}

// TestEndIsRecordedAfterALoss: a process that was cut off completes its work
// late. The record says so, although another client has found the run
// incomplete before, and also if that one runs the key again at that time.
func TestEndIsRecordedAfterALoss(t *testing.T) {
	for _, repeat := range []bool{false, true} {
		inWorld(t, func(w world) {
			var opts []once.Option
			if repeat {
				opts = append(opts, once.WithRepeat())
			}
			a, b := w.join(opts...), w.join(opts...)
			a.lasts, b.lasts = time.Hour, time.Hour
			late := make(chan error, 1)
			go func() {
				late <- a.Do(w.Context(), "mon", func(ctx context.Context, h *once.Hold) error {
					_ = a.work("mon")(ctx, h)
					time.Sleep(3 * ttl) // the process does not notice its loss
					return nil
				})
			}()
			synctest.Wait()
			a.link.Cut()
			again := b.starts(w.Context(), "mon")
			time.Sleep(2 * ttl)
			if !repeat {
				w.incomplete("meanwhile", <-again)
			}
			a.link.Heal()
			w.is("late", <-late, coordinator.ErrSessionLost)
			b.shows("mon")
			if repeat {
				w.is("again", <-again, nil)
				w.called("mon", "mon")
			}
			w.is("afterwards", b.do("mon"), nil)
		})
	}
}

// TestLateBeginTakesNoKey: the write of a holder that was lost arrives when its
// successor has begun the key, and is refused. If the holder is back by then,
// it does not take the successor's begin for its own.
func TestLateBeginTakesNoKey(t *testing.T) {
	for _, back := range []bool{false, true} {
		inWorld(t, func(w world) {
			a, b := w.join(), w.join()
			w.is("Do", a.do("sun"), nil)
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op == memory.OpSetRecord {
					a.link.Cut()
					return memory.Fate{DelayRequest: 3 * ttl}
				}
				return memory.Fate{}
			})
			late := a.starts(w.Context(), "mon")
			w.svc.OnRequest(nil)
			b.lasts = 4 * ttl
			next := b.starts(w.Context(), "mon")
			for !strings.Contains(string(w.svc.Record(queue).Value), "mon") {
				time.Sleep(10 * time.Millisecond)
			}
			if back {
				a.link.Heal()
			}
			w.is("late", <-late, coordinator.ErrSessionLost)
			b.shows("sun", "mon?")
			w.is("the successor", <-next, nil)
			a.link.Heal()
			time.Sleep(ttl)
			w.called("sun", "mon")
			b.shows("sun", "mon")
		})
	}
}

// TestTryDoWaitsForNobody.
func TestTryDoWaitsForNobody(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(once.WithIdentity("web-1")), w.join()
		a.lasts = time.Minute
		first := a.starts(w.Context(), "mon")
		began := time.Now()
		err := b.TryDo(w.Context(), "mon", b.work("mon"))
		taken, ok := errors.AsType[*recipes.TakenError](err)
		if !ok || taken.Op != "try-do" || taken.Name != "job" || taken.Holder.Identity != "web-1" || time.Since(began) != 0 {
			w.Errorf("%v: %+v", err, taken)
		}
		w.is("first", <-first, nil)
		w.is("complete", b.TryDo(w.Context(), "mon", b.work("mon")), nil)
		w.is("the next", b.TryDo(w.Context(), "tue", b.work("tue")), nil)
		w.called("mon", "tue")
	})
}

// TestOldTimesDoNotRunAgain when the record has no room for them, and missed
// ones run in any order as long as it has.
func TestOldTimesDoNotRunAgain(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join(once.WithKeep(3))
		at := func(hour int) string { return once.At(time.Date(2026, 11, 28, hour, 0, 0, 0, time.UTC)) }
		var want []string
		for _, hour := range []int{5, 3, 4, 7, 6, 2} {
			err := a.do(at(hour))
			if hour == 2 { // 3 and 4 were left out: 2 may have been
				w.is("2", err, once.ErrForgotten)
				break
			}
			w.is(at(hour), err, nil)
			want = append(want, at(hour))
		}
		w.called(want...)
		for _, hour := range []int{2, 3, 4} {
			w.is("forgotten", a.do(at(hour)), once.ErrForgotten)
		}
		w.is("known", a.do(at(5)), nil)
		w.called(want...)
		a.shows(at(5), at(7), at(6))
	})
}

// TestOldNamesAreUnknown, and times beside them are not affected.
func TestOldNamesAreUnknown(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join(once.WithKeep(2))
		for _, key := range []string{"a", "b", "b", "a", "c", "b", "a"} {
			w.is(key, a.do(key), nil)
		}
		w.called("a", "b", "c", "a")
		w.is("a time", a.do(once.At(time.Unix(0, 0))), nil)
		a.shows("a", once.At(time.Unix(0, 0)))
	})
}

// TestKeyOfATimeIsTheSameInAllZones, to the nanosecond.
func TestKeyOfATimeIsTheSameInAllZones(t *testing.T) {
	now := time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC)
	for got, want := range map[string]string{
		once.At(now): "2026-11-28T03:00:00Z",
		once.At(now.In(time.FixedZone("x", 3600))):             "2026-11-28T03:00:00Z",
		once.At(now.Add(1)):                                    "2026-11-28T03:00:00.000000001Z",
		once.At(now.Add(90 * time.Minute).Truncate(time.Hour)): "2026-11-28T04:00:00Z",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestRequestsOfARun: two reads, two writes of the record, and those of a lock.
// A call after the run is one read, and one that has waited for it two and
// those of a lock.
func TestRequestsOfARun(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		w.is("Do", a.do("sun"), nil)
		before := a.link.Stats()
		w.is("Do", a.do("mon"), nil)
		s := a.link.Stats().Since(before)
		if s.Total() != 6 || s.Requests[memory.OpRecord] != 2 || s.Requests[memory.OpSetRecord] != 2 {
			w.Errorf("a run: %v", s.Requests)
		}
		before = a.link.Stats()
		w.is("Do", a.do("mon"), nil)
		if s := a.link.Stats().Since(before); s.Total() != 1 || s.Requests[memory.OpRecord] != 1 {
			w.Errorf("after the run: %v", s.Requests)
		}
		b := w.join()
		b.lasts = time.Second
		run := b.starts(w.Context(), "tue")
		before = a.link.Stats()
		w.is("Do", a.do("tue"), nil)
		w.is("Do", <-run, nil)
		if s := a.link.Stats().Since(before); s.Requests[memory.OpRecord] != 2 || s.Requests[memory.OpSetRecord] != 0 {
			w.Errorf("a call that waited: %v", s.Requests)
		}
	})
}

func TestBadInputIsRefused(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		before := w.svc.Stats()
		for says, err := range map[string]error{
			"0 bytes":           a.do(""),
			"129 bytes":         a.do(strings.Repeat("x", 129)),
			"control character": a.do("a\nb"),
			"UTF-8":             a.do("a\xff"),
			"nil work":          a.Do(w.Context(), "mon", nil),
			"0 keys":            second(once.New(a.client, "job", once.WithKeep(0))),
			"101 keys":          second(once.New(a.client, "job", once.WithKeep(101))),
			"nil option":        second(once.New(a.client, "job", nil)),
			"name is empty":     second(once.New(a.client, "")),
			"nil client":        second(once.New(nil, "job")),
			"identity":          second(once.New(a.client, "job", once.WithIdentity("a\x00"))),
		} {
			if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), says) {
				w.Errorf("%v, want ErrInvalid with %q", err, says)
			}
		}
		if n := w.svc.Stats().Since(before).Total(); n != 0 {
			w.Errorf("%d requests", n)
		}
		w.is("nested", a.Do(w.Context(), "mon", func(ctx context.Context, _ *once.Hold) error {
			return a.Do(ctx, "tue", a.work("tue"))
		}), coordinator.ErrInvalid)
		w.called()
	})
}

func second[T any](_ T, err error) error { return err }

// TestRecordOfAnotherProgramIsRefused, and the work is not called.
func TestRecordOfAnotherProgramIsRefused(t *testing.T) {
	for _, text := range []string{"7", "{}", `{"runs":null}`, `{"runs":[{}]}`, "null", "x"} {
		inWorld(t, func(w world) {
			a := w.join()
			s, err := w.svc.Driver().Open(w.Context(), ttl)
			w.is("open", err, nil)
			_, err = s.SetRecord(w.Context(), queue, []byte(text), 0)
			w.is("write", err, nil)
			w.is("close", s.Close(w.Context()), nil)
			w.is("Do", a.do("mon"), coordinator.ErrRefused)
			_, err = a.Runs(w.Context())
			w.is("Runs", err, coordinator.ErrRefused)
			w.called()
		})
	}
}

// TestServiceWithoutVersionsEndsTheCall: ZooKeeper refuses all writes of a
// record after 2^31.
func TestServiceWithoutVersionsEndsTheCall(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		w.is("Do", a.do("sun"), nil)
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpSetRecord {
				return memory.Fate{Err: driver.ErrStale}
			}
			return memory.Fate{}
		})
		w.is("Do", a.do("mon"), coordinator.ErrRefused)
		w.svc.OnRequest(nil)
		w.called("sun")
	})
}

// TestLargestRecordFits into the 64 KiB of a record.
func TestLargestRecordFits(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join(once.WithKeep(once.MaxKeep), once.WithIdentity(strings.Repeat(`"`, 255)))
		for i := range once.MaxKeep + 2 {
			key := fmt.Sprintf("%s%06d", strings.Repeat(`"`, 122), i)
			if err := a.do(key); err != nil {
				w.Fatal(err)
			}
		}
		if n := len(w.svc.Record(queue).Value); n < 40_000 || n > 64<<10 {
			w.Errorf("the record has %d bytes", n)
		}
		if runs, err := a.Runs(w.Context()); err != nil || len(runs) != once.MaxKeep {
			w.Errorf("%d runs, %v", len(runs), err)
		}
	})
}
