package observe_test

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/observe"
	"github.com/baton-go/baton/mutex"
)

// A test counts what its code has done with locks.
func ExampleRecorder() {
	ctx := context.Background()
	var seen observe.Recorder
	client, _ := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(&seen))
	m, _ := mutex.New(client, "jobs")
	_ = m.Do(ctx, func(context.Context) error { return nil })
	_ = client.Close(ctx)

	fmt.Println("granted:", seen.Count(coordinator.EventGranted, "mutex"))
	fmt.Println("lost:", seen.Count(coordinator.EventLost))
	for _, e := range seen.Events() {
		if e.Line != "" {
			fmt.Println(e.Kind, e.Line)
		}
	}
	// Output:
	// granted: 1
	// lost: 0
	// joined mutex/jobs
	// granted mutex/jobs
	// released mutex/jobs
}

// printer is a sink for gauges, which it prints.
type printer struct{}

func (printer) Record(id observe.ID, v float64, values ...string) {
	if m := observe.Metrics()[id]; m.Type == observe.Gauge && v != 0 {
		fmt.Printf("%s%q %+g\n", m.Name, values, v)
	}
}

// A sink of one's own keeps the metrics wherever it likes.
func ExampleNew() {
	ctx := context.Background()
	class := func(_, name string) string { return name[:1] }
	client, _ := coordinator.New(memory.NewService().Driver(), coordinator.WithTTL(time.Hour), coordinator.WithObserver(observe.New(printer{}, class)))
	m, _ := mutex.New(client, "jobs")
	_ = m.Do(ctx, func(context.Context) error { return nil })
	_ = client.Close(ctx)
	// Output:
	// baton_sessions["connected"] +1
	// baton_waiters["mutex" "j"] +1
	// baton_waiters["mutex" "j"] -1
	// baton_holders["mutex" "j"] +1
	// baton_holders["mutex" "j"] -1
	// baton_sessions["connected"] -1
}
