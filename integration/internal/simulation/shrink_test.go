package simulation

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// hasty is a driver with a planted bug: when a renewal has failed, its session
// sees nobody ahead any more.
type hasty struct{ driver.Driver }

func (d hasty) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &hastySession{Full: coordinatortest.WithCapabilities(s)}, nil
}

type hastySession struct {
	coordinatortest.Full
	failed atomic.Bool
}

func (s *hastySession) Capabilities() driver.Capabilities { return s.Offer(s) }

func (s *hastySession) Renew(ctx context.Context) error {
	err := s.Full.Renew(ctx)
	if err != nil {
		s.failed.Store(true)
	}
	return err
}

func (s *hastySession) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (
	driver.View, error) {
	v, err := s.Full.Ahead(ctx, queue, own)
	if s.failed.Load() {
		v.Ahead = nil
	}
	return v, err
}

// hastyLink is a link of a hasty driver.
type hastyLink struct{ memoryLink }

func (l hastyLink) Driver() driver.Driver { return hasty{l.memoryLink.Driver()} }

// hastyService is memory with hasty drivers.
type hastyService struct{ inMemory }

func (s hastyService) Connect(name string) (Link, error) {
	l, err := s.inMemory.Connect(name)
	return hastyLink{l.(memoryLink)}, err
}

func (s hastyService) OnMessage(decide func(Message) memory.Fate) {
	s.inMemory.OnMessage(func(m Message) memory.Fate {
		m.Link = hastyLink{m.Link.(memoryLink)}
		return decide(m)
	})
}

func newHasty(c Conditions) (Service, error) {
	s, err := newMemory(c)
	return hastyService{s.(inMemory)}, err
}

// TestSmallestWorldFailsLikeTheFirst: a planted bug is found, the world that
// finds it becomes smaller, and its settings replay it.
func TestSmallestWorldFailsLikeTheFirst(t *testing.T) {
	planted := Memory
	planted.New = newHasty
	set := settings{seed: 1, recipe: "mutex"}
	w := play(t, planted, set)
	for ; len(w.bad) == 0; w = play(t, planted, set) {
		if set.seed++; set.seed > 500 {
			t.Fatal("500 worlds do not find the planted bug")
		}
	}
	small, smallest := shrink(t, planted, w, set)
	t.Logf("of %d parts %d are left: %s", len(w.swarm.left()), len(small.swarm.left()),
		strings.Join(small.swarm.left(), ", "))
	t.Log(planted.replay(smallest))
	if !slices.Contains(small.sorts, w.sorts[0]) {
		t.Errorf("the smallest world fails by %q, and the first by %q", small.sorts, w.sorts)
	}
	if n, most := len(small.swarm.left()), len(w.swarm.left())/2; n > most {
		t.Errorf("the smallest world has %d parts, more than %d", n, most)
	}
	again := play(t, planted, smallest)
	if !slices.Contains(again.sorts, w.sorts[0]) {
		t.Errorf("its settings %s give %q", smallest.env(), again.sorts)
	}
}
