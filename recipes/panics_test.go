package recipes_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/recipes"
)

// TestAcquireThatPanicsLeavesTheQueue, or whose goroutine exits: an
// event.Direct and Request.Queued are called between the join and the hold. The
// caller, perhaps an HTTP server that recovers, gets no handle to release. Nor
// does a session stay that the client does not know.
func TestAcquireThatPanicsLeavesTheQueue(t *testing.T) {
	for how, rude := range map[string]func(){
		"panic": func() { panic("rude") },
		"exit":  runtime.Goexit,
	} {
		for _, at := range []event.Kind{event.SessionOpened, event.Joined, event.Granted, 0} {
			t.Run(how+" at "+at.String(), func(t *testing.T) {
				var once sync.Once
				observer := event.DirectFunc(func(e event.Event) {
					if e.Kind == at {
						once.Do(rude)
					}
				})
				inWorld(t, func(w world) {
					returned := make(chan struct{})
					go func() {
						defer close(returned)
						defer func() { _ = recover() }()
						r := recipes.Request{Op: "lock", Mode: "x"}
						if at == 0 {
							r.Queued = func() { once.Do(rude) }
						}
						_, _ = w.a.queue.Acquire(context.Background(), r)
						t.Error("Acquire returned")
					}()
					<-returned
					h, err := w.b.queue.Acquire(w.bounded(time.Second), recipes.Request{Op: "lock", Mode: "x"})
					check(t, err)
					w.release(h)
					h, err = w.a.queue.Acquire(w.bounded(time.Second), recipes.Request{Op: "lock", Mode: "x"})
					check(t, err)
					w.release(h)
				}, coordinator.WithObserver(observer))
			})
		}
	}
}
