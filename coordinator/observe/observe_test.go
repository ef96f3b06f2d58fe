package observe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/observe"
	"github.com/baton-go/baton/mutex"
)

var quiet = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// sums is a sink that adds everything up, by metric and labels.
type sums struct {
	mu sync.Mutex
	of map[string]float64
}

func newSums() *sums { return &sums{of: map[string]float64{}} }

func (s *sums) Record(_ context.Context, id observe.ID, v float64, values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[strings.TrimSpace(observe.Metrics()[id].Name+" "+strings.Join(values, " "))] += v
}

// take returns what has changed since the last take.
func (s *sums) take() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := maps.Clone(s.of)
	maps.DeleteFunc(changed, func(_ string, v float64) bool { return v == 0 })
	s.of = map[string]float64{}
	return changed
}

func TestReasonOfFailedCalls(t *testing.T) {
	cancelled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		return ctx
	}
	late, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{late, context.DeadlineExceeded, "timeout"},
		{cancelled(nil), context.Canceled, "cancelled"},
		{cancelled(io.EOF), io.EOF, "cancelled"},
		{cancelled(coordinator.ErrSessionLost), coordinator.ErrSessionLost, "cancelled"}, // the cause is another client's error
		{cancelled(nil), fmt.Errorf("%w: %w", coordinator.ErrUnavailable, context.Canceled), "unavailable"},
		{context.Background(), coordinator.ErrSessionLost, "session_lost"},
		{context.Background(), coordinator.ErrRemoved, "removed"},
		{context.Background(), coordinator.ErrTaken, "taken"},
		{context.Background(), coordinator.ErrRefused, "refused"},
		{context.Background(), coordinator.ErrClosed, "closed"},
		{context.Background(), coordinator.ErrInvalid, "invalid"},
		{context.Background(), io.EOF, "other"},
		{nil, context.Canceled, "other"},
	} {
		if got := observe.Reason(event.Event{Context: c.ctx, Err: c.err}); got != c.want {
			t.Errorf("Reason of %v is %q, want %q", c.err, got, c.want)
		}
	}
}

// TestClassIsValidUTF8: sinks may panic at other text, in the middle of a Lock.
func TestClassIsValidUTF8(t *testing.T) {
	s := newSums()
	o := observe.New(s, func(_, name string) string { return name[:2] })
	o.Observe(event.Event{Kind: event.Joined, Queue: driver.NewQueue("mutex", "aé")})
	for name := range s.of {
		if !utf8.ValidString(name) {
			t.Errorf("%q", name)
		}
	}
}

func TestMetricsOfAMutexStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, s := memory.NewService(), newSums()
		o := observe.New(s, nil)
		want := func(what string, want map[string]float64) {
			t.Helper()
			synctest.Wait()
			got := s.take()
			for name, v := range want {
				if got[name] != v {
					t.Errorf("%s: %s is %v, want %v", what, name, got[name], v)
				}
			}
			if extra := slices.DeleteFunc(slices.Collect(maps.Keys(got)), func(n string) bool { _, ok := want[n]; return ok }); len(extra) > 0 {
				t.Errorf("%s: also %q", what, extra)
			}
		}
		c, err := coordinator.New(svc.Driver(), quiet, coordinator.WithTTL(10*time.Second), coordinator.WithObserver(o))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		other, _ := coordinator.New(svc.Driver(), quiet)
		t.Cleanup(func() { _ = other.Close(context.Background()) })
		m, _ := mutex.New(c, "jobs")
		n, _ := mutex.New(other, "jobs")
		first, _ := n.Lock(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { _ = first.Unlock(context.Background()) })
		l, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want("a contended lock", map[string]float64{
			"baton_sessions_opened_total": 1, "baton_sessions connected": 1,
			"baton_grants_total mutex  lock true": 1, "baton_holders mutex": 1, "baton_wait_seconds mutex  lock": 1.5,
			"baton_renewal_margin_ratio": 8. / 9, // a second after the sending of the one before
		})
		time.Sleep(time.Second)
		want("a renewal", map[string]float64{"baton_renewal_margin_ratio": 8. / 9})
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("a release", map[string]float64{"baton_holders mutex": -1, "baton_releases_total mutex": 1, "baton_hold_seconds mutex": 1})
		if _, err = m.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.take()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("a close", map[string]float64{
			"baton_sessions connected": -1, "baton_sessions_ended_total closed": 1, "baton_holders mutex": -1, "baton_lost_total mutex  closed": 1,
		})
		if _, err := m.Lock(t.Context()); !errors.Is(err, coordinator.ErrClosed) {
			t.Fatal(err)
		}
		want("a lock after that", map[string]float64{"baton_not_granted_total mutex  lock closed": 1})
		_ = other.Close(t.Context())
	})
}

func TestMetricsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for id, m := range observe.Metrics() {
		switch {
		case m.Name == "" || m.Help == "" || seen[m.Name] || !strings.HasPrefix(m.Name, "baton_"):
			t.Errorf("%d: %+v", id, m)
		case (m.Type == observe.Histogram) != (len(m.Buckets) > 0) || !slices.IsSorted(m.Buckets):
			t.Errorf("%s: buckets %v", m.Name, m.Buckets)
		case (m.Type == observe.Counter) != strings.HasSuffix(m.Name, "_total"), (m.Unit() == "s") != strings.HasSuffix(m.Name, "_seconds"):
			t.Errorf("%s is a %s in %q", m.Name, m.Type, m.Unit())
		}
		seen[m.Name] = true
	}
}

// zeros is a sink that keeps which series exist.
type zeros struct{ *sums }

func (z zeros) Record(ctx context.Context, id observe.ID, v float64, values ...string) {
	z.sums.Record(ctx, id, v+1000, values...)
}

// series returns the series of a metric.
func (z zeros) series(metric string) (all []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for name := range z.of {
		if name == metric || strings.HasPrefix(name, metric+" ") {
			all = append(all, strings.TrimPrefix(name, metric+" "))
		}
	}
	slices.Sort(all)
	return all
}

// TestFailuresAreZeroBeforeTheFirstCall: a counter that begins with a failure
// shows no rise. Each operation of the recipe counts, for its class.
func TestFailuresAreZeroBeforeTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := zeros{newSums()}
		o := observe.New(z, func(_, name string) string { class, _, _ := strings.Cut(name, "/"); return class })
		c, err := coordinator.New(memory.NewService().Driver(), quiet, coordinator.WithObserver(o))
		if err != nil {
			t.Fatal(err)
		}
		if got := z.series("baton_not_granted_total"); len(got) != 0 {
			t.Errorf("before: %q", got)
		}
		if got := z.series("baton_retries_total"); !slices.Equal(got, []string{"session"}) {
			t.Errorf("retries: %q", got)
		}
		if _, err = mutex.New(c, "orders/1"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var want []string
		for _, op := range []string{"lock", "try-lock"} {
			for _, reason := range []string{"refused", "session_lost", "unavailable"} {
				want = append(want, "mutex orders "+op+" "+reason)
			}
		}
		if got := z.series("baton_not_granted_total"); !slices.Equal(got, want) {
			t.Errorf("after New: %q, want %q", got, want)
		}
		if got := z.series("baton_release_failures_total"); !slices.Equal(got, []string{"mutex orders"}) {
			t.Errorf("releases: %q", got)
		}
		_ = c.Close(t.Context())
	})
}

// TestModesOfEntriesAreNoOperations: a permit count in a label would be a
// series for ever.
func TestModesOfEntriesAreNoOperations(t *testing.T) {
	z := zeros{newSums()}
	o := observe.New(z, nil)
	for _, e := range []event.Event{
		{Kind: event.Converted, Op: "h17"}, {Kind: event.Joined}, {Kind: event.Granted, Op: "acquire"},
		{Kind: event.Converted, Op: "h16"}, {Kind: event.Released},
	} {
		e.Queue = driver.NewQueue("semaphore", "pool")
		o.Observe(e)
	}
	for _, s := range z.series("baton_not_granted_total") {
		if !strings.HasPrefix(s, "semaphore  acquire ") && !strings.HasPrefix(s, "semaphore  try-acquire ") {
			t.Errorf("series %q", s)
		}
	}
}

// TestMetricsOfCallsHaveTheirContext, which does not end.
func TestMetricsOfCallsHaveTheirContext(t *testing.T) {
	type key struct{}
	var got []any
	o := observe.New(seen(func(ctx context.Context, id observe.ID) {
		if id == observe.Grants && ctx.Value(key{}) != nil {
			got = append(got, ctx.Value(key{}), ctx.Err())
		}
	}), nil)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	cancel()
	o.Observe(event.Event{Kind: event.Granted, Op: "lock", Queue: "mutex/n", Context: ctx})
	if !slices.Equal(got, []any{"trace", nil}) {
		t.Errorf("%v", got)
	}
}

type seen func(context.Context, observe.ID)

func (s seen) Record(ctx context.Context, id observe.ID, _ float64, _ ...string) { s(ctx, id) }
