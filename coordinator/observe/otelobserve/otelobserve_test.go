package otelobserve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/observe/otelobserve"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
)

var quiet = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// New needs no options if the program sets OpenTelemetry's global providers.
// This example uses its own provider, which keeps the spans.
func Example() {
	ctx := context.Background()
	provider := &spans{}
	o, err := otelobserve.New(otelobserve.WithTracerProvider(provider))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, _ := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(o))
	m, _ := mutex.New(client, "orders/4711")
	_ = m.Do(ctx, func(context.Context, *mutex.Lock) error { return nil })
	_ = client.Close(ctx)

	for _, span := range provider.all {
		fmt.Println(span.name, span.attributes["baton.name"].AsString(), span.attributes["baton.token"].AsInt64())
	}
	// Output:
	// baton.lock orders/4711 1
	// baton.hold orders/4711 1
}

// traced runs a test with a mutex of an observed client, and one of another.
func traced(t *testing.T, f func(t *testing.T, svc *memory.Service, a, b *mutex.Mutex, s *spans, m *sums), opts ...recipes.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, m := &spans{}, &sums{}
		o, err := otelobserve.New(otelobserve.WithTracerProvider(s), otelobserve.WithMeterProvider(m),
			otelobserve.WithClass(func(kind, _ string) string { return "a " + kind }), otelobserve.WithAttributes(attribute.String("service", "memory")))
		if err != nil {
			t.Fatal(err)
		}
		svc := memory.NewService()
		var locks []*mutex.Mutex
		for _, set := range [][]coordinator.Option{{coordinator.WithObserver(o)}, nil} {
			c, err := coordinator.New(svc.Driver(), append(set, quiet)...)
			if err != nil {
				t.Fatal(err)
			}
			l, err := mutex.New(c, "orders/7", opts...)
			if err != nil {
				t.Fatal(err)
			}
			locks = append(locks, l)
			defer func() { _ = c.Close(context.Background()) }()
		}
		f(t, svc, locks[0], locks[1], s, m)
	})
}

func TestCallsAndHoldsAreLinkedSpansBelowTheCallers(t *testing.T) {
	traced(t, func(t *testing.T, _ *memory.Service, a, b *mutex.Mutex, s *spans, m *sums) {
		first, err := b.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*time.Second, func() { _ = first.Unlock(context.Background()) })
		ctx, caller := s.Tracer("").Start(t.Context(), "request")
		l, err := a.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.Lock(l.Context())
		if err != nil {
			t.Fatal(err)
		}
		caller.End() // before the hold ends
		time.Sleep(7 * time.Second)
		for _, l := range []*mutex.Lock{again, l} {
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // a renewal may be writing its sums
		const with = "baton.kind=mutex baton.name=orders/7 baton.token=2 service=memory"
		call, hold := s.all[1], s.all[2]
		if got, want := call.String(), "baton.lock 3s baton.contended=true "+with; got != want {
			t.Errorf("the call is %s, want %s", got, want)
		}
		if got, want := hold.String(), "baton.hold 7s "+with; got != want {
			t.Errorf("the hold is %s, want %s", got, want)
		}
		if len(hold.events) == 0 || hold.events[0] != "reentered" || hold.status != codes.Unset {
			t.Errorf("events %q, status %v", hold.events, hold.status)
		}
		if parent := trace.SpanContextFromContext(ctx); !call.parent.Equal(parent) || !hold.parent.Equal(parent) ||
			len(hold.links) != 1 || !hold.links[0].SpanContext.Equal(call.context) {
			t.Errorf("parents %v and %v, links %v", call.parent, hold.parent, hold.links)
		}
		if len(s.all) != 3 {
			t.Errorf("%d spans", len(s.all))
		}
		for name, want := range map[string]float64{
			"baton.wait[s] class=a mutex,kind=mutex,op=lock,service=memory":               3,
			"baton.hold[s] class=a mutex,kind=mutex,service=memory":                       7,
			"baton.holders class=a mutex,kind=mutex,service=memory":                       0,
			"baton.grants class=a mutex,contended=true,kind=mutex,op=lock,service=memory": 1,
			"baton.sessions service=memory,state=connected":                               1,
		} {
			if got, there := m.of[name]; got != want || !there {
				t.Errorf("%s is %v (found: %v), want %v", name, got, there, want)
			}
		}
		if t.Failed() {
			for name, v := range m.of {
				t.Log(name, v)
			}
		}
	})
}

// TestFailedSpansHaveErrorStatus and the reason. A taken name is no failure.
func TestFailedSpansHaveErrorStatus(t *testing.T) {
	traced(t, func(t *testing.T, svc *memory.Service, a, b *mutex.Mutex, s *spans, _ *sums) {
		first, err := b.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.TryLock(t.Context()); !errors.Is(err, coordinator.ErrTaken) {
			t.Fatal(err)
		}
		synctest.Wait()
		if x := s.all[0]; x.name != "baton.try-lock" || x.status != codes.Unset || x.attributes["baton.reason"].AsString() != "taken" || x.ended.IsZero() {
			t.Errorf("%v: %v %q", x, x.status, x.text)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Lock(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		synctest.Wait()
		if x := s.all[len(s.all)-1]; x.name != "baton.lock" || x.status != codes.Error || x.attributes["baton.reason"].AsString() != "timeout" {
			t.Errorf("%v: %v %q", x, x.status, x.text)
		}
		_ = first.Unlock(t.Context())
		l, err := a.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		svc.Expire(l.Session())
		synctest.Wait()
		hold := s.all[len(s.all)-1]
		if hold.status != codes.Error || !strings.Contains(hold.text, "session lost") || hold.attributes["baton.cause"].AsString() != "session_lost" ||
			hold.ended.Sub(hold.began) != time.Minute || len(hold.events) != 1 || hold.events[0] != "held long" {
			t.Errorf("%v: %v %q, events %q", hold, hold.status, hold.text, hold.events)
		}
	}, recipes.WithHoldWarning(time.Second))
}

// TestGlobalProvidersAreTheDefault: they do nothing unless the program sets
// them.
func TestGlobalProvidersAreTheDefault(t *testing.T) {
	o, err := otelobserve.New()
	if err != nil {
		t.Fatal(err)
	}
	for kind := event.SessionOpened; kind <= event.Created; kind++ {
		o.Observe(event.Event{Kind: kind, Context: t.Context(), Err: io.EOF, Queue: "mutex/jobs", Token: 1})
	}
}

func TestNewReturnsTheProvidersError(t *testing.T) {
	if _, err := otelobserve.New(otelobserve.WithMeterProvider(&sums{fails: io.ErrUnexpectedEOF})); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestClientsOfTwoServicesLoseNoSpans: sessions and tokens of two services in
// memory have the same numbers.
func TestClientsOfTwoServicesLoseNoSpans(t *testing.T) {
	s := &spans{}
	o, err := otelobserve.New(otelobserve.WithTracerProvider(s))
	if err != nil {
		t.Fatal(err)
	}
	var held []*mutex.Lock
	var clients []*coordinator.Client
	for range 2 {
		c, err := coordinator.New(memory.NewService().Driver(), quiet, coordinator.WithObserver(o))
		if err != nil {
			t.Fatal(err)
		}
		m, _ := mutex.New(c, "n")
		l, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held, clients = append(held, l), append(clients, c)
	}
	for i, l := range held {
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		_ = clients[i].Close(t.Context())
	}
	ended := 0
	for _, span := range s.all {
		if span.name == "baton.hold" && !span.ended.IsZero() {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("%d spans of holds have ended, want 2", ended)
	}
}
