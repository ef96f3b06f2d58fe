package memory

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Service is one simulated coordination service, made by [NewService]. It is
// safe for concurrent use. Its methods do not block.
type Service struct {
	minTTL, maxTTL, slack time.Duration
	decide                atomic.Pointer[func(Request) Fate] // see OnRequest

	// mu guards everything below, and the state of links, calls and sessions:
	// the service does one thing at a time. It is never held over a wait, which
	// would stop the clock of a synctest bubble.
	mu         sync.Mutex
	revision   driver.Token
	opened     uint64 // sessions ever opened, for their IDs
	watched    uint64 // watches ever registered, for their order
	stopped    bool
	sessions   map[string]*session // by ID
	queues     map[driver.Queue]*queue
	entries    map[string]*entry      // by key
	contenders map[contenderID]*entry // without foreign entries
	records    map[driver.Queue]driver.Record
	waits      map[string]map[*watch]struct{} // by topic, see watch
	counts     counts
	stale      *rand.Rand // see WithStaleViews; may be nil
	mute       *rand.Rand // see WithFewHints; may be nil
	see        func(Step) // see OnStep; may be nil
}

// Option configures a Service.
type Option func(*Service)

// WithTTLRange makes the service grant only TTLs in a range, instead of every
// positive TTL. Open with another returns driver.ErrInvalid (clause O2).
func WithTTLRange(shortest, longest time.Duration) Option {
	return func(s *Service) { s.minTTL, s.maxTTL = shortest, max(shortest, longest) }
}

// WithSlack makes the service end sessions d before their TTL, the worst case
// of clause O1. Sessions report d as their Slack.
func WithSlack(d time.Duration) Option {
	return func(s *Service) { s.slack = d }
}

// WithStaleViews makes Ahead answer from an earlier revision, as a lagging
// replica does, within clause V1. seed determines the choices.
func WithStaleViews(seed uint64) Option {
	return func(s *Service) { s.stale = rand.New(rand.NewPCG(seed, seed)) }
}

// WithFewHints makes the service omit optional results at random: First and
// Nearest of Join, and passed of Follow. seed determines the choices.
func WithFewHints(seed uint64) Option {
	return func(s *Service) { s.mute = rand.New(rand.NewPCG(seed, ^seed)) }
}

// NewService returns a running service without data.
func NewService(opts ...Option) *Service {
	s := &Service{
		maxTTL:     1<<63 - 1,
		sessions:   map[string]*session{},
		queues:     map[driver.Queue]*queue{},
		entries:    map[string]*entry{},
		contenders: map[contenderID]*entry{},
		records:    map[driver.Queue]driver.Record{},
		waits:      map[string]map[*watch]struct{}{},
		counts:     newCounts(),
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Driver returns a new client of the service, with its own link.
func (s *Service) Driver() *Driver {
	return &Driver{
		svc:        s,
		calls:      map[*call]struct{}{},
		unnotified: map[*session]struct{}{},
		counts:     newCounts(),
	}
}

// Stop stops the service: every waiting call, and every request that arrives,
// gets driver.ErrUnavailable. The data stays, and no session expires.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, session := range s.sessionsInOrder() {
		session.timer.Stop()
		// Connections and watches end. A client that is cut off gets the error
		// after Heal.
		for _, w := range inOrder(session.watches) {
			s.unregister(w)
			w.call.reply(driver.Wrap(driver.ErrUnavailable, errStopped))
		}
	}
}

// Start starts a stopped service again, with its data. Every session gets its
// full TTL, as on etcd and ZooKeeper after a restart.
func (s *Service) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		return
	}
	s.stopped = false
	for i, session := range s.sessionsInOrder() {
		session.renew(time.Duration(i)) // so that they expire in a fixed order
	}
}

// Expire ends a session at the service, which notifies the client over its
// link. It reports whether there was such a session.
func (s *Service) Expire(sessionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[sessionID]
	if session != nil {
		session.end(ByOperator)
	}
	return session != nil
}

// Remove deletes the entry with a key, or of a contender with an ID, as an
// operator would. Its session stays alive. It reports whether there was such an
// entry.
func (s *Service) Remove(queue driver.Queue, keyOrID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(queue, keyOrID)
	if e == nil {
		e = s.contenders[contenderID{queue, keyOrID}]
	}
	if e != nil {
		s.leave(e, ByOperator, false)
	}
	return e != nil
}

// AddForeign adds an entry of another program at the end of a queue. Its place
// has no ID, mode or session. It stays until Remove.
func (s *Service) AddForeign(queue driver.Queue) driver.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.add(queue, nil, driver.Entry{})
	e.Stray = "an entry of no session: Remove " + e.Key
	return e.Place
}

// RemoveRecord deletes the record of a queue as an operator would, and reports
// whether there was one.
func (s *Service) RemoveRecord(queue driver.Queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.records[queue]
	if there {
		s.setRecord(queue, nil, ByOperator)
	}
	return there
}

// Snapshot returns the current entries of a queue in order. Snapshot, Record,
// Queues and Sessions send no request, and work while the service is stopped.
func (s *Service) Snapshot(queue driver.Queue) []driver.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(queue, 0)
}

// Record returns the record of a queue.
func (s *Service) Record(queue driver.Queue) driver.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record(queue)
}

// Queues returns the names of all queues that have entries, sorted.
func (s *Service) Queues() []driver.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.queues))
}

// Sessions returns the IDs of all live sessions, oldest first.
func (s *Service) Sessions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.sessions))
}

func (s *Service) sessionsInOrder() []*session {
	return slices.SortedFunc(maps.Values(s.sessions), func(a, b *session) int {
		return cmp.Compare(a.id, b.id)
	})
}

// record copies a record and its value.
func (s *Service) record(queue driver.Queue) driver.Record {
	r := s.records[queue]
	r.Value = bytes.Clone(r.Value)
	return r
}

// setRecord writes the record of a queue, or deletes it if value is nil.
func (s *Service) setRecord(queue driver.Queue, value []byte, by Hand) driver.Version {
	s.revision++
	if value == nil {
		delete(s.records, queue)
	} else {
		s.records[queue] = driver.Record{Value: value, Version: driver.Version(s.revision)}
	}
	s.step(Step{Kind: StepRecord, By: by, Queue: queue, Record: s.record(queue)})
	s.notify(string(queue))
	return driver.Version(s.revision)
}

// hints reports whether the service returns an optional result.
func (s *Service) hints() bool { return s.mute == nil || s.mute.IntN(2) == 0 }
