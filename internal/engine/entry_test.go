package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

var contender = driver.Contender{ID: "0123456789abcdef", Mode: "x"}

func (w world) join(s *engine.Session) driver.Joined {
	w.Helper()
	j, err := s.Join(w.Context(), queue, contender)
	check(w, err)
	return j
}

// change is a call that changes the service.
type change struct {
	op memory.Op
	do func(ctx context.Context, s *engine.Session, j driver.Joined) error
}

var (
	converts = change{memory.OpConvert, func(ctx context.Context, s *engine.Session, j driver.Joined) error {
		_, err := s.Convert(ctx, queue, j, "y", []byte("new"))
		return err
	}}
	writes = change{memory.OpWrite, func(ctx context.Context, s *engine.Session, j driver.Joined) error {
		return s.Write(ctx, queue, j.Place, []byte("new"))
	}}
	forgets = change{memory.OpForget, func(ctx context.Context, s *engine.Session, j driver.Joined) error {
		return s.Forget(ctx, queue, j.Place.ID)
	}}
	leaves = change{memory.OpLeave,
		func(ctx context.Context, s *engine.Session, j driver.Joined) error {
			return s.Leave(ctx, queue, j.Place)
		}}
	records = change{memory.OpSetRecord, func(ctx context.Context, s *engine.Session, _ driver.Joined) error {
		_, err := s.SetRecord(ctx, queue, []byte("new"), 0)
		return err
	}}
)

// changed runs a test for each call, with a contender in the queue and a fate
// for the call's requests, by number.
func changed(t *testing.T, calls []change, fate func(w world, n int) memory.Fate, f func(w world, s *engine.Session, call func(context.Context) error)) {
	t.Helper()
	for _, c := range calls {
		t.Run(string(c.op), func(t *testing.T) {
			within(t, func(w world) {
				s := w.session()
				j := w.join(s)
				n := 0
				w.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Op != c.op {
						return memory.Fate{}
					}
					n++
					return fate(w, n-1)
				})
				f(w, s, func(ctx context.Context) error { return c.do(ctx, s, j) })
				w.svc.OnRequest(nil)
			})
		})
	}
}

// made reports whether a change was applied.
func (w world) made(op memory.Op) bool {
	entries := w.svc.Snapshot(queue)
	switch op {
	case memory.OpConvert:
		return len(entries) == 1 && entries[0].Mode == "y" && string(entries[0].Value) == "new"
	case memory.OpWrite:
		return len(entries) == 1 && entries[0].Mode == "x" && string(entries[0].Value) == "new"
	case memory.OpForget, memory.OpLeave:
		return len(entries) == 0
	}
	return string(w.svc.Record(queue).Value) == "new"
}

// TestChangesAreRepeatedUntilTheyAreAnswered: after lost requests and replies,
// and with an unresponsive member.
func TestChangesAreRepeatedUntilTheyAreAnswered(t *testing.T) {
	for _, fate := range []memory.Fate{{DropRequest: true}, {DropReply: true}, {DelayRequest: 10 * time.Minute}, {DelayReply: 10 * time.Minute}} {
		calls := []change{converts, writes, forgets, leaves, records}
		if fate.DropReply || fate.DelayReply > 0 {
			calls = calls[:4] // a record that was written is stale to the second attempt
		}
		for _, c := range calls {
			changed(t, []change{c}, func(_ world, n int) memory.Fate {
				if n < 2 {
					return fate
				}
				return memory.Fate{}
			}, func(w world, s *engine.Session, call func(context.Context) error) {
				began := time.Now()
				if err := call(w.Context()); err != nil || !w.made(c.op) {
					w.Errorf("%+v: %v; the queue is %v", fate, err, w.svc.Snapshot(queue))
				}
				if took := time.Since(began); took > s.TTL() || s.Err() != nil {
					w.Errorf("%+v: took %v; session %v", fate, took, s.Err())
				}
				time.Sleep(15 * time.Minute) // for late requests
				if !w.made(c.op) {
					w.Errorf("%+v: undone by a late request: %v", fate, w.svc.Snapshot(queue))
				}
			})
		}
	}
}

func TestRefusedChangeIsNotRepeated(t *testing.T) {
	no := memory.Fate{Err: errors.New("no permission")}
	changed(t, []change{converts, writes, records}, func(world, int) memory.Fate { return no },
		func(w world, s *engine.Session, call func(context.Context) error) {
			before := w.svc.Stats().Total()
			err := call(w.Context())
			if !errors.Is(err, engine.ErrRefused) || engine.MayHaveApplied(err) || w.svc.Stats().Total()-before != 1 {
				w.Errorf("%v after %d requests", err, w.svc.Stats().Total()-before)
			}
		})
	changed(t, []change{converts, writes, forgets, records}, func(_ world, n int) memory.Fate {
		if n == 0 {
			return memory.Fate{DropReply: true}
		}
		return no
	}, func(w world, s *engine.Session, call func(context.Context) error) {
		if err := call(w.Context()); !errors.Is(err, engine.ErrRefused) || !engine.MayHaveApplied(err) {
			w.Errorf("applied without an answer, and then refused: %v", err)
		}
	})
}

