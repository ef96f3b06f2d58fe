package barrier_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/barrier"
)

// lag is the driver of a client whose server is behind, as a ZooKeeper follower
// can be: reads of the record return an old one, until the session has finished
// a write (D1).
type lag struct {
	driver.Driver
	old atomic.Pointer[driver.Record] // nil: the server is not behind
}

func (l *lag) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := l.Driver.Open(ctx, ttl)
	return &lagging{Session: s, lag: l}, err
}

type lagging struct {
	driver.Session
	lag   *lag
	wrote atomic.Bool
}

func (s *lagging) Record(
	ctx context.Context, q driver.Queue, known driver.Version,
) (driver.Record, error) {
	if old := s.lag.old.Load(); old != nil && !s.wrote.Load() && old.Version != known {
		return *old, ctx.Err()
	}
	return s.Session.Record(ctx, q, known)
}

func (s *lagging) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	v, err := s.Session.SetRecord(ctx, q, value, known)
	if ctx.Err() == nil {
		s.wrote.Store(true)
	}
	return v, err
}

// joinBehind is join with a lag. show makes the server show the record of that
// moment from now on.
func (w world) joinBehind() (p party, show func()) {
	w.Helper()
	p = party{world: w, link: w.svc.Driver()}
	l := &lag{Driver: p.link}
	var err error
	p.client, err = coordinator.New(l, coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		p.Barrier, err = barrier.New(p.client, "gate")
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = p.client.Close(context.Background()) })
	return p, func() { r := w.svc.Record(queue); l.old.Store(&r) }
}

// TestChangesBeforeTheCallAreNotItsOwn: the server of b shows a record that is
// older than changes of a, and the reply to b's write is lost.
func TestChangesBeforeTheCallAreNotItsOwn(t *testing.T) {
	for write := range int32(3) {
		inWorld(t, func(w world) {
			a := w.join()
			b, show := w.joinBehind()
			a.set()
			show()
			a.remove()
			a.set()
			w.svc.OnRequest(nth(write, memory.OpSetRecord, memory.Fate{DropReply: true}))
			b.remove()
			w.svc.OnRequest(nil)
			if a.state() != "open" {
				w.Errorf("reply %d was lost: Remove returned, and the barrier is %s", write, a.state())
			}
		})
	}
}

// TestWaiterPassesIfTheBarrierWasOpenWhileItHadNoSession, although the server
// of its next session is behind at first.
func TestWaiterPassesIfTheBarrierWasOpenWhileItHadNoSession(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		b, show := w.joinBehind()
		a.set()
		show()
		a.remove()
		a.set()
		wait := b.waits(w.Context())
		w.blocked(wait)
		b.link.Cut()
		a.remove()
		a.set()
		time.Sleep(time.Minute)
		b.link.Heal()
		synctest.Wait()
		time.Sleep(time.Minute)
		w.open(wait)
		a.remove()
	})
}
