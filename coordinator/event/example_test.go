package event_test

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

func ExampleObserverFunc() {
	show := event.ObserverFunc(func(e event.Event) {
		switch e.Kind {
		case event.Granted, event.Released, event.Lost:
			fmt.Println(e.Kind, e.Queue)
		}
	})
	client, _ := coordinator.New(memory.NewService().Driver(), coordinator.WithObserver(show))
	m, _ := mutex.New(client, "jobs")
	_ = m.Do(context.Background(), func(context.Context, *mutex.Lock) error { return nil })
	_ = client.Close(context.Background())
	// Output:
	// granted mutex/jobs
	// released mutex/jobs
}
