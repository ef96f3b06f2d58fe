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

// Service is one simulated coordination service. Make it with [NewService]. All
// methods may be called by many goroutines at once, and none of them waits.
type Service struct {
	minTTL, maxTTL, slack time.Duration
	decide                atomic.Pointer[func(Request) Fate] // see OnRequest

	// mu guards everything below, and the state of links, calls and sessions.
	// One lock for all keeps "the service does one thing at a time" literally
	// true. It is held for steps in memory only: a goroutine that waited for it
	// over a timer would stop the clock of a synctest bubble for good.
	mu         sync.Mutex
	revision   driver.Token
	opened     uint64 // sessions ever opened, the source of their IDs
	watched    uint64 // watches ever registered, which orders them
	stopped    bool
	sessions   map[string]*session // by ID
	queues     map[driver.Queue]*queue
	entries    map[string]*entry      // by key
	contenders map[contenderID]*entry // those that Baton wrote
	records    map[driver.Queue]driver.Record
	waits      map[string]map[*watch]struct{} // by topic, see watch
	counts     counts
	stale      *rand.Rand // nil: views are always current
	mute       *rand.Rand // nil: all hints are given
	see        func(Step) // see OnStep; may be nil
}

// Option is a trait of a service, for [NewService].
type Option func(*Service)

// WithTTLRange makes the service grant times to live in this range only; Open
// with any other fails with driver.ErrInvalid (clause O2). Without this option
// every positive TTL is granted. A longest below shortest counts as shortest.
func WithTTLRange(shortest, longest time.Duration) Option {
	return func(s *Service) { s.minTTL, s.maxTTL = shortest, max(shortest, longest) }
}

// WithSlack makes the service end a session earlier than its TTL by d, which
// sessions report as their Slack: the worst that clause O1 allows.
func WithSlack(d time.Duration) Option {
	return func(s *Service) { s.slack = d }
}

// WithStaleViews makes Ahead answer from a past revision, chosen at random from
// seed, as a lagging replica does. Views keep clause V1. A recipe must reach
// the same decisions on them.
func WithStaleViews(seed uint64) Option {
	return func(s *Service) { s.stale = rand.New(rand.NewPCG(seed, seed)) }
}

// WithFewHints makes the service leave out, at random from seed, what a service
// need not say: that a contender is the first in the queue, its predecessor, or
// that this has passed. A recipe must reach the same decisions without.
func WithFewHints(seed uint64) Option {
	return func(s *Service) { s.mute = rand.New(rand.NewPCG(seed, ^seed)) }
}

// NewService makes an empty service that is running.
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

// Driver makes a client of the service with a link of its own. No session is
// opened yet.
func (s *Service) Driver() *Driver {
	return &Driver{
		svc:    s,
		calls:  map[*call]struct{}{},
		untold: map[*session]struct{}{},
		counts: newCounts(),
	}
}

// Stop takes the service away: every waiting call, and every request that
// arrives, gets driver.ErrUnavailable. The data stays, and no session expires.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, session := range s.sessionsInOrder() {
		session.timer.Stop()
		// The connections are gone, and watches with them. The answer travels
		// as any other: a client that is cut off gets it after Heal.
		for _, w := range inOrder(session.watches) {
			s.unregister(w)
			w.call.reply(driver.Wrap(driver.ErrUnavailable, errStopped))
		}
	}
}

// Start brings a stopped service back with its data. Every session gets its
// full TTL again, as etcd and ZooKeeper do after a restart.
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

// Expire ends a session at the service. Its client learns of it over the link.
// It reports whether there was such a session.
func (s *Service) Expire(sessionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[sessionID]
	if session != nil {
		session.end(ByOperator)
	}
	return session != nil
}

// Remove deletes an entry, named by its key or by the ID of its contender, as
// an operator would. Its session lives on. It reports whether there was such an
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

// AddForeign puts an entry that Baton did not write at the end of a queue. Its
// place has no ID, mode or session. It stays until Remove.
func (s *Service) AddForeign(queue driver.Queue) driver.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.add(queue, nil, driver.Entry{})
	e.Stray = "an entry of no session blocks the queue: Remove " + e.Key
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

// Snapshot returns the entries of a queue in order, as they are at the service
// now. Snapshot, Record, Queues and Sessions are no requests, need no session,
// and work while the service is stopped.
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

// record copies a record: a caller may keep and change what it got.
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

// hints reports whether the service says what it need not say.
func (s *Service) hints() bool { return s.mute == nil || s.mute.IntN(2) == 0 }
