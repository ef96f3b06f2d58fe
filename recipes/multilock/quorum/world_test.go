package quorum_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/bubble"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

const nightly driver.Queue = "mutex/nightly"

// world is some services, and what was opened to them.
type world struct {
	testing.TB
	services []*memory.Service
	clients  []*coordinator.Client
	ttl      time.Duration // of further clients
}

// within runs a test in virtual time with so many services, whose identities
// are in their order.
func within(t *testing.T, services int, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{TB: t, ttl: coordinator.DefaultTTL}
		for i := range services {
			svc := memory.NewService()
			session, err := svc.Driver().Open(t.Context(), time.Minute)
			if err == nil {
				_, err = session.SetRecord(t.Context(), engine.Services, fmt.Appendf(nil, "%032x", i+1), 0)
			}
			if err == nil {
				err = session.Close(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			w.services = append(w.services, svc)
		}
		f(w)
		w.close()
	})
}

func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range w.clients {
		_ = c.Close(ctx) // fails where a test leaves the service away
	}
}

// caller is a process with a client and a link to each service.
type caller struct {
	*world
	*quorum.Quorum
	clients []*coordinator.Client
	links   []*memory.Driver
}

func (w *world) caller(need int, opts ...recipes.Option) *caller {
	w.Helper()
	return w.callerNamed("", need, opts...)
}

func (w *world) callerNamed(identity string, need int, opts ...recipes.Option) *caller {
	w.Helper()
	p := &caller{world: w}
	opts = append(opts, recipes.WithIdentity(identity))
	for _, svc := range w.services {
		link := svc.Driver()
		c, err := coordinator.New(link, coordinator.WithTTL(w.ttl), coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			w.Fatal(err)
		}
		p.clients, p.links = append(p.clients, c), append(p.links, link)
		w.clients = append(w.clients, c)
		bubble.EndIfFailed(w, link, c)
	}
	p.Quorum = w.quorum(need, p.clients, opts...)
	return p
}

// reorder gives the quorum its clients in another order.
func (p *caller) reorder(need int, order []int) {
	p.Helper()
	var clients []*coordinator.Client
	for _, i := range order {
		clients = append(clients, p.clients[i])
	}
	p.Quorum = p.quorum(need, clients)
}

// tokens returns the tokens of a hold in the order of the services, 0 where it
// shows none.
func (w *world) tokens(l *quorum.Lock) []coordinator.Token {
	all := make([]coordinator.Token, len(w.services))
	for _, s := range l.Sequencers() {
		var i int
		if _, err := fmt.Sscanf(s.Service, "%x", &i); err != nil || s.Kind != "mutex" || s.Name != "nightly" {
			w.Errorf("sequencer %s: %v", s, err)
		}
		all[i-1] = s.Token
	}
	return all
}

func (w *world) quorum(need int, clients []*coordinator.Client, opts ...recipes.Option) *quorum.Quorum {
	w.Helper()
	q, err := quorum.New(clients, "nightly", need, opts...)
	if err != nil {
		w.Fatal(err)
	}
	return q
}

func (p *caller) lock() *quorum.Lock {
	p.Helper()
	l, err := p.Lock(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return l
}

func (w *world) unlock(l *quorum.Lock) {
	w.Helper()
	if err := l.Unlock(w.Context()); err != nil {
		w.Error(err)
	}
}

// cut cuts the links to some services.
func (p *caller) cut(services ...int) {
	for _, i := range services {
		p.links[i].Cut()
	}
}

func (p *caller) heal() {
	for _, link := range p.links {
		link.Heal()
	}
}

// held checks at which services a hold has a token and the first entry.
func (w *world) held(l *quorum.Lock, want string) {
	w.Helper()
	got := ""
	for i, token := range w.tokens(l) {
		entries := w.services[i].Snapshot(nightly)
		switch first := len(entries) > 0 && entries[0].Token == token; {
		case token > 0 && first:
			got += "x"
		case token == 0:
			got += "-"
		default:
			got += "!"
		}
	}
	if got != want {
		w.Errorf("held at %s, want %s", got, want)
	}
}

// empty checks that nobody holds or waits at any service.
func (w *world) empty() {
	w.Helper()
	synctest.Wait()
	for i, svc := range w.services {
		for _, q := range svc.Queues() {
			if entries := svc.Snapshot(q); len(entries) > 0 {
				w.Errorf("service %d has %v in %s", i, entries, q)
			}
		}
	}
}

// took checks how long f takes.
func (w *world) took(want time.Duration, f func()) {
	w.Helper()
	began := time.Now()
	f()
	if got := time.Since(began); got != want {
		w.Errorf("it took %v, want %v", got, want)
	}
}
