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

// printer is a sink that prints the changes of gauges.
type printer struct{}

func (printer) Record(_ context.Context, id observe.ID, v float64, values ...string) {
	if m := observe.Metrics()[id]; m.Type == observe.Gauge && v != 0 {
		fmt.Printf("%s%q %+g\n", m.Name, values, v)
	}
}

// Implement a Sink to send the metrics to another system.
func ExampleNew() {
	ctx := context.Background()
	class := func(_, name string) string { return name[:1] }
	client, _ := coordinator.New(memory.NewService().Driver(), coordinator.WithTTL(time.Hour), coordinator.WithObserver(observe.New(printer{}, class)))
	m, _ := mutex.New(client, "jobs")
	_ = m.Do(ctx, func(context.Context, *mutex.Lock) error { return nil })
	_ = client.Close(ctx)
	// Output:
	// baton_sessions["connected"] +1
	// baton_waiters["mutex" "j"] +1
	// baton_waiters["mutex" "j"] -1
	// baton_holders["mutex" "j"] +1
	// baton_holders["mutex" "j"] -1
	// baton_sessions["connected"] -1
}
