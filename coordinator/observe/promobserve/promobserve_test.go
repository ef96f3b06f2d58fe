package promobserve_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/observe"
	"github.com/baton-go/baton/coordinator/observe/promobserve"
	"github.com/baton-go/baton/mutex"
)

// The class of a name is here its first part.
func Example() {
	ctx := context.Background()
	metrics := promobserve.New(promobserve.WithClass(func(_, name string) string {
		class, _, _ := strings.Cut(name, "/")
		return class
	}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	client, _ := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(metrics))
	defer func() { _ = client.Close(ctx) }()
	m, _ := mutex.New(client, "orders/4711")
	_ = m.Do(ctx, func(context.Context, *mutex.Lock) error { return nil })

	families, _ := registry.Gather()
	for _, f := range families {
		if name := f.GetName(); name == "baton_grants_total" || name == "baton_releases_total" {
			series := f.GetMetric()[0]
			for _, l := range series.GetLabel() {
				fmt.Printf("%s=%q ", l.GetName(), l.GetValue())
			}
			fmt.Println(name, series.GetCounter().GetValue())
		}
	}
	// Output:
	// class="orders" contended="false" kind="mutex" op="lock" baton_grants_total 1
	// class="orders" kind="mutex" baton_releases_total 1
}

// gather returns the number of series per metric.
func gather(t *testing.T, r prometheus.Gatherer) map[string]int {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, f := range families {
		names[f.GetName()] = len(f.GetMetric())
	}
	return names
}

// TestCollectorKeepsToPrometheusRules: a pedantic registry compares
// descriptions with collected metrics, which change meanwhile.
func TestCollectorKeepsToPrometheusRules(t *testing.T) {
	metrics := promobserve.New()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(metrics); err != nil {
		t.Fatal(err)
	}
	if names := gather(t, registry); names["baton_sessions"] != 2 || names["baton_sessions_ended_total"] != 2 {
		t.Errorf("before any event: %v", names)
	}
	client, err := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(metrics))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		m, err := mutex.New(client, fmt.Sprint("jobs", i%2))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range 100 {
				if err := m.Do(t.Context(), func(context.Context, *mutex.Lock) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				gather(t, registry)
			}
		})
	}
	wg.Wait()
	names := gather(t, registry)
	var known []string
	for _, m := range observe.Metrics() {
		known = append(known, m.Name)
	}
	for name := range names {
		if !slices.Contains(known, name) {
			t.Errorf("package observe has no metric %s", name)
		}
	}
	if names["baton_holders"] != 1 || names["baton_lost_total"] != 3 { // one kind and class, whatever the names
		t.Errorf("series: %v", names)
	}
	if err := client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTwoCollectorsShareARegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, service := range []string{"etcd", "zookeeper"} {
		if err := prometheus.WrapRegistererWith(prometheus.Labels{"service": service}, registry).Register(promobserve.New()); err != nil {
			t.Fatal(err)
		}
	}
	if names := gather(t, registry); names["baton_sessions"] != 4 {
		t.Errorf("series: %v", names)
	}
}

// BenchmarkLockUnlock measures an observed Lock and Unlock. Package mutex has
// the same benchmark without an observer.
func BenchmarkLockUnlock(b *testing.B) {
	client, err := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(promobserve.New()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	m, err := mutex.New(client, "jobs")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(context.Background())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestCallsHaveExemplars with the labels that the caller's context gives.
func TestCallsHaveExemplars(t *testing.T) {
	type key struct{}
	metrics := promobserve.New(promobserve.WithExemplar(func(ctx context.Context) prometheus.Labels {
		if id, ok := ctx.Value(key{}).(string); ok {
			return prometheus.Labels{"trace_id": id}
		}
		return nil
	}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	client, err := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(metrics))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	m, _ := mutex.New(client, "n")
	if err := m.Do(context.WithValue(t.Context(), key{}, "4711"), func(context.Context, *mutex.Lock) error { return nil }); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetCounter().GetExemplar().GetLabel() {
				found[f.GetName()] = found[f.GetName()] || l.GetValue() == "4711"
			}
			for _, b := range m.GetHistogram().GetBucket() {
				for _, l := range b.GetExemplar().GetLabel() {
					found[f.GetName()] = found[f.GetName()] || l.GetValue() == "4711"
				}
			}
		}
	}
	if !found["baton_grants_total"] || !found["baton_wait_seconds"] {
		t.Errorf("exemplars: %v", found)
	}
}
