// Package scripted_test has scripted faults, in virtual time: requests of all
// recipes on a real etcd, on ZooKeeper in Go and on the service in memory, and
// a network and an operator that do one thing after the other. The simulation
// finds what nobody thought of; these tests show one thing each, in few lines.
package scripted_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/simulation/onetcd"
	"github.com/baton-go/baton/integration/internal/simulation/onzk"
	"github.com/baton-go/baton/integration/internal/ways"
)

const (
	ttl = 10 * time.Second
	// late is how long after the end of a session others learn it at most: etcd
	// looks for leases that have ended, and ZooKeeper's sessions end at ticks.
	late = 2 * time.Second
	// while is long enough for everything that is under way to arrive.
	while = 3 * time.Second
)

// world is a service and its clients in a bubble.
type world struct {
	*testing.T
	simulation.Service
	kind  string
	bound context.Context // a virtual hour: a call that hangs fails

	mu       sync.Mutex
	fate     func(simulation.Message) memory.Fate
	requests map[simulation.Link]int
}

// each runs a test on each service.
func each(t *testing.T, test func(w *world)) {
	t.Helper()
	on(t, "memory", simulation.Memory, test)
	on(t, "etcd", onetcd.Etcd, test)
	on(t, "zookeeper", onzk.Worlds, test)
}

func on(t *testing.T, name string, kind simulation.Kind, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := kind.New(simulation.Conditions{T: t, Seed: 1, Rand: rand.New(plain{}), TTL: ttl, World: nobody{}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			t.Cleanup(cancel)
			w := &world{T: t, Service: s, kind: name, bound: ctx, requests: map[simulation.Link]int{}}
			s.OnMessage(w.arrives)
			s.OnStep(func(memory.Step) {}) // otherwise ZooKeeper's queues are not kept
			test(w)
		})
	})
}

// plain draws what makes no service unusual: three members, none of which is
// ill, and sessions of Baton's own. On etcd members have host names.
type plain struct{}

func (plain) Uint64() uint64 { return math.MaxUint64 }

// nobody is a world without a judge.
type nobody struct{}

func (nobody) TTL() time.Duration        { return ttl }
func (nobody) Reached(string)            {}
func (nobody) Label(string) string       { return "" }
func (nobody) Queue(string) driver.Queue { return "" }
func (nobody) Refuses(bool)              {}
func (nobody) Mended() bool              { return true }
func (nobody) Blame(string, ...any)      {}

func (w *world) Context() context.Context { return w.bound }

func (w *world) arrives(m simulation.Message) memory.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m.Op {
	case "renew", "keep-alive", "sync":
	default:
		w.requests[m.Link]++
	}
	if w.fate == nil {
		return memory.Fate{}
	}
	return w.fate(m)
}

// fates decides about all requests from now on.
func (w *world) fates(fate func(simulation.Message) memory.Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fate = fate
}

// What the services call the requests that change a queue.
var (
	joins  = map[string]bool{"join": true, "multi": true}
	leaves = map[string]bool{"leave": true, "delete": true, "multi": true}
)

// once lets the next request of a client meet a fate, and reports whether it
// did.
func (w *world) once(c *client, ops map[string]bool, fate memory.Fate) (met func() bool) {
	var once sync.Once
	done := false
	w.fates(func(m simulation.Message) (f memory.Fate) {
		if m.Link == c.link && ops[m.Op] {
			once.Do(func() { f, done = fate, true })
		}
		return f
	})
	return func() bool { w.mu.Lock(); defer w.mu.Unlock(); return done }
}

// client is a client with a network of its own.
type client struct {
	*coordinator.Client
	w    *world
	link simulation.Link
}

