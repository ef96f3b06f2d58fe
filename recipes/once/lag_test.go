package once_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// history has all states of the record since it was made.
type history struct {
	roll func(n int) int // chooses a state of which a server shows it
	mu   sync.Mutex
	all  []driver.Record
}

func (w world) remember(roll func(n int) int) *history {
	h := &history{roll: roll, all: []driver.Record{w.svc.Record(queue)}}
	w.svc.OnStep(func(s memory.Step) {
		if s.Kind == memory.StepRecord && s.Queue == queue {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.all = append(h.all, s.Record)
		}
	})
	return h
}

// since returns the states from that with a version on.
func (h *history) since(v driver.Version) []driver.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.all, func(r driver.Record) bool { return r.Version >= v })
	return slices.Clone(h.all[max(i, 0):])
}

// lag is the driver of a client whose server is behind, as a ZooKeeper follower
// can be: a read of the record is as new as what its session has finished
// before (D1), and no newer unless by chance.
type lag struct {
	driver.Driver
	*history
}

func (l lag) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := l.Driver.Open(ctx, ttl)
	return &lagging{Session: s, history: l.history}, err
}

type lagging struct {
	driver.Session
	*history
	mu   sync.Mutex
	seen driver.Version
}

func (s *lagging) sees(v driver.Version) driver.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, v)
	return s.seen
}

func (s *lagging) Record(
	ctx context.Context, q driver.Queue, known driver.Version,
) (driver.Record, error) {
	if known != driver.Any {
		return s.Session.Record(ctx, q, known)
	}
	if _, err := s.Session.Record(ctx, q, known); err != nil {
		return driver.Record{}, err // its faults
	}
	old := s.since(s.sees(0))
	r := old[s.roll(len(old))]
	s.sees(r.Version)
	return r, nil
}

func (s *lagging) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	v, err := s.Session.SetRecord(ctx, q, value, known)
	if err == nil || errors.Is(err, driver.ErrStale) || errors.Is(err, driver.ErrRefused) {
		all := s.since(0)
		s.sees(all[len(all)-1].Version)
	}
	return v, err
}
