package store

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes/partition/internal/plan"
)

// with runs a test with a store and a session.
func with(t *testing.T, f func(t *testing.T, svc *memory.Service, s *Store, session *engine.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		c, err := coordinator.New(svc.Driver(),
			coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(engine.Of(c), "jobs")
		if err != nil {
			t.Fatal(err)
		}
		session, err := engine.Of(c).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f(t, svc, s, session)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func mark(id string, number int64) plan.Mark { return plan.Mark{ID: id, Number: number} }

func send(t *testing.T, s *Store, session *engine.Session, m plan.Mark) {
	t.Helper()
	text, err := json.Marshal(m)
	if err == nil {
		err = s.signal(t.Context(), session, 0, m, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSlowWriterReplacesNoSignal: the numbers of signals rise, unless the plan
// was deleted.
func TestSlowWriterReplacesNoSignal(t *testing.T) {
	with(t, func(t *testing.T, svc *memory.Service, s *Store, session *engine.Session) {
		for _, step := range []struct{ send, want plan.Mark }{
			{mark("a", 2), mark("a", 2)},
			{mark("a", 1), mark("a", 2)},
			{mark("a", 2), mark("a", 2)},
			{mark("a", 5), mark("a", 5)},
			{mark("b", 0), mark("b", 0)},
		} {
			before := svc.Record("partition-signal/jobs%2F0").Version
			covered := marked(svc.Record("partition-signal/jobs%2F0")).Covers(step.send)
			send(t, s, session, step.send)
			now := svc.Record("partition-signal/jobs%2F0")
			if marked(now) != step.want || covered != (now.Version == before) {
				t.Errorf("%+v: %+v, want %+v", step.send, marked(now), step.want)
			}
		}
	})
}

// TestListenerFollowsThePlanBeyondTheSignal: it reports each plan that it
// reads, and sleeps when one is beyond the signal.
func TestListenerFollowsThePlanBeyondTheSignal(t *testing.T) {
	with(t, func(t *testing.T, svc *memory.Service, s *Store, session *engine.Session) {
		write := func(m plan.Mark) {
			t.Helper()
			text, err := json.Marshal(plan.Plan{Mark: m, Shards: 1})
			if err == nil {
				_, err = session.SetRecord(t.Context(), s.plan, text, svc.Record(s.plan).Version)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		write(mark("a", 1))
		ctx, cancel := context.WithCancel(t.Context())
		var calls int
		done := make(chan error)
		go func() { done <- s.Listen(ctx, session, 0, func() { calls++ }) }()
		var got []int
		expect := func() {
			synctest.Wait()
			time.Sleep(time.Second)
			got, calls = append(got, calls), 0
		}
		expect() // at first
		write(mark("a", 2))
		expect() // not signalled
		send(t, s, session, mark("a", 2))
		expect() // it has not seen 2, and waits for 3
		write(mark("a", 3))
		expect()
		write(mark("a", 4))
		expect() // not signalled
		send(t, s, session, mark("a", 9))
		expect()
		write(mark("a", 9))
		expect() // as old as the signal, but new
		write(mark("b", 1))
		expect() // not of the lineage of the signal
		write(mark("b", 2))
		expect() // not signalled
		if want := []int{1, 0, 1, 1, 0, 1, 1, 1, 0}; !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen: %v", err)
		}
	})
}

// TestReplaceReadsAgainAfterAnotherWrite, with the plan that the other wrote.
func TestReplaceReadsAgainAfterAnotherWrite(t *testing.T) {
	with(t, func(t *testing.T, _ *memory.Service, s *Store, session *engine.Session) {
		var olds []int64
		other := func(shards int) func(plan.Plan) (plan.Plan, error) {
			return func(old plan.Plan) (plan.Plan, error) { return plan.Plan{Shards: shards}, nil }
		}
		now, err := s.Replace(t.Context(), session, 1, func(old plan.Plan) (plan.Plan, error) {
			if olds = append(olds, old.Number); len(olds) == 1 {
				if _, err := s.Replace(t.Context(), session, 2, other(7)); err != nil {
					t.Error(err)
				}
			}
			return plan.Plan{Shards: 8}, nil
		})
		if err != nil || now.Number != 2 || now.Shards != 8 || !slices.Equal(olds, []int64{0, 1}) {
			t.Errorf("%+v, %v after %v", now, err, olds)
		}
		stored, version, err := s.Read(t.Context(), session, driver.Any)
		if err != nil || !stored.Same(now) || stored.Mark != now.Mark {
			t.Errorf("%+v, %v", stored, err)
		}
		if again, err := s.Replace(t.Context(), session, 1, other(8)); err != nil || again.Mark != now.Mark {
			t.Errorf("the same plan was written again: %+v, %v", again, err)
		}
		if _, v, _ := s.Read(t.Context(), session, driver.Any); v != version {
			t.Error("the same plan was written again")
		}
	})
}
