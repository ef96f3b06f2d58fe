package recipes_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/bubble"
	"github.com/baton-go/baton/recipes"
)

// name is the queue of all worlds.
const name = driver.Queue("test/queue")

// quiet is a logger that writes nothing.
var quiet = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// world is a service with two clients and their queues of the same name, in
// virtual time.
type world struct {
	*testing.T
	svc  *memory.Service
	a, b party
}

type party struct {
	link   *memory.Driver
	client *coordinator.Client
	queue  *recipes.Queue
}

// inWorld runs a test and closes the clients. It fails if a goroutine or an
// entry is left.
func inWorld(t *testing.T, f func(w world), opts ...coordinator.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService()}
		w.a, w.b = newParty(t, w.svc, opts...), newParty(t, w.svc)
		f(w)
		for _, p := range []party{w.a, w.b} {
			if err := p.client.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		if st := w.svc.Stats(); st.Entries != 0 || st.Watches != 0 || st.Sessions != 0 {
			t.Errorf("left at the service: %+v", st)
		}
	})
}

func newParty(t *testing.T, svc *memory.Service, opts ...coordinator.Option) party {
	t.Helper()
	p := party{link: svc.Driver()}
	p.client, p.queue = queueOn(t, p.link, opts...)
	return p
}

// unused returns a client for the names of what is tried later. It is for code
// in no bubble: a client of newParty would last ten real minutes if the test
// fails.
func unused(t *testing.T) *coordinator.Client {
	t.Helper()
	c, err := coordinator.New(memory.NewService().Driver(), quiet)
	check(t, err)
	return c
}

func queueOn(
	t *testing.T, d driver.Driver, opts ...coordinator.Option,
) (*coordinator.Client, *recipes.Queue) {
	t.Helper()
	c, err := coordinator.New(d, append([]coordinator.Option{quiet}, opts...)...)
	check(t, err)
	bubble.EndIfFailed(t, d, c)
	q, err := recipes.NewQueue(c, "test", "queue")
	check(t, err)
	return c, q
}

// lesser is a write that can be downgraded to a read.
func lesser() recipes.Request { w := write; w.Lesser = "r"; return w }

// hold acquires.
//
//nolint:revive // the party first
func (w world) hold(p party, ctx context.Context, r recipes.Request) *recipes.Hold {
	w.Helper()
	h, err := p.queue.Acquire(ctx, r)
	if err != nil {
		w.Fatalf("%s: %v", r.Op, err)
	}
	return h
}

func (w world) release(h *recipes.Hold) {
	w.Helper()
	if err := h.Release(context.Background()); err != nil {
		w.Errorf("release: %v", err)
	}
}

// both returns a hold of both levels: a write and a read within it.
func (w world) both() (upper, lower *recipes.Hold) {
	w.Helper()
	upper = w.hold(w.a, w.Context(), lesser())
	return upper, w.hold(w.a, upper.Context(), read)
}

// bounded returns a context that ends after d.
func (w world) bounded(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	w.Cleanup(cancel)
	return ctx
}

// modes returns the modes of the queue's entries, in order.
func (w world) modes() string {
	var s string
	for _, e := range w.svc.Snapshot(name) {
		s += e.Mode
	}
	return s
}

func (w world) wantModes(want string) {
	w.Helper()
	if got := w.modes(); got != want {
		w.Errorf("the queue is %q, want %q", got, want)
	}
}

// on gives fates to the requests of an operation, in order. The last is that of
// all later ones, too.
func (w world) on(op memory.Op, fates ...memory.Fate) { w.svc.OnRequest(inOrder(op, fates...)) }

func inOrder(op memory.Op, fates ...memory.Fate) func(memory.Request) memory.Fate {
	var n atomic.Int64
	return func(r memory.Request) memory.Fate {
		if r.Op != op {
			return memory.Fate{}
		}
		return fates[min(int(n.Add(1)), len(fates))-1]
	}
}

// start runs a call in a goroutine, until all goroutines are blocked. The
// channel delivers its error.
func start(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	synctest.Wait()
	return done
}

// check ends the test unless err is nil.
func check(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %v, want %v", err, w)
		}
	}
	if len(want) == 0 && err != nil {
		t.Errorf("error %v", err)
	}
}
