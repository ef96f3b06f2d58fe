package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// pausing is a driver whose sessions bring the answers of one kind of request when the session is over, as a process
// that was stopped finds them in its buffers.
type pausing struct {
	*memory.Driver
	op memory.Op
}

type pausingSession struct {
	driver.Session
	op memory.Op
}

func (d *pausing) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return &pausingSession{s, d.op}, err
}

func (s *pausingSession) pause(op memory.Op) {
	if op == s.op {
		time.Sleep(2 * s.TTL())
	}
}

// Renew fails from the beginning: a process that is stopped renews nothing.
func (s *pausingSession) Renew(context.Context) error { return driver.ErrUnavailable }

func (s *pausingSession) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	j, err := s.Session.Join(ctx, queue, c)
	s.pause(memory.OpJoin)
	return j, err
}

func (s *pausingSession) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	v, err := s.Session.Ahead(ctx, queue, own)
	s.pause(memory.OpAhead)
	return v, err
}

// TestGrantThatComesOutOfAPauseIsNone: between the answer that grants and the look at it the process was stopped for
// longer than its session lives.
func TestGrantThatComesOutOfAPauseIsNone(t *testing.T) {
	for _, tt := range []struct {
		op      memory.Op
		request recipes.Request
	}{
		{memory.OpJoin, write}, // alone in the queue
		{memory.OpAhead, read}, // behind another reader
	} {
		t.Run(string(tt.op), func(t *testing.T) {
			inWorld(t, func(w world) {
				first := w.hold(w.a, w.Context(), read)
				if tt.op == memory.OpJoin {
					w.release(first)
				} else {
					defer w.release(first)
				}
				client, err := coordinator.New(&pausing{w.svc.Driver(), tt.op}, quiet)
				if err != nil {
					w.Fatal(err)
				}
				queue, err := recipes.NewQueue(client, "test", "queue")
				if err != nil {
					w.Fatal(err)
				}
				h, err := queue.Acquire(w.Context(), tt.request)
				if h != nil {
					w.Errorf("got a hold of token %d", h.Token())
				}
				wantErr(t, err, coordinator.ErrSessionLost)
				if err := client.Close(context.Background()); err != nil {
					w.Error(err)
				}
			})
		})
	}
}
