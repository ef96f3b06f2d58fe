package semaphore_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/semaphore"
)

const (
	queue    = driver.Queue("semaphore/jobs")
	numbered = driver.Queue("slots/jobs")
)

var quiet = coordinator.WithLogger(slog.New(slog.DiscardHandler))

// party is a client with its semaphore.
type party struct {
	*testing.T
	svc    *memory.Service
	link   *memory.Driver
	client *coordinator.Client
	s      *semaphore.Semaphore
}

// parties runs a test in virtual time with two clients of a service, which
// share a limit. At the end nothing may be left at the service, and no
// goroutine in the bubble.
func parties(t *testing.T, limit int, f func(a, b party), opts ...memory.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService(opts...)
		t.Cleanup(func() {
			synctest.Wait()
			if s := svc.Stats(); s.Entries != 0 || s.Watches != 0 || s.Sessions != 0 {
				t.Errorf("left behind: %+v", s)
			}
		})
		f(join(t, svc, limit), join(t, svc, limit))
	})
}

func join(t *testing.T, svc *memory.Service, limit int, opts ...coordinator.Option) party {
	t.Helper()
	p := party{T: t, svc: svc, link: svc.Driver()}
	var err error
	if p.client, err = coordinator.New(p.link,
		append([]coordinator.Option{quiet}, opts...)...); err != nil {
		t.Fatal(err)
	}
	p.s = p.withLimit(limit)
	t.Cleanup(func() {
		svc.Start()
		svc.OnRequest(nil)
		p.link.Heal()
		p.close()
	})
	return p
}

func (p party) close() {
	p.Helper()
	if err := p.client.Close(context.Background()); err != nil {
		p.Errorf("close: %v", err)
	}
}

// withLimit returns the semaphore of a client with another limit.
func (p party) withLimit(limit int) *semaphore.Semaphore {
	p.Helper()
	s, err := semaphore.New(p.client, "jobs", limit)
	check(p, err)
	return s
}

func (p party) acquire(n int) *semaphore.Permit {
	p.Helper()
	permit, err := p.s.Acquire(p.Context(), n)
	check(p, err)
	return permit
}

func (p party) release(permits ...*semaphore.Permit) {
	p.Helper()
	for _, permit := range permits {
		if err := permit.Release(p.Context()); err != nil {
			p.Error(err)
		}
	}
}

func (p party) setLimit(n int) {
	p.Helper()
	check(p, p.s.SetLimit(p.Context(), n))
}

func (p party) list() semaphore.Listing {
	p.Helper()
	l, err := p.s.List(p.Context())
	check(p, err)
	return l
}

func (p party) session() string {
	p.Helper()
	s, err := engine.Of(p.client).Session(context.Background())
	check(p, err)
	return s.ID()
}

// modes returns the modes in the queue, in order.
func (p party) modes() (modes []string) {
	for _, e := range p.svc.Snapshot(queue) {
		modes = append(modes, e.Mode)
	}
	return modes
}

// strangers are clients of a service with a session each, so many that a shared
// watch does not pay in a queue that they share evenly.
func (p party) strangers(n, limit int) (all []party) {
	for range n {
		all = append(all, join(p.T, p.svc, limit))
	}
	return all
}

// empty checks that no contender is queued, and that no watch is left.
func (p party) empty() {
	p.Helper()
	time.Sleep(2 * engine.SettleAfter) // a shared watch lasts that long without users
	synctest.Wait()
	if s := p.svc.Stats(); s.Entries != 0 || s.Watches != 0 {
		p.Errorf("left behind: %d entries, %d watches", s.Entries, s.Watches)
	}
}

// wait is an Acquire in a goroutine.
type wait struct {
	party
	cancel context.CancelCauseFunc
	done   chan struct{}
	permit *semaphore.Permit
	err    error
	at     time.Time // when it ended
}

// begin starts an Acquire, and returns when it is granted or blocked.
func (p party) begin(n int) *wait {
	p.Helper()
	ctx, cancel := context.WithCancelCause(p.Context())
	w := &wait{party: p, cancel: cancel, done: make(chan struct{})}
	go func() {
		w.permit, w.err = p.s.Acquire(ctx, n)
		w.at = time.Now()
		close(w.done)
	}()
	synctest.Wait()
	return w
}

// over reports whether it has ended, when all goroutines are blocked.
func (w *wait) over() bool {
	synctest.Wait()
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// granted returns the permit, which must be granted without delay.
func (w *wait) granted() *semaphore.Permit {
	w.Helper()
	if !w.over() || w.err != nil {
		w.Fatalf("not granted: %v", w.err)
	}
	return w.permit
}

// waits checks that it still waits.
func (w *wait) waits() {
	w.Helper()
	if w.over() {
		w.Fatalf("does not wait: %v, %v", w.permit, w.err)
	}
}

// failed checks that it has ended with all of these errors.
func (w *wait) failed(want ...error) {
	w.Helper()
	if !w.over() {
		w.Fatalf("waits instead of failing with %v", want)
	}
	wantErr(w.T, w.err, want...)
}

// check ends the test unless err is nil.
func check(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// wantErr checks that err is all of want, or nil without want.
func wantErr(t *testing.T, err error, want ...error) {
	t.Helper()
	if len(want) == 0 && err != nil {
		t.Errorf("error %v", err)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %v, want %v", err, w)
		}
	}
}
