package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/group"
)

// current is a driver whose reads are as new as all finished calls of all
// sessions, so that a write of no version needs no request.
type current struct{ driver.Driver }

func (c current) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := c.Driver.Open(ctx, ttl)
	return currentSession{s}, err
}

type currentSession struct{ driver.Session }

func (s currentSession) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if known == driver.Any {
		return 0, driver.ErrStale
	}
	return s.Session.SetRecord(ctx, q, value, known)
}

// TestLatestReadsCostNoWrite if the driver's reads are current: all of them use
// Queue.LatestRecord.
func TestLatestReadsCostNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		link := svc.Driver()
		c, err := coordinator.New(current{link})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		n, err1 := counter.New(c, "n")
		b, err2 := barrier.New(c, "n")
		g, err3 := group.New(c, "n")
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		if _, err := n.Get(t.Context()); err != nil { // opens the session
			t.Fatal(err)
		}
		for _, call := range []struct {
			name  string
			does  func() error
			reads int
		}{
			{"Counter.Get", func() error { _, err := n.Get(t.Context()); return err }, 1},
			{"Counter.Add of nothing", func() error { _, err := n.Add(t.Context(), 0); return err }, 2},
			{"Barrier.Wait", func() error { return b.Wait(t.Context()) }, 1},
			{"Barrier.Remove", func() error { return b.Remove(t.Context()) }, 1},
			{"Group.AwaitLeave", func() error { return g.AwaitLeave(t.Context(), 1) }, 3},
		} {
			before := link.Stats()
			err := call.does()
			s := link.Stats().Since(before)
			reads := s.Requests[memory.OpRecord] + s.Requests[memory.OpList]
			if err != nil || reads != call.reads || s.Total() != reads {
				t.Errorf("%s: %v, %v", call.name, s.Requests, err)
			}
		}
	})
}
