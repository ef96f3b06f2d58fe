package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// asked is a context that counts calls of Err.
type asked struct {
	context.Context
	n *atomic.Int64
}

func (a asked) Err() error {
	a.n.Add(1)
	return a.Context.Err()
}

// TestEndsAreOverWhenTheyWereCalled: a set of n members has n functions, and
// each of its members calls Run.
func TestEndsAreOverWhenTheyWereCalled(t *testing.T) {
	const many = 100
	ctx, cancel := context.WithCancel(t.Context())
	var ends engine.Ends
	var errs atomic.Int64
	var stops []func()
	calls := make([]int, many)
	for i := range calls {
		stops = append(stops, ends.Add(asked{ctx, &errs}, func() { calls[i]++ }))
	}
	stops[1]()
	cancel()
	errs.Store(0)
	for range many {
		ends.Run()
	}
	late := 0
	ends.Add(ctx, func() { late++ })
	ends.Run()
	for i, n := range calls {
		if i == 1 && n != 0 || i != 1 && n != 1 {
			t.Fatalf("function %d was called %d times; only 1 was stopped", i, n)
		}
		stops[i]()
	}
	if errs.Load() > many || late != 1 {
		t.Errorf("%d calls of Err, and %d of a function added later", errs.Load(), late)
	}
}

// TestEndsWithinAreRunByTheOuterOnes while they are a part of them, however
// deep, and not looked at after that.
func TestEndsWithinAreRunByTheOuterOnes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var outer engine.Ends
	var middle, inner, closed, empty engine.EndsWithin
	var errs atomic.Int64
	middle.Begin(ctx, &outer)
	inner.Begin(ctx, &middle)
	closed.Begin(asked{ctx, &errs}, &outer)
	empty.Begin(asked{ctx, &errs}, &outer)
	calls := 0
	call := func() { calls++ }
	stop := inner.Add(ctx, call)
	inner.Add(ctx, call)
	stop()
	closed.Add(ctx, call)()
	closed.Close()
	empty.Close()
	errs.Store(0)
	outer.Run()
	if calls != 0 {
		t.Errorf("%d calls before the end", calls)
	}
	cancel()
	outer.Run()
	outer.Run()
	if calls != 1 || errs.Load() != 0 {
		t.Errorf("%d calls after the end; %d looks at what was closed", calls, errs.Load())
	}
	if middle.Add(ctx, call); calls != 2 {
		t.Error("a function that was added after the end was not called")
	}
}

// TestRunWaitsForTheCallsOfAnotherRun: either of the two may then remove the
// entry.
func TestRunWaitsForTheCallsOfAnotherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ends engine.Ends
		var over atomic.Bool
		first, slow := true, make(chan struct{})
		var once sync.Mutex
		ends.Add(ctx, func() {
			once.Lock()
			wait := first
			first = false
			once.Unlock()
			if wait {
				<-slow
			}
			over.Store(true)
		})
		cancel()
		go ends.Run()
		synctest.Wait()
		ends.Run()
		if !over.Load() {
			t.Error("the second Run returned before the function had returned")
		}
		close(slow)
	})
}

// TestHoldsLearnOnceThatTheirSessionEnded, although every request and every
// watch that fails with the session's end makes sure that they know.
func TestHoldsLearnOnceThatTheirSessionEnded(t *testing.T) {
	const holds, callers = 20, 30
	var slow chan struct{}
	within(t, func(w world) {
		slow = make(chan struct{})
		s := w.session()
		var told atomic.Int64
		for range holds {
			s.Hold(func() {}, func() { told.Add(1) }, func() {})
		}
		go s.Lose()
		synctest.Wait() // an observer delays the rest of the end
		for range callers {
			s.Lose()
		}
		if told.Load() != holds {
			w.Errorf("%d holds were told %d times", holds, told.Load())
		}
		close(slow)
	}, coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
		if e.Kind == event.SessionEnded {
			<-slow
		}
	})))
}
