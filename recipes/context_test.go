package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// late is a hold of a whose context is asked for late.
type late struct {
	world
	hold  *recipes.Hold
	outer *recipes.Hold // of b; nil if hold is not within another one
}

func (l late) lose(h *recipes.Hold) {
	l.svc.Expire(h.Session())
	synctest.Wait()
}

// ofLate are the ways in which such a hold can end, with the causes.
var ofLate = map[string]struct {
	end   func(l late)
	cause error
}{
	"none":     {func(late) {}, nil},
	"released": {func(l late) { l.release(l.hold) }, coordinator.ErrReleased},
	"released, and its turn lost": {func(l late) {
		l.release(l.hold)
		l.lose(l.hold)
	}, coordinator.ErrReleased},
	"lost": {func(l late) { l.lose(l.hold) }, coordinator.ErrSessionLost},
	"lost and released": {func(l late) {
		l.lose(l.hold)
		wantErr(l.T, l.hold.Release(l.Context()), coordinator.ErrSessionLost)
	}, coordinator.ErrSessionLost},
	"removed": {func(l late) {
		time.Sleep(time.Second) // the entry is watched
		l.svc.Remove(name, l.hold.Place().Key)
		synctest.Wait()
	}, coordinator.ErrRemoved},
	"held too long": {func(l late) {
		time.Sleep(2 * time.Minute)
		wantErr(l.T, l.hold.Err())
	}, recipes.ErrHeldTooLong},
	"held too long and released": {func(l late) {
		time.Sleep(2 * time.Minute)
		l.release(l.hold)
	}, recipes.ErrHeldTooLong},
	"held too long and lost": {func(l late) {
		time.Sleep(2 * time.Minute)
		l.lose(l.hold)
	}, recipes.ErrHeldTooLong},
	"lost, and its time over": {func(l late) {
		l.lose(l.hold)
		time.Sleep(2 * time.Minute)
	}, coordinator.ErrSessionLost},
	"the outer hold lost": {func(l late) { l.lose(l.outer) }, coordinator.ErrSessionLost},
	"the outer hold lost, and released": {func(l late) {
		l.lose(l.outer)
		l.release(l.hold)
	}, coordinator.ErrSessionLost},
	"released, and the outer hold lost": {func(l late) {
		l.release(l.hold)
		l.lose(l.outer)
	}, coordinator.ErrReleased},
	"closed": {func(l late) { wantErr(l.T, l.a.client.Close(l.Context())) }, coordinator.ErrClosed},
}

// TestContextThatIsAskedForLateIsThatOfTheHold: of a turn that serves several
// calls, a hold's context is made when it is asked for. It has the end and the
// cause of one that was asked for at once, and so has that of work under it.
func TestContextThatIsAskedForLateIsThatOfTheHold(t *testing.T) {
	for kind, turn := range map[string]struct {
		request recipes.Request
		opts    []recipes.Option
	}{
		"own":    {exclusive, nil},
		"kept":   {exclusive, []recipes.Option{recipes.WithRetain(time.Hour)}},
		"shared": {sharedRead, []recipes.Option{recipes.WithSharedTurns()}},
	} {
		for how, want := range ofLate {
			for i := range 4 {
				early, alone := i%2 == 0, i < 2
				if alone && strings.Contains(how, "outer") {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, early %v, alone %v", kind, how, early, alone), func(t *testing.T) {
					inWorld(t, func(w world) {
						w.a.queue = newQueue(w, w.a, "queue",
							append([]recipes.Option{recipes.WithMaxHold(time.Minute)}, turn.opts...)...)
						l, ctx := late{world: w}, w.Context()
						if !alone {
							var err error
							l.outer, err = newQueue(w, w.b, "outer").Acquire(ctx, exclusive)
							check(w, err)
							defer func() { _ = l.outer.Release(w.Context()) }()
							ctx = l.outer.Context()
						}
						l.hold = w.hold(w.a, ctx, turn.request)
						defer func() { _ = l.hold.Release(w.Context()) }()
						var asked context.Context
						if early {
							asked = l.hold.Context()
						}
						want.end(l)
						l.check(asked, want.cause)
					})
				})
			}
		}
	}
}

// check reads the context of the hold, and of work under it.
func (l late) check(before context.Context, cause error) {
	l.Helper()
	ctx := l.hold.Context()
	if before != nil && before != ctx {
		l.Error("the hold has two contexts")
	}
	work, stop := l.hold.Under(context.Background())
	defer stop()
	for what, c := range map[string]context.Context{"the hold": ctx, "work": work} {
		select {
		case <-c.Done():
			if c.Err() == nil || cause == nil {
				l.Errorf("the context of %s has ended: %v", what, c.Err())
			}
		default:
			if c.Err() != nil || cause != nil {
				l.Errorf("the context of %s goes on: %v", what, c.Err())
			}
		}
		wantErr(l.T, context.Cause(c), cause)
	}
}

// TestContextIsAskedForAtAnyMoment: all that ask get the same one, which has
// ended when Release returns.
func TestContextIsAskedForAtAnyMoment(t *testing.T) {
	c, err := coordinator.New(memory.NewService().Driver(), quiet)
	check(t, err)
	defer c.Close(context.Background())
	q, err := recipes.NewQueue(c, "test", "queue", recipes.WithRetain(time.Hour))
	check(t, err)
	for range 1000 {
		h, err := q.Acquire(context.Background(), exclusive)
		check(t, err)
		var all sync.WaitGroup
		var got [3]context.Context
		for i := range got {
			all.Go(func() {
				if i == 0 {
					_, stop := h.Under(context.Background())
					defer stop()
				}
				got[i] = h.Context()
			})
		}
		wantErr(t, h.Release(context.Background()))
		last := h.Context()
		wantErr(t, context.Cause(last), coordinator.ErrReleased)
		all.Wait()
		for _, ctx := range got {
			if ctx != last {
				t.Fatal("the hold has two contexts")
			}
		}
	}
}
