package memory

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Service is one simulated coordination service. Make it with [NewService]; all its
// methods may be called by many goroutines at once, and none of them waits.
type Service struct {
	minTTL, maxTTL, slack time.Duration
	hook                  atomic.Pointer[func(Request) Fate]

	// mu guards everything below, and the state of links, calls and sessions.
	// One lock for all keeps "the service does one thing at a time" literally
	// true. It is held for steps in memory only: a goroutine that waited for it
	// over a timer would stop a synctest bubble's clock for good.
	mu       sync.Mutex
	revision driver.Token
	opened   uint64 // sessions ever opened, the source of their IDs
	watched  uint64 // watches ever registered, which orders them
	stopped  bool
	seats    map[string]*seat
	queues   map[driver.Queue]*queue
	records  map[driver.Queue]driver.Record
	waits    map[driver.Queue]map[*watch]struct{} // for a head or a record
	watches  int
	entries  int
	counts   counts
	stale    *rand.Rand // nil: views are always current
	mute     *rand.Rand // nil: all is said that may be said
	see      func(Step) // see OnStep; may be nil
}

// Option is a trait of a service, for [NewService].
type Option func(*Service)

// WithTTLRange makes the service grant times to live in this range only. Open
// with any other fails with driver.ErrInvalid, as clause O2 says. Without this
// option every positive ttl is granted. A longest below shortest counts as shortest.
func WithTTLRange(shortest, longest time.Duration) Option {
	return func(s *Service) { s.minTTL, s.maxTTL = shortest, longest }
}

// WithSlack makes the service end a session that much sooner than its ttl, and
// sessions report it as their Slack: the worst that clause O1 allows.
func WithSlack(d time.Duration) Option {
	return func(s *Service) { s.slack = d }
}

// WithStaleViews makes Ahead answer from a past revision, chosen at random
// from seed, as a lagging replica does. Views still keep clause V1: never older
// than the asker's own entry, nor than what a Watch has told its session.
// A recipe must reach the same decisions on such views.
func WithStaleViews(seed uint64) Option {
	return func(s *Service) { s.stale = rand.New(rand.NewPCG(seed, seed)) }
}

// WithFewHints makes the service leave unsaid, at random from seed, what a
// service need not say: that a contender is the first in the queue, or who is
// nearest to it, when it joins; and that the one whom it follows has passed. A
// recipe must reach the same decisions without.
func WithFewHints(seed uint64) Option {
	return func(s *Service) { s.mute = rand.New(rand.NewPCG(seed, ^seed)) }
}

// NewService makes an empty service that is running.
func NewService(opts ...Option) *Service {
	s := &Service{
		maxTTL: 1<<63 - 1,
		seats:  map[string]*seat{},
		queues: map[driver.Queue]*queue{},
		counts: newCounts(),

		records: map[driver.Queue]driver.Record{},
		waits:   map[driver.Queue]map[*watch]struct{}{},
	}
	for _, opt := range opts {
		opt(s)
	}
	s.maxTTL = max(s.maxTTL, s.minTTL)
	return s
}

// Driver makes a client of the service with a link of its own. No session is
// opened yet.
func (s *Service) Driver() *Driver {
	return &Driver{
		svc:      s,
		calls:    map[*call]struct{}{},
		watches:  map[*watch]struct{}{},
		sessions: map[*session]struct{}{},
		counts:   newCounts(),
	}
}

// Stop takes the whole service away: every Watch that waits at it, and every request that
// arrives from now on, gets driver.ErrUnavailable. The data stays, and no session expires
// meanwhile, since nobody is there to judge it.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, seat := range s.seatsInOrder() {
		seat.timer.Stop()
		// The connections are gone, and watches with them. The answer travels
		// as any other: a client that is cut off hears of it when healed.
		for _, w := range seat.watchesInOrder() {
			s.unregister(w)
			w.call.reply(driver.Wrap(driver.ErrUnavailable, errStopped))
		}
	}
}

// Start brings a stopped service back with its data. Every session gets its full
// ttl again, as etcd and ZooKeeper do after a restart.
func (s *Service) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		return
	}
	s.stopped = false
	for i, seat := range s.seatsInOrder() {
		seat.renew(time.Duration(i)) // those that nobody renews end one after the other, and not in an order that chance decides
	}
}

// Expire ends a session at the service, as its own timer or an operator would. Its
// entries and watches go at once; its client hears of it over the link. It
// reports whether there was such a session.
func (s *Service) Expire(sessionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seat := s.seats[sessionID]
	if seat == nil {
		return false
	}
	s.end(seat, ByOperator)
	return true
}

// Remove deletes an entry as an operator would. The entry is named by the key of
// its place or by the ID of its contender. Its session lives on, and whoever
// watches the entry is told. It reports whether there was such an entry.
func (s *Service) Remove(queue driver.Queue, keyOrID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.queues[queue]
	if l == nil {
		return false
	}
	e := l.byKey[keyOrID]
	if e == nil {
		e = l.byID[keyOrID]
	}
	if e == nil {
		return false
	}
	s.erase(e)
	return true
}

// erase takes out an entry by an operator's hand.
func (s *Service) erase(e *entry) {
	s.revision++
	s.remove(e, ByOperator)
	s.changed(e.queue.name)
}

// AddForeign puts an entry at the end of a queue that Baton did not write, as
// another program that shares the name would. Its place has no ID, mode or
// session. It stays until Remove.
func (s *Service) AddForeign(queue driver.Queue) driver.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.add(queue, nil, driver.Entry{}).Place
	s.changed(queue)
	return place
}

// sessionID gives each session a name that was never used before. Counting,
// not chance: the output of a test is then the same in every run.
func (s *Service) sessionID() string {
	s.opened++
	return fmt.Sprintf("%016x", s.opened)
}