func (w *world) client(opts ...coordinator.Option) *client {
	w.Helper()
	l, err := w.Connect("client")
	w.ok(err)
	opts = append([]coordinator.Option{coordinator.WithTTL(ttl), coordinator.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	c, err := coordinator.New(l.Driver(), opts...)
	w.ok(err)
	w.Cleanup(func() {
		l.Heal()
		l.Delay(0, 0)
		_ = c.Close(context.Background())
	})
	return &client{c, w, l}
}

// crash ends the client as the service sees it: its connections are closed.
func (c *client) crash() {
	c.link.Cut()
	c.link.Reset()
}

// sent is how many requests the client has sent, but for renewals.
func (c *client) sent() int {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.requests[c.link]
}

// events is how many notices of watches the client has received.
func (c *client) events() int {
	switch l := c.link.(type) {
	case interface{ Events() int }:
		return l.Events()
	case interface{ Notices() int }:
		return l.Notices()
	}
	return c.link.Driver().(*memory.Driver).Stats().Wakeups
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// must checks an error, and goes on.
func (w *world) must(what string, err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("%s: %v, want %v", what, err, want)
	}
}

// settle lets arrive what is under way.
func settle() { time.Sleep(while) }

// recipeOf are the queues of a way's name.
var recipeOf = map[ways.Way]string{ways.Lock: "mutex", ways.Write: "rwlock", ways.Read: "rwlock", ways.Term: "election",
	ways.Permit: "semaphore", ways.Two: "semaphore", ways.All: "semaphore"}

// queued are the entries of a name, at the service itself.
func (w *world) queued(way ways.Way, name string) []driver.Entry {
	w.Helper()
	return w.Snapshot(driver.NewQueue(recipeOf[way], name))
}

// holds waits until so many contenders are queued.
func (w *world) holds(way ways.Way, name string, n int) {
	w.Helper()
	for end := time.Now().Add(10 * ttl); len(w.queued(way, name)) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: %d in the queue of %s, want %d", way, len(w.queued(way, name)), name, n)
		}
	}
}

// hold is a hold, and when it ended.
type hold struct {
	ways.Hold
	at    time.Time
	ended *time.Time
}

func (w *world) held(h ways.Hold) hold {
	ended := new(time.Time)
	context.AfterFunc(h.Context, func() { w.mu.Lock(); *ended = time.Now(); w.mu.Unlock() })
	return hold{h, time.Now(), ended}
}

// take makes a request that must succeed.
func (c *client) take(way ways.Way, name string) hold {
	c.w.Helper()
	h, err := way.Ask(c.w.Context(), c.Client, name)
	c.w.ok(err)
	return c.w.held(h)
}

func (w *world) release(h hold) {
	w.Helper()
	if err := h.Release(w.Context()); err != nil {
		w.Errorf("release: %v", err)
	}
}

// pending is a request in the background.
type pending struct {
	w    *world
	what ways.Way
	done chan struct{}
	hold hold
	err  error
}

// begin asks for a taken name, and returns when the request is queued as the
// n-th.
func (c *client) begin(way ways.Way, name string, n int) *pending {
	c.w.Helper()
	p := c.start(c.w.Context(), way, name)
	c.w.holds(way, name, n)
	return p
}

func (c *client) start(ctx context.Context, way ways.Way, name string) *pending {
	p := &pending{w: c.w, what: way, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		h, err := way.Ask(ctx, c.Client, name)
		if p.err = err; err == nil {
			p.hold = c.w.held(h)
		}
	}()
	return p
}

// over reports whether the request has an outcome.
func (p *pending) over() bool {
	synctest.Wait()
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// granted waits for the grant.
func (p *pending) granted() hold {
	p.w.Helper()
	p.await()
	if p.err != nil {
		p.w.Fatalf("%s: %v", p.what, p.err)
	}
	return p.hold
}

func (p *pending) fails(want error) {
	p.w.Helper()
	p.await()
	p.w.must(string(p.what), p.err, want)
}

func (p *pending) await() {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(10 * ttl):
		p.w.Fatalf("%s: it waits for ever", p.what)
	}
}

// succeeds checks that a hold ended before the next began, and that its token
// is smaller.
func (w *world) succeeds(what ways.Way, before, next hold) {
	w.Helper()
	synctest.Wait()
	w.mu.Lock()
	ended := *before.ended
	w.mu.Unlock()
	if ended.IsZero() || ended.After(next.at) || before.Err() == nil {
		w.Errorf("%s: it ended at %v, the next began at %v: %v", what, ended, next.at, before.Err())
	}
	if next.Token <= before.Token || next.Err() != nil {
		w.Errorf("%s: token %d after %d: %v", what, next.Token, before.Token, next.Err())
	}
}

// isLoss reports whether an error may be the end of a hold with its session,
// which removes the entry.
func isLoss(err error) bool {
	return errors.Is(err, coordinator.ErrSessionLost) || errors.Is(err, coordinator.ErrRemoved)
}