func TestChangeOfARemovedEntryIsErrRemoved(t *testing.T) {
	for _, fate := range []memory.Fate{{}, {DropRequest: true}} {
		changed(t, []change{converts, writes}, func(w world, n int) memory.Fate {
			if n == 0 {
				w.svc.Remove(queue, contender.ID)
				return fate
			}
			return memory.Fate{}
		}, func(w world, s *engine.Session, call func(context.Context) error) {
			err := call(w.Context())
			if !errors.Is(err, engine.ErrRemoved) || engine.MayHaveApplied(err) != fate.DropRequest || s.Err() != nil {
				w.Errorf("%v, may have been applied: %v; session %v", err, engine.MayHaveApplied(err), s.Err())
			}
			if len(w.svc.Snapshot(queue)) != 0 {
				w.Errorf("made %v", w.svc.Snapshot(queue))
			}
		})
	}
}

func TestChangeEndsByItsContextOrItsSession(t *testing.T) {
	calls := []change{converts, writes, forgets, records}
	away := func(w world, n int) memory.Fate {
		if n == 0 { // Forget is repeated in the background, also after Start
			w.svc.Stop()
		}
		return memory.Fate{}
	}
	changed(t, calls, away, func(w world, _ *engine.Session, call func(context.Context) error) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := call(ctx)
		if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !engine.MayHaveApplied(err) ||
			time.Since(began) != time.Second {
			w.Errorf("%v after %v", err, time.Since(began))
		}
		w.svc.Start()
	})
	changed(t, calls, away, func(w world, s *engine.Session, call func(context.Context) error) {
		err := call(w.Context())
		if !errors.Is(err, engine.ErrSessionLost) || s.Err() == nil {
			w.Errorf("%v; session %v", err, s.Err())
		}
		w.svc.Start()
	})
	expired := func(w world, _ int) memory.Fate { w.svc.Expire(w.session().ID()); return memory.Fate{} }
	for maybe, calls := range map[bool][]change{false: {converts, writes, forgets}, true: {records}} { // a record outlives its session
		changed(t, calls, expired, func(w world, _ *engine.Session, call func(context.Context) error) {
			if err := call(w.Context()); !errors.Is(err, engine.ErrSessionLost) || engine.MayHaveApplied(err) != maybe {
				w.Errorf("%v", err)
			}
			if err := call(w.Context()); !errors.Is(err, engine.ErrSessionLost) || engine.MayHaveApplied(err) { // without a request
				w.Errorf("%v", err)
			}
		})
	}
}

func (s causalSession) Convert(ctx context.Context, l driver.Queue, own driver.Joined, mode string, v []byte) (driver.Place, error) {
	p, err := s.Full.Convert(ctx, l, own, mode, v)
	return p, causeOf(ctx, err)
}

func (s causalSession) Write(ctx context.Context, l driver.Queue, own driver.Place, v []byte) error {
	return causeOf(ctx, s.Full.Write(ctx, l, own, v))
}

func (s causalSession) Forget(ctx context.Context, l driver.Queue, id string) error {
	return causeOf(ctx, s.Full.Forget(ctx, l, id))
}

func (s causalSession) SetRecord(ctx context.Context, l driver.Queue, value []byte, v driver.Version) (driver.Version, error) {
	v, err := s.Full.SetRecord(ctx, l, value, v)
	return v, causeOf(ctx, err)
}

func (s causalSession) Head(ctx context.Context, l driver.Queue, v driver.Version) (driver.Head, error) {
	h, err := s.Full.Head(ctx, l, v)
	return h, causeOf(ctx, err)
}

func (s causalSession) Record(ctx context.Context, l driver.Queue, v driver.Version) (driver.Record, error) {
	r, err := s.Full.Record(ctx, l, v)
	return r, causeOf(ctx, err)
}

// kinds are errors that a caller distinguishes.
var kinds = []error{engine.ErrRemoved, engine.ErrSessionLost, engine.ErrRefused, engine.ErrStale}

// TestCancelledChangeReturnsNoErrorOfTheService, whatever the cause of the
// caller's context is.
func TestCancelledChangeReturnsNoErrorOfTheService(t *testing.T) {
	for _, c := range []change{converts, writes, forgets, records} {
		caused(t, func(w world, cause error) {
			s := w.session()
			j := w.join(s)
			w.link.Delay(500*time.Millisecond, 500*time.Millisecond)
			err := c.do(endsIn(w, 700*time.Millisecond, cause), s, j)
			if !engine.MayHaveApplied(err) || !errors.Is(err, cause) {
				w.Errorf("%s, %v: %v", c.op, cause, err)
			}
			for _, kind := range kinds {
				if errors.Is(err, kind) && !errors.Is(cause, kind) {
					w.Errorf("%s, %v: %v is %v", c.op, cause, err, kind)
				}
			}
			time.Sleep(5 * time.Second)
			if s.Err() != nil || !w.made(c.op) {
				w.Errorf("%s, %v: session %v, queue %v", c.op, cause, s.Err(), w.svc.Snapshot(queue))
			}
		})
	}
}
