package rwlock_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/rwlock"
)

const queue = driver.Queue("rwlock/catalogue")

var quiet = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// party is a client with its lock on the service of a test.
type party struct {
	*testing.T
	svc    *memory.Service
	link   *memory.Driver
	client *coordinator.Client
	l      *rwlock.RWLock
}

// parties runs a test in virtual time with three clients of a service. It fails
// if a goroutine, entry or watch is left at the end.
func parties(t *testing.T, f func(a, b, c party)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		a, b, c := join(t, svc), join(t, svc), join(t, svc)
		f(a, b, c)
		synctest.Wait()
		if n := len(svc.Snapshot(queue)); n != 0 {
			t.Errorf("%d left in the queue", n)
		}
		for _, p := range []party{a, b, c} {
			if err := p.client.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		if st := svc.Stats(); st.Watches != 0 || st.Sessions != 0 {
			t.Errorf("left at the service: %+v", st)
		}
	})
}

func join(t *testing.T, svc *memory.Service, opts ...coordinator.Option) party {
	t.Helper()
	p := party{T: t, svc: svc, link: svc.Driver()}
	var err error
	if p.client, err = coordinator.New(p.link,
		append([]coordinator.Option{quiet}, opts...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// After t.Fatal no other line closes the client, and what it runs would
		// be left in the bubble.
		if t.Failed() {
			svc.OnRequest(nil)
			svc.Start()
			p.link.Heal()
			_ = p.client.Close(context.Background())
			time.Sleep(10 * time.Minute) // for goroutines of the test that end by then
		}
	})
	p.l, err = rwlock.New(p.client, "catalogue")
	check(t, err)
	_, err = engine.Of(p.client).Session(context.Background())
	check(t, err)
	return p
}

// take locks with one of the four methods.
type take func(context.Context) (*rwlock.Lock, error)

//nolint:revive // the method comes first
func (p party) take(f take, ctx context.Context) *rwlock.Lock {
	p.Helper()
	l, err := f(ctx)
	check(p, err)
	return l
}

func (p party) lock() *rwlock.Lock  { p.Helper(); return p.take(p.l.Lock, p.Context()) }
func (p party) rlock() *rwlock.Lock { p.Helper(); return p.take(p.l.RLock, p.Context()) }

func (p party) unlock(locks ...*rwlock.Lock) {
	p.Helper()
	for _, l := range locks {
		if err := l.Unlock(context.Background()); err != nil {
			p.Errorf("unlock: %v", err)
		}
	}
}

func (p party) session() *engine.Session {
	p.Helper()
	s, err := engine.Of(p.client).Session(context.Background())
	check(p, err)
	return s
}

// pending is a call that may wait.
type pending struct {
	*testing.T
	cancel context.CancelCauseFunc
	done   chan struct{}
	lock   *rwlock.Lock
	err    error
}

// begin starts a call, and returns when it is blocked or has ended.
func (p party) begin(f take) *pending {
	ctx, cancel := context.WithCancelCause(context.Background())
	g := &pending{T: p.T, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		g.lock, g.err = f(ctx)
	}()
	synctest.Wait()
	return g
}

// granted reports whether the call has ended with a lock.
func (g *pending) granted() bool {
	select {
	case <-g.done:
		if g.err != nil {
			g.Errorf("lock: %v", g.err)
		}
		return g.err == nil
	default:
		return false
	}
}

// admitted fails the test unless exactly the calls in want were granted: "a" is
// the first call.
func admitted(t *testing.T, want string, all ...*pending) {
	t.Helper()
	synctest.Wait()
	var got string
	for i, g := range all {
		if g.granted() {
			got += string(rune('a' + i))
		}
	}
	if got != want {
		t.Errorf("admitted are %q, want %q", got, want)
	}
}

// unlock unlocks, and returns when all goroutines are blocked.
func (g *pending) unlock() {
	g.Helper()
	select {
	case <-g.done:
	case <-time.After(10 * time.Minute):
		g.cancel(nil)
		g.Fatal("the call has not ended")
	}
	if g.err != nil {
		g.Fatal(g.err)
	}
	if err := g.lock.Unlock(context.Background()); err != nil {
		g.Error(err)
	}
	synctest.Wait()
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
