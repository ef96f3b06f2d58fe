package counter_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/counter"
)

const queue = driver.Queue("counter/n")

// world is a service in virtual time.
type world struct {
	*testing.T
	svc *memory.Service
}

// inWorld runs a test and closes its clients. It fails if a session, an entry,
// a watch or a goroutine is left.
func inWorld(t *testing.T, f func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService()}
		t.Cleanup(func() {
			synctest.Wait()
			if s := w.svc.Stats(); s.Entries != 0 || s.Watches != 0 || s.Sessions != 0 {
				t.Errorf("left behind: %+v", s)
			}
		})
		f(w)
	})
}

// party is a client with its counter.
type party struct {
	world
	link   *memory.Driver
	client *coordinator.Client
	*counter.Counter
}

func (w world) join() party {
	w.Helper()
	return w.joinBy(func(link *memory.Driver) driver.Driver { return link })
}

func (w world) joinBy(over func(*memory.Driver) driver.Driver) party {
	w.Helper()
	p := party{world: w, link: w.svc.Driver()}
	var err error
	p.client, err = coordinator.New(over(p.link), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		p.Counter, err = counter.New(p.client, "n")
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

func (p party) add(delta int64) int64 {
	p.Helper()
	n, err := p.Add(p.Context(), delta)
	if err != nil {
		p.Fatalf("add %d: %v", delta, err)
	}
	return n
}

func (p party) is(want int64) {
	p.Helper()
	if n, err := p.Get(p.Context()); err != nil || n != want {
		p.Errorf("the value is %d, %v; want %d", n, err, want)
	}
}

// write writes the record as an operator would.
func (w world) write(value string) {
	w.Helper()
	w.writeTo(queue, value)
}

func (w world) writeTo(queue driver.Queue, value string) {
	w.Helper()
	s, err := w.svc.Driver().Open(w.Context(), coordinatorTTL)
	if err == nil {
		_, err = s.SetRecord(w.Context(), queue, []byte(value), w.svc.Record(queue).Version)
	}
	if err == nil {
		err = s.Close(w.Context())
	}
	if err != nil {
		w.Fatal(err)
	}
}
