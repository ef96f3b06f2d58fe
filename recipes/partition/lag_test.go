package partition_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// members is the queue of the partition's group.
const members = driver.Queue("group/partition%2Fjobs")

// mostLag is how far a server is behind at most.
const mostLag = 2 * time.Second

// past has all states of the records and of the group.
type past struct {
	mu     sync.Mutex
	r      *rand.Rand
	states []state
}

type state struct {
	at      time.Time
	records map[driver.Queue]driver.Record
	members []driver.Entry
}

// remember records the states of a service from now on.
func remember(svc *memory.Service, seed uint64) *past {
	p := &past{r: rand.New(rand.NewPCG(seed, 2)), states: make([]state, 1)}
	svc.OnStep(func(step memory.Step) {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := p.states[len(p.states)-1]
		s.at = time.Now()
		switch {
		case step.Kind == memory.StepRecord:
			s.records = maps.Clone(s.records)
			if s.records == nil {
				s.records = make(map[driver.Queue]driver.Record)
			}
			s.records[step.Queue] = step.Record
		case step.Queue == members && step.Kind == memory.StepJoined:
			s.members = append(slices.Clone(s.members), step.Entry)
		case step.Queue == members && step.Kind == memory.StepLeft:
			s.members = slices.DeleteFunc(slices.Clone(s.members), isAt(step.Entry.Key))
		default:
			return
		}
		p.states = append(p.states, s)
	})
	return p
}

func isAt(key string) func(driver.Entry) bool {
	return func(e driver.Entry) bool { return e.Key == key }
}

// lag is the driver of a client whose server is behind, as a ZooKeeper follower
// can be: its reads of records and of the group are of one history, as new as
// what their session has finished before (S1, D1), and no newer unless by
// chance.
type lag struct {
	driver.Driver
	*past
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
	*past
	seen int // the index of the newest state that the session knows
}

// read returns the state that the server shows next.
func (s *lagging) read() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.seen+1 < len(s.states) && time.Since(s.states[s.seen+1].at) > mostLag {
		s.seen++
	}
	if s.r.IntN(3) > 0 {
		s.seen += s.r.IntN(len(s.states) - s.seen)
	}
	return s.states[s.seen]
}

// sees makes the session know the first state that is so, and else the latest.
func (s *lagging) sees(so func(state) bool) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.seen+1 < len(s.states) && !so(s.states[s.seen]) {
		s.seen++
	}
	return s.states[s.seen]
}

func (s *lagging) Join(
	ctx context.Context, q driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	j, err := s.Session.Join(ctx, q, c)
	if err == nil && q == members {
		s.sees(func(x state) bool { return slices.ContainsFunc(x.members, isAt(j.Place.Key)) })
	}
	return j, err
}

func (s *lagging) Watch(ctx context.Context, q driver.Queue, places ...driver.Place) error {
	err := s.Session.Watch(ctx, q, places...)
	if err == nil && q == members {
		s.sees(func(x state) bool {
			return slices.ContainsFunc(places, func(p driver.Place) bool {
				return !slices.ContainsFunc(x.members, isAt(p.Key))
			})
		})
	}
	return err
}

func (s *lagging) List(ctx context.Context, q driver.Queue, limit int) ([]driver.Entry, error) {
	all, err := s.Session.List(ctx, q, limit)
	if err == nil && q == members {
		all = slices.Clone(s.read().members)
	}
	return all, err
}

func (s *lagging) Record(
	ctx context.Context, q driver.Queue, known driver.Version,
) (driver.Record, error) {
	if r, err := s.Session.Record(ctx, q, driver.Any); err != nil {
		return r, err // the server cannot be reached
	}
	if r := s.read().records[q]; r.Version != known {
		return r, nil
	}
	r, err := s.Session.Record(ctx, q, known)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	behind := time.Duration(s.r.Int64N(int64(mostLag)))
	s.mu.Unlock()
	select {
	case <-time.After(behind):
		return s.sees(func(x state) bool { return x.records[q].Version != known }).records[q], nil
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

func (s *lagging) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	v, err := s.Session.SetRecord(ctx, q, value, known)
	s.sees(func(state) bool { return false })
	return v, err
}
