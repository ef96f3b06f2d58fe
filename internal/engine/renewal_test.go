package engine_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

const tenth = engine.DefaultTTL / driver.RenewalsPerTTL

// news are the changes of a session's state.
type news struct {
	mu  sync.Mutex
	all []event.Event
	at  []time.Time
}

func (s *news) Observe(e event.Event) {
	switch e.Kind {
	case event.SessionSuspended, event.SessionResumed:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all, s.at = append(s.all, e), append(s.at, time.Now())
	}
}

func (s *news) kinds() (kinds []event.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

var suspendedAndResumed = []event.Kind{event.SessionSuspended, event.SessionResumed}

// fates decides the fate of each renewal, by its number.
func (w world) fates(fate func(n int) memory.Fate) {
	var n atomic.Int64
	w.svc.OnRequest(func(r memory.Request) memory.Fate {
		if r.Op != memory.OpRenew {
			return memory.Fate{}
		}
		return fate(int(n.Add(1)))
	})
}

func TestSessionIsSuspendedAfterAQuarterOfTheTTL(t *testing.T) {
	for what, fate := range map[string]memory.Fate{
		"refused": {DropRequest: true}, "silent": {DelayRequest: time.Hour},
	} {
		var n news
		within(t, func(w world) {
			w.session()
			began := time.Now() // the session was opened now
			w.fates(func(int) memory.Fate { return fate })
			time.Sleep(5 * time.Second)
			w.svc.OnRequest(nil)
			time.Sleep(5 * time.Second)
			if kinds := n.kinds(); !slices.Equal(kinds, suspendedAndResumed) {
				t.Fatalf("%s: %v", what, kinds)
			}
			after := n.at[0].Sub(began)
			if after < engine.DefaultTTL/4 || after > engine.DefaultTTL/3 {
				t.Errorf("%s: suspended after %v", what, after)
			}
			if left := 9*time.Second - after; n.all[0].Margin != left {
				t.Errorf("%s: %v left, want %v", what, n.all[0].Margin, left)
			}
		}, coordinator.WithObserver(&n))
	}
}

// An answer after nearly a quarter of the TTL is one: the session is suspended
// only in the gap before the first of them.
func TestSlowAnswersDoNotSuspendAgainAndAgain(t *testing.T) {
	var seen news
	within(t, func(w world) {
		w.session()
		w.fates(func(int) memory.Fate { return memory.Fate{DelayReply: 2200 * time.Millisecond} })
		time.Sleep(time.Minute)
		if kinds := seen.kinds(); !slices.Equal(kinds, suspendedAndResumed) {
			t.Errorf("%v", kinds)
		}
	}, coordinator.WithObserver(&seen))
}

// slowLog takes three seconds for a warning.
type slowLog struct{ slog.Handler }

func (slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (slowLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		time.Sleep(3 * time.Second)
	}
	return nil
}

func TestASlowLogDoesNotReorderSuspendedAndResumed(t *testing.T) {
	var seen news
	within(t, func(w world) {
		s := w.session()
		w.fates(func(n int) memory.Fate { return memory.Fate{DropRequest: n < 30} })
		time.Sleep(20 * time.Second)
		state, _ := s.State()
		if kinds := seen.kinds(); state != event.StateConnected || !slices.Equal(kinds, suspendedAndResumed) {
			t.Errorf("%v after %v", state, kinds)
		}
	}, coordinator.WithObserver(&seen), coordinator.WithLogger(slog.New(slowLog{})))
}

// A renewal whose reply is lost, or comes after a later one's, neither moves
// the deadline back nor makes others follow sooner.
func TestLateRepliesOfRenewalsChangeNothing(t *testing.T) {
	for what, late := range map[string]memory.Fate{
		"lost": {DropReply: true}, "silent": {DelayReply: time.Hour}, "late": {DelayReply: tenth * 3 / 2},
	} {
		var seen news
		within(t, func(w world) {
			s := w.session()
			w.fates(func(n int) (f memory.Fate) {
				if n == 3 {
					f = late
				}
				return f
			})
			latest := s.Deadline()
			for range 200 {
				time.Sleep(tenth / 10)
				d := s.Deadline()
				if d.Before(latest) {
					t.Fatalf("%s: the deadline moved back by %v", what, latest.Sub(d))
				}
				latest = d
			}
			if n := w.svc.Stats().Requests[memory.OpRenew]; n > 21 {
				t.Errorf("%s: %d renewals in twenty intervals", what, n)
			}
			if kinds := seen.kinds(); kinds != nil {
				t.Errorf("%s: %v", what, kinds)
			}
		}, coordinator.WithObserver(&seen))
	}
}

// Else the clients of a service would all renew at once after an outage.
func TestClientsDoNotGoOnTogetherAfterAnOutage(t *testing.T) {
	within(t, func(w world) {
		for range 40 {
			c, _ := w.another()
			_, err := engine.Of(c).Session(w.Context())
			check(w, err)
			defer c.Close(context.Background())
		}
		w.fates(func(int) memory.Fate { return memory.Fate{DropRequest: true} })
		time.Sleep(4 * time.Second)
		w.svc.OnRequest(nil)
		time.Sleep(tenth)
		sent := make(chan time.Duration, 1000)
		began := time.Now()
		w.fates(func(int) memory.Fate {
			sent <- time.Since(began)
			return memory.Fate{}
		})
		time.Sleep(tenth)
		most, sum := 0, [10]int{}
		for len(sent) > 0 {
			i := int(<-sent*10/tenth) % 10
			sum[i]++
			most = max(most, sum[i])
		}
		if most > 20 {
			t.Errorf("renewals by tenths of an interval: %v", sum)
		}
	})
}
