package counter_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// lag is the driver of a client whose server is behind, as a ZooKeeper follower
// can be: reads of the record are as new as what their session has finished
// before (D1), and no newer unless by chance.
type lag struct {
	driver.Driver
	past *past
}

// past has all states of the record.
type past struct {
	roll  func(n int) int
	mu    sync.Mutex
	known []driver.Record
}

// remember records the states of the record of a service from now on.
func remember(svc *memory.Service, roll func(n int) int) *past {
	p := &past{roll: roll, known: make([]driver.Record, 1)}
	svc.OnStep(func(s memory.Step) {
		if s.Kind == memory.StepRecord && s.Queue == queue {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.known = append(p.known, s.Record)
		}
	})
	return p
}

func (p *past) latest() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.known) - 1
}

func (p *past) at(i int) driver.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[i]
}

// index returns the index of the state with a version.
func (p *past) index(v driver.Version) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.IndexFunc(p.known, func(r driver.Record) bool { return r.Version == v })
}

func (l lag) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := l.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &lagging{Session: s, past: l.past}, nil
}

type lagging struct {
	driver.Session
	past *past
	mu   sync.Mutex
	seen int // the index of the newest state that the session knows
}

func (s *lagging) sees(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, i)
}

func (s *lagging) Record(
	ctx context.Context, q driver.Queue, known driver.Version,
) (driver.Record, error) {
	if q == queue {
		latest := s.past.latest()
		s.mu.Lock()
		seen := min(s.seen, latest)
		s.mu.Unlock()
		i := seen + s.past.roll(latest-seen+1)
		r := s.past.at(i)
		if i < latest && r.Version != known && s.past.roll(2) == 0 {
			s.sees(i)
			return r, nil
		}
	}
	// known may be old news for the service, and yet the newest for the session
	r, err := s.Session.Record(ctx, q, known)
	if err == nil && q == queue {
		s.sees(s.past.index(r.Version))
	}
	return r, err
}

func (s *lagging) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	v, err := s.Session.SetRecord(ctx, q, value, known)
	if q == queue && (err == nil || errors.Is(err, driver.ErrStale)) {
		s.sees(s.past.latest())
	}
	return v, err
}
