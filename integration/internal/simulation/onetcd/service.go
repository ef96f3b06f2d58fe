package onetcd

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// Etcd is the service on a real etcd in virtual time.
var Etcd = simulation.Kind{
	Test:     "TestSimulationOnEtcd",
	Shortest: 2 * time.Second,
	New:      start,
	Ops: []string{
		opGrant, opRevoke, opKeepAlive, opWatch, opRead, opSentinel, opJoin, opConvert, opWrite,
		opLeave, opForget, opRecord,
	},
	States: states,
}

// service is a simulation.Service.
type service struct {
	*virtualetcd.Etcd
	world simulation.World
	seed  uint64
	ttl   time.Duration
	named bool // drivers resolve names
	// user are the clients' credentials, or nil. At first the service does not
	// ask for them.
	user *url.Userinfo
	// external: some clients have sessions on external leases.
	external bool
	// chronic: a member may be ill for long, and requests to it cost a part of
	// the TTL each.
	chronic bool
	over    context.Context // ends with the world

	mu      sync.Mutex
	end     context.CancelFunc
	see     func(memory.Step)
	decide  func(simulation.Message) memory.Fate
	links   map[*virtualetcd.Link]*link
	ordered []*link
	keys    map[string]*mvccpb.KeyValue // all
	byHand  map[string]bool             // keys and sessions that the operator removes now
	calls   map[string]call             // of drivers, by the tag of their requests
	foreign int
	// quiet: no request has a fault.
	quiet bool
	// ill is the one member that is not healthy.
	ill *virtualetcd.Member
}

// call is a call of a driver.
type call struct {
	ctx     context.Context
	session string
}

func start(c simulation.Conditions) (simulation.Service, error) {
	o := virtualetcd.Options{Dir: c.T.TempDir(), Seed: c.Seed}
	names := c.Rand.IntN(4)
	o.Names, o.DeadAddresses = names >= 2, names == 3
	o.Stale = func(l *virtualetcd.Link, since time.Duration) {
		// etcd's own client, of external leases, gives an attempt 20 s.
		if since > c.TTL+25*time.Second {
			c.World.Blame("client %d connects to an address that its name has not had for %v", l.Index(), since)
		}
	}
	e, err := virtualetcd.New(o)
	if err != nil {
		return nil, err
	}
	s := &service{
		Etcd: e, world: c.World, seed: c.Seed, ttl: c.TTL, named: o.Names, external: c.Rand.IntN(3) == 0, chronic: c.Rand.IntN(4) == 0,
		links: map[*virtualetcd.Link]*link{}, keys: map[string]*mvccpb.KeyValue{},
		byHand: map[string]bool{}, calls: map[string]call{},
	}
	if c.Rand.IntN(3) == 0 {
		s.user = url.UserPassword("root", "root")
		if err := s.AddRoot(); err != nil {
			return nil, err
		}
	}
	s.over, s.end = context.WithCancel(context.Background())
	e.OnChange(s.changed)
	e.OnRequest(s.arrives)
	return s, nil
}

// rng is a generator of its own.
func (s *service) rng(name string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(name) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(s.seed, h))
}

func (s *service) OnStep(see func(memory.Step)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see = see
}

func (s *service) OnMessage(decide func(simulation.Message) memory.Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decide = decide
}

// Traits: a view of the queue is of any member, but the first in a queue and
// records are read by quorum, so Lag is zero.
//
// Rounds: the join of a contended queue is two transactions, and to follow
// another contender is a watch and a read.
func (s *service) Traits() simulation.Traits {
	t := simulation.Traits{Stale: true, Ill: longestFault(s.ttl), Rounds: 4, Late: expires + redials, Passes: true, Dials: 30}
	if s.chronic {
		t.Ill, t.Late = chronicFault*s.ttl, t.Late+s.ttl*5/4+3*(s.ttl/4+pauses)
	}
	return t
}

