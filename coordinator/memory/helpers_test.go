package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

const (
	queue = driver.Queue("m/jobs")
	ttl   = 10 * time.Second
)

var ids atomic.Int64

func contender() driver.Contender {
	return driver.Contender{ID: fmt.Sprintf("%016x", ids.Add(1)), Mode: "x"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// session is a session with its capabilities.
type session struct {
	driver.Session
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.Operator
}

func open(t *testing.T, d *memory.Driver) session {
	t.Helper()
	s, err := d.Open(t.Context(), ttl)
	must(t, err)
	return withCapabilities(s)
}

func withCapabilities(s driver.Session) session {
	c := s.Capabilities()
	return session{s, c.Handoff, c.Converter, c.Writer, c.HeadWatcher, c.Operator}
}

func join(t *testing.T, s session) driver.Joined {
	t.Helper()
	j, err := s.Join(t.Context(), queue, contender())
	must(t, err)
	return j
}

func joinErr(ctx context.Context, s session) error {
	_, err := s.Join(ctx, queue, contender())
	return err
}

// start runs call in a goroutine; the channel delivers its error.
func start(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

// within returns a context of the test that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// entries returns the number of contenders in the queue.
func entries(svc *memory.Service) int { return len(svc.Snapshot(queue)) }

func wantEntries(t *testing.T, svc *memory.Service, n int) {
	t.Helper()
	if got := entries(svc); got != n {
		t.Fatalf("queue has %d entries, want %d", got, n)
	}
}

// pending fails if the call has returned.
func pending(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("the call returned %v, want it to wait", err)
	default:
	}
}

func isDone(s session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}
