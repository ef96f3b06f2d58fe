package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// everything is one object of each type that a user can get from a client, in
// use where possible.
func everything(t *testing.T, c *coordinator.Client) map[string]any {
	t.Helper()
	ctx := context.Background()
	all := map[string]any{"client": c}
	keep := func(name string) func(v any, err error) any {
		return func(v any, err error) any {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all[name] = v
			return v
		}
	}
	has := func(name string, v any, err error) { t.Helper(); keep(name)(v, err) }
	s, err := engine.Of(c).Session(ctx)
	has("session", s, err)
	m, err := mutex.New(c, "n")
	has("mutex", m, err)
	l, err := m.Lock(ctx)
	has("lock", l, err)
	rw, err := rwlock.New(c, "n")
	has("rwlock", rw, err)
	w, err := rw.Lock(ctx)
	has("write lock", w, err)
	r, err := rw.RLock(w.Context())
	has("downgraded lock", r, err)
	sem, err := semaphore.New(c, "n", 3)
	has("semaphore", sem, err)
	p, err := sem.Acquire(ctx, 2)
	has("permit", p, err)
	e, err := election.New(c, "n")
	has("election", e, err)
	term, err := e.Campaign(ctx, []byte("v"))
	has("term", term, err)
	all["health"] = &election.Health{}
	queue, err := recipes.NewQueue(c, "custom", "n")
	has("queue", queue, err)
	hold, err := queue.Acquire(ctx, recipes.Request{Mode: "x", Rule: recipes.Exclusive})
	has("hold", hold, err)
	all["follower"] = queue.Follow()
	return all
}

// argument returns an argument for a method. If it has to be real, it is one of
// the existing objects.
func argument(typ reflect.Type, all map[string]any) reflect.Value {
	if typ == reflect.TypeFor[*recipes.Hold]() { // to acquire
		return reflect.ValueOf(new(recipes.Hold))
	}
	for _, v := range all {
		if reflect.TypeOf(v) == typ {
			return reflect.ValueOf(v)
		}
	}
	switch {
	case typ == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(context.Background())
	case typ == reflect.TypeFor[driver.Queue]():
		return reflect.ValueOf(driver.Queue("mutex/n"))
	case typ == reflect.TypeFor[driver.Contender]():
		return reflect.ValueOf(driver.Contender{ID: "0123456789abcdef", Mode: "x"})
	case typ == reflect.TypeFor[fence.Sequencer]():
		return reflect.ValueOf(fence.Sequencer{
			Scope: fence.Scope{Service: "s", Kind: "mutex", Name: "n"}, Token: 1, Key: "k"})
	case typ == reflect.TypeFor[driver.Token]():
		return reflect.ValueOf(driver.Token(1))
	case typ == reflect.TypeFor[recipes.Request]():
		return reflect.ValueOf(recipes.Request{Mode: "x", Rule: recipes.Exclusive})
	case typ.Kind() == reflect.Func:
		return reflect.MakeFunc(typ, func([]reflect.Value) []reflect.Value {
			out := make([]reflect.Value, typ.NumOut())
			for i := range out {
				out[i] = reflect.Zero(typ.Out(i))
			}
			return out
		})
	case typ.Kind() == reflect.Int:
		return reflect.ValueOf(1).Convert(typ)
	case typ.Kind() == reflect.String:
		return reflect.ValueOf("y").Convert(typ)
	}
	return reflect.Zero(typ)
}

// errorOf calls a method and returns its error, also that of a returned
// iterator. A panic is an error too.
func errorOf(method reflect.Value, all map[string]any) (err error, fallible bool) {
	defer func() {
		if p := recover(); p != nil {
			err, fallible = fmt.Errorf("panic: %v", p), true
		}
	}()
	var in []reflect.Value
	for i := range method.Type().NumIn() {
		if method.Type().IsVariadic() && i == method.Type().NumIn()-1 {
			break
		}
		in = append(in, argument(method.Type().In(i), all))
	}
	out := method.Call(in)
	if len(out) == 0 {
		return nil, false
	}
	switch last := out[len(out)-1].Interface().(type) {
	case error:
		return last, true
	case iter.Seq2[recipes.Contender, error]:
		for _, err := range last {
			return err, true
		}
		return errors.New("the sequence is empty"), true
	}
	return nil, out[len(out)-1].Type() == reflect.TypeFor[error]()
}