// What makes a client late that has no fault itself.
const (
	// etcd looks for leases to end twice in a second.
	expires = 500 * time.Millisecond
	// A client of the owner of an external lease dials again, when it was
	// refused, after a second and a fifth at most (gRPC's default), and one of
	// the driver's own after a quarter.
	redials = 1200 * time.Millisecond
	// Beside a member that is ill for long, a watch moves to another member
	// within a TTL and a quarter (docs/guarantees.md, P5). And each of the
	// release, the read and the conversion of a handoff may be sent to it
	// first: that ends after a quarter of the TTL, and this pause.
	pauses = 500 * time.Millisecond
)

func (s *service) Stop() {
	s.Etcd.Stop()
	s.healed()
}

func (s *service) Start() {
	if err := s.Etcd.Start(); err != nil {
		panic(fmt.Sprintf("etcd does not start again: %v", err))
	}
}

func (s *service) Close() {
	s.end()
	s.mu.Lock()
	links := slices.Clone(s.ordered)
	s.mu.Unlock()
	for _, l := range links {
		l.close()
	}
	s.Etcd.Close()
}

// Sessions are the live leases, or while the service is stopped the sentinels.
func (s *service) Sessions() (all []string) {
	if s.Server() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(s.keys)) {
			if len(key) > len(sessions)+16 && key[:len(sessions)] == sessions {
				all = append(all, key[len(sessions):len(sessions)+16])
			}
		}
		return all
	}
	for _, lease := range s.Leases() {
		all = append(all, hex(lease))
	}
	return all
}

func (s *service) Expire(session string) bool {
	lease, err := strconv.ParseUint(session, 16, 64)
	if err != nil {
		return false
	}
	defer s.operates(session)()
	err = s.Revoke(int64(lease))
	s.Settle()
	return err == nil
}

// operates marks a key or a session as one that the operator removes, until the
// returned function is called.
func (s *service) operates(what string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byHand[what] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byHand, what)
	}
}

func (s *service) Snapshot(queue driver.Queue) (all []driver.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, kv := range s.keys {
		if n, ok := parse(key); ok && !n.marker && n.queue == queue {
			all = append(all, n.entry(kv))
		}
	}
	return inOrder(all)
}

func (s *service) Queues() []driver.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[driver.Queue]bool{}
	for key := range s.keys {
		if n, ok := parse(key); ok && !n.marker {
			all[n.queue] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (s *service) Record(queue driver.Queue) driver.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return record(s.keys[base+string(queue)+"+record"])
}

func (s *service) Remove(_ driver.Queue, handle string) bool {
	for i := len(handle) - 1; i >= 0; i-- {
		if handle[i] == '@' {
			defer s.operates(handle[:i])()
			there, err := s.Delete(handle[:i])
			s.Settle()
			return there && err == nil
		}
	}
	return false
}

func (s *service) AddForeign(queue driver.Queue) driver.Place {
	s.mu.Lock()
	s.foreign++
	key := fmt.Sprintf("%s%s/foreign%d", base, queue, s.foreign)
	s.mu.Unlock()
	defer s.operates(key)()
	if s.Put(key, "") != nil {
		return driver.Place{}
	}
	s.Settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	kv := s.keys[key]
	if kv == nil {
		return driver.Place{}
	}
	n, _ := parse(key)
	return n.entry(kv).Place
}

// Stats: each session has a watch of its own besides those of waits.
//
// The client library cannot cancel a watch that does not exist yet: if its
// context ends before the member has answered, the member keeps the watch until
// its stream ends. The driver waits for the answer, but not after the end of
// the session, and the library asks again after a reconnect. Such watches do
// not count.
func (s *service) Stats() simulation.Stats {
	stats := simulation.Stats{Sessions: len(s.Sessions())}
	for _, w := range s.Watches() {
		if !strings.HasPrefix(w.Key, sessions) && !w.Resumed && s.ofPresent(w) {
			stats.Watches++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.keys {
		if n, ok := parse(key); ok && !n.marker {
			stats.Entries++
		}
	}
	return stats
}

// ofPresent reports whether the client's present session has asked for a watch.
func (s *service) ofPresent(w virtualetcd.Watch) bool {
	s.mu.Lock()
	l := s.links[w.Link]
	s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.Asked.After(l.opened)
}
