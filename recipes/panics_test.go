package recipes_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
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

// TestCallWhoseRetryPanicsLeavesTheQueue: an event.Direct is called, too, when
// a request had no reply. A join may have been applied by then, and a release
// has no handle for another attempt.
func TestCallWhoseRetryPanicsLeavesTheQueue(t *testing.T) {
	request := recipes.Request{Op: "lock", Mode: "x"}
	for _, at := range []string{"acquire", "release", "release after a lost conversion"} {
		t.Run(at, func(t *testing.T) {
			var rude atomic.Bool
			observer := event.DirectFunc(func(e event.Event) {
				ours := e.Kind == event.Retried && (e.Op == "join" || e.Op == "leave")
				if ours && rude.CompareAndSwap(true, false) {
					panic("rude")
				}
			})
			inWorld(t, func(w world) {
				h := w.hold(w.a, context.Background(), request)
				if at == "acquire" {
					w.release(h)
				}
				if at == "release after a lost conversion" {
					w.svc.OnRequest(func(r memory.Request) memory.Fate {
						return memory.Fate{DropReply: r.Op == memory.OpConvert}
					})
					_ = h.Convert(w.bounded(time.Second), "r")
				}
				rude.Store(true)
				joins := at == "acquire" // its join is applied
				w.svc.OnRequest(func(r memory.Request) memory.Fate {
					lost := r.Driver == w.a.link && r.Op != memory.OpRenew && rude.Load()
					return memory.Fate{DropReply: lost && joins, DropRequest: lost && !joins}
				})
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					defer func() { _ = recover() }()
					if at == "acquire" {
						_, _ = w.a.queue.Acquire(context.Background(), request)
					} else {
						_ = h.Release(context.Background())
					}
					t.Error("the call returned")
				}()
				<-returned
				w.svc.OnRequest(nil)
				if h, err := w.b.queue.Acquire(w.bounded(2*time.Second), request); err != nil {
					t.Errorf("the entry stays: %v", err)
				} else {
					w.release(h)
				}
			}, coordinator.WithObserver(observer))
		})
	}
}