// fine are the methods that do not need the service, and their errors after
// Close.
var fine = map[string]error{
	"client.Close": nil, // the outcome of the first
	"client.Queue": nil, // sends nothing
	// Releases after Close: the first returns the cause, the next ErrNotHeld.
	"lock.Unlock": coordinator.ErrNotHeld, "write lock.Unlock": coordinator.ErrNotHeld,
	"downgraded lock.Unlock": coordinator.ErrNotHeld,
	"permit.Release":         coordinator.ErrNotHeld, "permit.ReleasePart": coordinator.ErrNotHeld,
	"term.Resign": coordinator.ErrNotHeld, "hold.Release": coordinator.ErrNotHeld,
	// The entries have left with the session.
	"session.Leave": coordinator.ErrNotHeld, "session.Forget": nil,
	// They report the end with their own error.
	"lock.Err": coordinator.ErrReleased, "write lock.Err": coordinator.ErrReleased,
	"downgraded lock.Err": coordinator.ErrReleased,
	"permit.Err":          coordinator.ErrReleased, "term.Err": coordinator.ErrReleased,
	"hold.Err": coordinator.ErrReleased, "hold.Check": coordinator.ErrReleased,
	"permit.Slots": coordinator.ErrReleased, "hold.Convert": coordinator.ErrReleased,
	"hold.Write":     coordinator.ErrReleased,
	"lock.Sequencer": coordinator.ErrReleased, "write lock.Sequencer": coordinator.ErrReleased,
	"downgraded lock.Sequencer": coordinator.ErrReleased,
	"permit.Sequencer":          coordinator.ErrReleased, "term.Sequencer": coordinator.ErrReleased,
	"hold.Sequencer": coordinator.ErrReleased,
	"lock.Wanted":    coordinator.ErrReleased, "write lock.Wanted": coordinator.ErrReleased,
	"downgraded lock.Wanted": coordinator.ErrReleased,
	"hold.Wanted":            coordinator.ErrReleased, "term.Proclaim": coordinator.ErrReleased,
	"hold.Do": coordinator.ErrReleased,
}

// TestEveryMethodAfterClose calls every public method of all objects of a
// client after Close, twice concurrently and once more. None panics or waits,
// and each that can fail returns ErrClosed or ErrNotHeld.
func TestEveryMethodAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := memory.NewService().Driver()
		svc := link.Service()
		c, err := coordinator.New(link,
			coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		endWithTest(t, link, c)
		all := everything(t, c)
		var closing sync.WaitGroup
		for range 3 {
			closing.Go(func() {
				if err := c.Close(context.Background()); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		}
		closing.Wait()
		for name, v := range all {
			if h, ok := v.(interface{ Err() error }); ok &&
				!errors.Is(h.Err(), coordinator.ErrClosed) {
				t.Errorf("%s.Err = %v, want ErrClosed", name, h.Err())
			}
		}
		before := svc.Stats()
		var mu sync.Mutex
		methods, fallible := 0, 0
		var wg sync.WaitGroup
		for name, v := range all {
			for i := range reflect.TypeOf(v).NumMethod() {
				full := name + "." + reflect.TypeOf(v).Method(i).Name
				call := func() {
					err, can := errorOf(reflect.ValueOf(v).Method(i), all)
					mu.Lock()
					defer mu.Unlock()
					methods++
					if !can {
						return
					}
					fallible++
					also, known := fine[full]
					// no error is expected
					if !errors.Is(err, coordinator.ErrClosed) && !(known && errors.Is(err, also)) {
						t.Errorf("%s = %v, want ErrClosed", full, err)
					}
				}
				wg.Go(func() { call(); call() })
				wg.Go(call)
			}
		}
		wg.Wait()
		t.Logf("%d calls, %d of them to methods that can fail", methods, fallible)
		if methods < 250 || fallible < 120 {
			t.Errorf("only %d calls, %d of them to methods that can fail: where are the others?",
				methods, fallible)
		}
		if after := svc.Stats(); after.Sessions != 0 || after.Watches != 0 ||
			!reflect.DeepEqual(after.Requests, before.Requests) {
			t.Errorf("calls after Close reached the service: %+v, %+v before", after, before)
		}
	})
}
