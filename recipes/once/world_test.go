package once_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/bubble"
	"github.com/baton-go/baton/recipes/once"
)

const (
	queue = driver.Queue("once/job")
	ttl   = 10 * time.Second
)

// world is a service in virtual time, and the calls of the work.
type world struct {
	*testing.T
	svc *memory.Service

	mu    *sync.Mutex
	calls *[]*call
}

// call is a call of the work.
type call struct {
	key   string
	by    *party
	token coordinator.Token
	ctx   context.Context
	since time.Time // when Do was called; only in a simulation
	over  bool
	err   error // if it is over
}

// inWorld runs a test and closes its clients. It fails if a session, an entry,
// a watch or a goroutine is left.
func inWorld(t *testing.T, f func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService(), mu: new(sync.Mutex), calls: new([]*call)}
		t.Cleanup(func() {
			synctest.Wait()
			if s := w.svc.Stats(); s.Entries != 0 || s.Watches != 0 || s.Sessions != 0 {
				t.Errorf("left behind: %+v", s)
			}
		})
		f(w)
	})
}

// party is a client with its job.
type party struct {
	world
	link   *memory.Driver
	client *coordinator.Client
	*once.Once
	lasts time.Duration // each call of the work
	fails error

	expired atomic.Int64 // when its session was last expired by hand
}

func (w world) join(opts ...once.Option) *party {
	w.Helper()
	return w.joinBy(func(link *memory.Driver) driver.Driver { return link }, opts...)
}

func (w world) joinBy(over func(*memory.Driver) driver.Driver, opts ...once.Option) *party {
	w.Helper()
	p := &party{world: w, link: w.svc.Driver()}
	var err error
	p.client, err = coordinator.New(over(p.link), coordinator.WithTTL(ttl),
		coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		bubble.EndIfFailed(w, p.link, p.client)
		p.Once, err = once.New(p.client, "job", opts...)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		w.svc.Start()
		w.svc.OnRequest(nil)
		p.link.Heal()
		if err := p.client.Close(context.Background()); err != nil {
			w.Errorf("close: %v", err)
		}
	})
	return p
}

// work is the work of a key, for Do.
func (p *party) work(key string) once.Work {
	return func(ctx context.Context, h *once.Hold) error {
		c := &call{key: key, by: p, token: h.Token(), ctx: ctx}
		p.mu.Lock()
		*p.calls = append(*p.calls, c)
		p.mu.Unlock()
		err := p.fails
		select {
		case <-time.After(p.lasts):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		c.over, c.err = true, err
		return err
	}
}

func (p *party) do(key string) error { return p.Do(p.Context(), key, p.work(key)) }

// starts is do in the background. It returns when all goroutines wait.
func (p *party) starts(ctx context.Context, key string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Do(ctx, key, p.work(key)) }()
	synctest.Wait()
	return done
}

// called fails the test unless the work was called for these keys, in order.
func (w world) called(want ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, c := range *w.calls {
		got = append(got, c.key)
	}
	if !slices.Equal(got, want) {
		w.Errorf("the work was called for %q, want %q", got, want)
	}
}

func (w world) is(what string, err, want error) {
	w.Helper()
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		w.Errorf("%s: %v, want %v", what, err, want)
	}
}

func (w world) incomplete(what string, err error) {
	w.Helper()
	if _, ok := errors.AsType[*once.IncompleteError](err); !ok {
		w.Errorf("%s: %v, want an IncompleteError", what, err)
	}
}

// shows fails the test unless the record shows these keys, in order; those of
// runs that are not complete with a question mark.
func (p *party) shows(want ...string) {
	p.Helper()
	runs, err := p.Runs(p.Context())
	var got []string
	for _, r := range runs {
		if r.Ended.IsZero() {
			r.Key += "?"
		}
		got = append(got, r.Key)
	}
	if err != nil || !slices.Equal(got, want) {
		p.Errorf("the record shows %q, %v; want %q", got, err, want)
	}
}

// nth gives a fate to one of the requests of a kind, counted from 0.
func nth(n int, op memory.Op, fate memory.Fate) func(memory.Request) memory.Fate {
	var mu sync.Mutex
	return func(r memory.Request) memory.Fate {
		mu.Lock()
		defer mu.Unlock()
		if r.Op == op {
			if n--; n == -1 {
				return fate
			}
		}
		return memory.Fate{}
	}
}
