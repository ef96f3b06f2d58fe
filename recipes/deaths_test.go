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

// TestCallCancelledAtTheMomentOfItsGrant ends the caller's context at each step
// around the grant: before the release, during the notification, between the
// read and its answer, after it. The call returns a hold or an error; with an
// error its entry is not in the queue.
func TestCallCancelledAtTheMomentOfItsGrant(t *testing.T) {
	worlds(t, append(ways(), reading), 2, func(w place, ask way) {
		first := ask
		if ask.name == reading.name {
			first = ways()[1]
		}
		granted, refused := 0, 0
		for step := range 60 {
			h := w.take(first, 0)
			w.links[1].Delay(time.Millisecond, time.Millisecond)
			const release = 20 * time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(),
				release-5*time.Millisecond+time.Duration(step)*250*time.Microsecond)
			a := w.queue(ctx, ask, 1)
			time.Sleep(release)
			w.release(h)
			<-a.done
			cancel()
			switch {
			case a.err == nil && a.held.err() == nil:
				granted++
				w.release(a.held)
			case a.err == nil:
				w.Errorf("step %d: a hold with %v", step, a.held.err())
			default:
				refused++
			}
			time.Sleep(time.Second)
			if n := len(w.svc.Snapshot(ask.queue)); n != 0 {
				w.Fatalf("step %d: %v, and %d in the queue", step, a.err, n)
			}
		}
		if granted == 0 || refused == 0 {
			w.Errorf("%d granted, %d cancelled: all steps are on the same side of the grant", granted,
				refused)
		}
		w.links[1].Delay(0, 0)
		w.release(w.take(ask, 1))
	})
}

// pausing is a driver whose sessions return the answers of one kind of request
// when the session is over, as after a pause of the process.
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

// Renew always fails: a stopped process renews nothing.
func (s *pausingSession) Renew(context.Context) error { return driver.ErrUnavailable }

func (s *pausingSession) Join(ctx context.Context, queue driver.Queue,
	c driver.Contender) (driver.Joined, error) {
	j, err := s.Session.Join(ctx, queue, c)
	s.pause(memory.OpJoin)
	return j, err
}

func (s *pausingSession) Ahead(ctx context.Context, queue driver.Queue,
	own driver.Place) (driver.View, error) {
	v, err := s.Session.Ahead(ctx, queue, own)
	s.pause(memory.OpAhead)
	return v, err
}

// TestGrantReadAfterAPauseIsRefused: the process was stopped before it read the
// granting answer, for longer than its session lives.
func TestGrantReadAfterAPauseIsRefused(t *testing.T) {
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
				client, queue := queueOn(t, &pausing{w.svc.Driver(), tt.op})
				h, err := queue.Acquire(w.Context(), tt.request)
				if h != nil {
					w.Errorf("got a hold of token %d", h.Token())
				}
				wantErr(t, err, coordinator.ErrSessionLost)
				check(w, client.Close(context.Background()))
			})
		})
	}
}
