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
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		s, err := New(c, "jobs")
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

const seat0 = "partition-signal/jobs%2F0"

func send(t *testing.T, s *Store, session *engine.Session, number int64, always bool) {
	t.Helper()
	if _, _, err := s.signal(t.Context(), session, 0, number, always); err != nil {
		t.Fatal(err)
	}
}

// TestSlowWriterTakesNoSignalBack: the numbers of signals rise.
func TestSlowWriterTakesNoSignalBack(t *testing.T) {
	with(t, func(t *testing.T, svc *memory.Service, s *Store, session *engine.Session) {
		for _, step := range []struct {
			number  int64
			always  bool
			want    string
			written bool
		}{
			{0, true, "", false}, // no member has had the seat
			{2, false, "2", true},
			{1, false, "2", false},
			{2, false, "2", false},
			{5, false, "5", true},
			{0, true, "5", true},
		} {
			before := svc.Record(seat0).Version
			send(t, s, session, step.number, step.always)
			now := svc.Record(seat0)
			if string(now.Value) != step.want || step.written != (now.Version != before) {
				t.Errorf("%+v: %s", step, now.Value)
			}
		}
	})
}

// TestListenerFollowsThePlanBeyondTheSignal: it reports each plan that it
// reads, and sleeps when one is beyond the signal.
func TestListenerFollowsThePlanBeyondTheSignal(t *testing.T) {
	with(t, func(t *testing.T, svc *memory.Service, s *Store, session *engine.Session) {
		write := func(number int64) { put(t, s, session, plan.Plan{Number: number, Shards: 1}) }
		write(1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls int
		done := make(chan error, 1)
		go func() { done <- s.Listen(ctx, session, 0, func() { calls++ }) }()
		var got []int
		expect := func() {
			synctest.Wait()
			time.Sleep(time.Second)
			got, calls = append(got, calls), 0
		}
		expect() // at first
		if r := svc.Record(seat0); string(r.Value) != "0" {
			t.Errorf("no record of the seat: %s", r.Value)
		}
		write(2)
		expect() // not signalled
		send(t, s, session, 2, false)
		expect() // it has not seen 2, and waits for 3
		write(3)
		expect()
		write(4)
		expect() // not signalled
		send(t, s, session, 9, false)
		expect()
		write(9)
		expect() // as old as the signal, but new
		write(10)
		expect()
		svc.RemoveRecord(s.plan)
		send(t, s, session, 0, true)
		expect() // there is none
		write(1) // a first plan: the signal is beyond it
		expect()
		if want := []int{1, 0, 1, 1, 0, 1, 1, 1, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen: %v", err)
		}
	})
}

// put writes a plan whatever the plan is.
func put(t *testing.T, s *Store, session *engine.Session, p plan.Plan) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	_, version, err := s.Read(t.Context(), session, driver.Any)
	if err == nil {
		_, err = session.SetRecord(t.Context(), s.plan, text, version)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplaceReadsAgainAfterAnotherWrite, with the plan that the other wrote.
func TestReplaceReadsAgainAfterAnotherWrite(t *testing.T) {
	with(t, func(t *testing.T, _ *memory.Service, s *Store, session *engine.Session) {
		var olds []int64
		other := func(me int64, shards int) Change {
			return Change{Me: me, Next: func(plan.Plan, []plan.Wish) (plan.Plan, error) {
				return plan.Plan{Shards: shards}, nil
			}}
		}
		now, err := s.Replace(t.Context(), session, Change{Me: 1, Next: func(old plan.Plan, _ []plan.Wish) (plan.Plan, error) {
			if olds = append(olds, old.Number); len(olds) == 1 {
				if _, err := s.Replace(t.Context(), session, other(2, 7)); err != nil {
					t.Error(err)
				}
			}
			return plan.Plan{Shards: 8}, nil
		}})
		if err != nil || now.Number != 2 || now.Shards != 8 || !slices.Equal(olds, []int64{0, 1}) {
			t.Errorf("%+v, %v after %v", now, err, olds)
		}
		stored, version, err := s.Read(t.Context(), session, driver.Any)
		if err != nil || !stored.Same(now) || stored.Number != now.Number {
			t.Errorf("%+v, %v", stored, err)
		}
		if again, err := s.Replace(t.Context(), session, other(1, 8)); err != nil || again.Number != now.Number {
			t.Errorf("the same plan was written again: %+v, %v", again, err)
		}
		if _, v, _ := s.Read(t.Context(), session, driver.Any); v != version {
			t.Error("the same plan was written again")
		}
	})
}

// TestLatePlannerOfAFirstPlanTakesNoSignalBack: two members find no plan. One
// writes the first plan; a third is about to write the next, and has signalled
// seat 0. The other one, which is late, must leave that signal.
func TestLatePlannerOfAFirstPlanTakesNoSignalBack(t *testing.T) {
	with(t, func(t *testing.T, _ *memory.Service, s *Store, session *engine.Session) {
		replace := func(me int64, members ...plan.Member) plan.Plan {
			t.Helper()
			now, err := s.Replace(t.Context(), session, Change{Me: me, Next: func(plan.Plan, []plan.Wish) (plan.Plan, error) {
				return plan.Plan{Shards: 2, Members: members}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			return now
		}
		one := plan.Member{Token: 1, Weight: 1, Max: 2, Shards: []int{0, 1}}
		late, err := s.Replace(t.Context(), session, Change{Me: 2, Next: func(old plan.Plan, _ []plan.Wish) (plan.Plan, error) {
			if len(old.Members) > 0 {
				return old, nil
			}
			first := replace(1, one)
			next := plan.Plan{Shards: 2, Members: []plan.Member{{Token: 1, Weight: 1, Max: 2}}}
			if _, err := s.signalAll(t.Context(), session, 3, first, next, true); err != nil {
				t.Fatal(err)
			}
			return plan.Plan{Shards: 2, Members: []plan.Member{one}}, nil
		}})
		if err != nil || late.Number != 1 {
			t.Fatalf("%+v, %v", late, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls int
		done := make(chan error)
		go func() { done <- s.Listen(ctx, session, 0, func() { calls++ }) }() // slow to see the signal
		synctest.Wait()
		time.Sleep(time.Second)
		put(t, s, session, plan.Plan{Number: 2, Shards: 2})
		synctest.Wait()
		time.Sleep(time.Second)
		if calls != 2 {
			t.Errorf("%d calls, want 2: the second plan was missed", calls)
		}
		cancel()
		<-done
	})
}
