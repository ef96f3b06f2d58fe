package election_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/engine"
)

const queue = driver.Queue("election/jobs")

// party is a process: a client with an election on the service.
type party struct {
	*testing.T
	name   string
	svc    *memory.Service
	link   *memory.Driver
	client *coordinator.Client
	e      *election.Election
}

// parties runs a test in virtual time with n clients of a service. It fails if
// a goroutine is left at the end.
func parties(t *testing.T, n int, f func(t *testing.T, p ...party)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		var p []party
		for i := range n {
			p = append(p, join(t, svc, string(rune('a'+i))))
		}
		f(t, p...)
		for _, p := range p {
			p.link.Heal()
			if err := p.client.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
}

func join(t *testing.T, svc *memory.Service, name string, opts ...coordinator.Option) party {
	t.Helper()
	p := party{T: t, name: name, svc: svc, link: svc.Driver()}
	var err error
	opts = append([]coordinator.Option{coordinator.WithIdentity(name),
		coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))}, opts...)
	p.client, err = coordinator.New(p.link, opts...)
	must(t, err)
	t.Cleanup(func() {
		// After t.Fatal no other line closes the client, and what it runs would
		// be left in the bubble.
		if t.Failed() {
			svc.OnRequest(nil)
			svc.Start()
			p.link.Heal()
			_ = p.client.Close(context.Background())
			time.Sleep(10 * time.Minute) // for work and callbacks that take so long
		}
	})
	p.e, err = election.New(p.client, "jobs")
	must(t, err)
	return p
}

// must ends the test unless err is nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// free ends the test unless the name is free.
func (p party) free() {
	p.Helper()
	term, err := p.e.TryCampaign(p.Context(), nil)
	must(p, err)
	p.resign(term)
}

func (p party) campaign() *election.Term {
	p.Helper()
	t, err := p.e.Campaign(p.Context(), []byte(p.name))
	must(p, err)
	return t
}

func (p party) resign(t *election.Term) {
	p.Helper()
	if err := t.Resign(p.Context()); err != nil {
		p.Error(err)
	}
}

func (p party) session() *engine.Session {
	p.Helper()
	s, err := engine.Of(p.client).Session(p.Context())
	must(p, err)
	return s
}

// candidate is a Campaign in a goroutine.
type candidate struct {
	term *election.Term
	err  error
	done chan struct{}
}

// enqueue campaigns in a goroutine, and returns when the candidate is queued.
func (p party) enqueue(ctx context.Context) *candidate {
	p.Helper()
	c := &candidate{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.term, c.err = p.e.Campaign(ctx, []byte(p.name))
	}()
	synctest.Wait()
	return c
}

// won returns the term.
func (c *candidate) won(t *testing.T) *election.Term {
	t.Helper()
	<-c.done
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.term
}

// stage records which parties work, and when two work at the same time.
type stage struct {
	mu      sync.Mutex
	on      []string            // parties that work now
	order   []string            // parties that worked, in order
	last    coordinator.Token   // of the latest term
	left    time.Time           // when the latest work ended
	gaps    []time.Duration     // between the end of a work and the next start
	overlap int                 // how often two parties worked at once
	tokens  []coordinator.Token // of the terms, in order
}

// enter records that the work of a term begins. The caller calls leave at its
// end.
func (s *stage) enter(p party, t *election.Term) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.on) > 0 {
		s.overlap++
		p.Errorf("%s works while %v do", p.name, s.on)
	}
	if t.Token() <= s.last {
		p.Errorf("token %d after %d", t.Token(), s.last)
	}
	if !s.left.IsZero() {
		s.gaps = append(s.gaps, time.Since(s.left))
	}
	s.last = t.Token()
	s.on, s.order, s.tokens = append(s.on, p.name), append(s.order, p.name),
		append(s.tokens, t.Token())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.on, p.name)
		s.on, s.left = slices.Delete(s.on, i, i+1), time.Now()
	}
}

func (s *stage) working() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.on)
}

func (s *stage) worked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// runner is a Run in a goroutine.
type runner struct {
	stop context.CancelCauseFunc
	err  error
	done chan struct{}
}

// run starts Run in a goroutine, and returns when all goroutines are blocked.
func (p party) run(work func(context.Context, *election.Term) error,
	opts ...election.RunOption) *runner {
	ctx, stop := context.WithCancelCause(p.Context())
	r := &runner{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = p.e.Run(ctx, work, opts...)
	}()
	synctest.Wait()
	return r
}

// ended waits for Run and returns its error.
func (r *runner) ended() error {
	<-r.done
	return r.err
}

// end stops Run and waits for it.
func (r *runner) end() {
	r.stop(nil)
	<-r.done
}

// idle is work that waits until its context ends.
func idle(ctx context.Context, _ *election.Term) error {
	<-ctx.Done()
	return ctx.Err()
}

// until is work that enters the stage and stays until its context ends.
func (p party) until(s *stage) func(context.Context, *election.Term) error {
	return func(ctx context.Context, t *election.Term) error {
		defer s.enter(p, t)()
		<-ctx.Done()
		return ctx.Err()
	}
}

// sleep lets time pass, and waits until all goroutines are blocked.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// notes is a list that is safe for concurrent use.
type notes[T any] struct {
	mu  sync.Mutex
	all []T
}

func (n *notes[T]) add(x T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, x)
}

func (n *notes[T]) get() []T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// Write makes notes the output of a logger.
func (n *notes[T]) Write(b []byte) (int, error) {
	n.add(any(string(b)).(T))
	return len(b), nil
}
