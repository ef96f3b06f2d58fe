package onzk

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/virtualzk"
	"github.com/baton-go/baton/internal/dial"
)

// Worlds are worlds on ZooKeeper: one server, or three that lag behind each
// other by a random time. In half of the worlds the driver knows the tick, and
// in a quarter the servers demand credentials.
var Worlds = simulation.Kind{
	Test: "TestSimulationOnZooKeeper",
	New:  newService,
	Ops: []string{
		"connect", "sync", "multi", "delete", "setData", "getData", "getChildren2", "createContainer",
		"closeSession",
	},
	States: append([]string{simulation.LongOutage, "members moved"}, virtualzk.States...),
}

// service is a simulation.Service. Its queues are guarded by mu, which is
// locked inside the ensemble's steps.
type service struct {
	began time.Time
	*virtualzk.Ensemble
	seed  uint64
	ttl   time.Duration
	tick  time.Duration
	url   string        // chroot and parameters
	user  *url.Userinfo // or nil
	named bool          // the driver resolves names
	world simulation.World

	mu      sync.Mutex
	foreign map[string]bool // keys of entries of another program
	made    int             // of them, ever
	queues  queues
	links   map[*virtualzk.Link]*link
}

func newService(c simulation.Conditions) (simulation.Service, error) { return newServiceOf(c, "") }

// newServiceOf starts a service with queues in the layout of another client,
// unless that is "".
func newServiceOf(c simulation.Conditions, shared string) (simulation.Service, error) {
	r, queues := c.Rand, newQueues(layout{shared, c.World})
	members := []int{1, 3, 3}[r.IntN(3)]
	tick := (c.TTL / time.Duration([]int{3, 5, 10, 20}[r.IntN(4)])).Truncate(time.Millisecond)
	conf := virtualzk.Config{
		Members: members, Tick: tick, MinTimeout: time.Millisecond, MaxTimeout: time.Hour,
		Containers: []time.Duration{5 * time.Millisecond, c.TTL / 3, time.Minute}[r.IntN(3)],
		Peers:      time.Duration(1 + r.Int64N(int64(5*time.Millisecond))),
		Random:     rand.New(rand.NewPCG(c.Seed, 0x2ee)), Reached: c.World.Reached,
		EnforceAuth: r.IntN(4) == 0,
	}
	conf.Names = r.IntN(2) == 0
	// The last address of a round is tried after all others have timed out.
	round := time.Duration(members) * max(time.Second, c.TTL/3)
	conf.Stale = func(l *virtualzk.Link, since time.Duration) {
		if since > round+c.TTL {
			c.World.Blame("%s connects to an address that its name has not had for %v", l.Name(), since)
		}
	}
	conf.Key = func(path string) string {
		if n, ok := queues.parse(path); ok && n.id != "" {
			return fmt.Sprint(n.queue, n.seq, n.mode, c.World.Label(n.id))
		}
		return path
	}
	s := &service{
		Ensemble: virtualzk.New(conf), world: c.World, foreign: map[string]bool{}, began: time.Now(), seed: c.Seed, ttl: c.TTL, tick: tick, url: chroot,
		named: conf.Names, queues: queues, links: map[*virtualzk.Link]*link{},
	}
	if conf.EnforceAuth {
		s.user = url.UserPassword("baton", "secret")
	}
	s.url += "?layout=" + cmp.Or(shared, "native")
	if r.IntN(2) == 0 {
		s.url += "&tick=" + tick.String()
	}
	return s, nil
}

// link is a simulation.Link.
type link struct {
	*virtualzk.Link
	driver driver.Driver
	svc    *service
}

func (l *link) Driver() driver.Driver { return l.driver }

func (l *link) Expire() (found bool) {
	for _, id := range l.Sessions() {
		found = l.svc.Ensemble.Expire(id) || found
	}
	return found
}

// Connect gives the driver the link, and a generator of its own for the order
// of servers and the pauses.
func (s *service) Connect(name string) (simulation.Link, error) {
	l := &link{Link: s.Link(name), svc: s}
	source := func(o *dial.Options) {
		o.Source = func() rand.Source {
			h := fnv.New64a()
			_, _ = fmt.Fprint(h, name, time.Since(s.began))
			return rand.NewPCG(s.seed, h.Sum64())
		}
	}
	var err error
	where := s.URL(s.url)
	where.User = s.user
	l.driver, err = zookeeper.OpenWith(where, zookeeper.Dialer(l.Dial), source)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[l.Link] = l
	return l, err
}

func (s *service) OnStep(see func(memory.Step)) {
	s.OnCommit(func(txn virtualzk.Txn) {
		var steps []memory.Step
		s.mu.Lock()
		s.queues.steps(txn, func(step memory.Step) { steps = append(steps, step) })
		s.mu.Unlock()
		for _, step := range steps {
			see(step)
		}
	})
}

// Codes of the errors that the driver reports as ErrRefused and ErrUnavailable.
const (
	quotaExceeded = -125
	throttled     = -127
)

var writes = map[string]bool{"multi": true, "delete": true, "setData": true}

func (s *service) OnMessage(decide func(simulation.Message) memory.Fate) {
	s.OnRequest(func(r virtualzk.Request) virtualzk.Fate {
		s.mu.Lock()
		m := simulation.Message{Link: s.links[r.Link], Op: r.Op}
		s.mu.Unlock()
		if r.Session != 0 {
			m.Session = sessionName(r.Session)
		}
		for _, path := range r.Paths {
			if n, ok := s.queues.parse(path); ok && m.ID == "" {
				m.Queue, m.ID = n.queue, n.id
			}
		}
		f := decide(m)
		fate := virtualzk.Fate{
			DelayRequest: f.DelayRequest, DelayReply: f.DelayReply,
			DropRequest: f.DropRequest, DropReply: f.DropReply,
		}
		switch {
		// A refusal is an answer to one caller, who must be known: a watch has
		// many.
		case errors.Is(f.Err, driver.ErrRefused) && m.ID != "" && writes[r.Op]:
			fate.Code = quotaExceeded
		case f.Err != nil && r.Op != "auth": // which no server defers
			fate.Code = throttled
		}
		return fate
	})
}

func (s *service) Sessions() (all []string) {
	for _, id := range s.Ensemble.Sessions() {
		all = append(all, sessionName(id))
	}
	return all
}

func (s *service) Expire(session string) bool {
	id, err := strconv.ParseUint(session, 16, 64)
	return err == nil && s.Ensemble.Expire(int64(id))
}

func (s *service) Snapshot(queue driver.Queue) []driver.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queues.entries[queue])
}

func (s *service) Queues() []driver.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues.names()
}

func (s *service) Record(queue driver.Queue) driver.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues.records[queue]
}

func (s *service) Remove(queue driver.Queue, key string) bool {
	done := s.Delete(s.queues.path(queue) + "/" + key)
	s.mu.Lock()
	was := s.foreign[key]
	delete(s.foreign, key)
	none := len(s.foreign) == 0
	s.mu.Unlock()
	if was && none {
		s.world.Refuses(false)
	}
	return done
}

// AddForeign makes the queue if it does not exist. Baton refuses such a queue.
func (s *service) AddForeign(queue driver.Queue) driver.Place {
	s.mu.Lock()
	s.made++
	key := fmt.Sprintf("foreign%d", s.made)
	s.foreign[key] = true
	s.mu.Unlock()
	s.world.Refuses(true)
	path := s.queues.path(queue)
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			s.Create(path[:i], nil, true)
		}
	}
	s.Create(path, nil, true)
	s.Create(path+"/"+key, nil, false)
	return driver.Place{Key: key}
}

func (s *service) Stop()  { s.Ensemble.Stop(-1) }
func (s *service) Start() { s.Ensemble.Start(-1) }

// Stats leaves out watches on queues and records, of which a session keeps one
// each until the next change, and containers.
func (s *service) Stats() simulation.Stats {
	all := s.Ensemble.Stats()
	stats := simulation.Stats{Sessions: all.Sessions}
	for path, watches := range s.Watched() {
		if n, ok := s.queues.parse(path); ok && !n.record {
			stats.Watches += watches
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entries := range s.queues.entries {
		stats.Entries += len(entries)
	}
	return stats
}

// Traits: a join of a queue that was removed makes it first, and a wait after a
// reconnect syncs first. A client without faults may still have to leave a
// member, and be between two rounds of dialling; a session ends at a tick. A
// member that lags does not answer the syncs of renewals, so a client leaves it
// within a TTL; until then it answers reads.
func (s *service) Traits() simulation.Traits {
	return simulation.Traits{
		Stale: true, Lag: s.ttl, Ill: s.ttl, Rounds: 4, Late: s.ttl/2 + 3*time.Second + 2*s.tick,
		Dials: 15,
	}
}

// Close waits for the client library, whose own Close waits for a reply.
func (s *service) Close() {
	s.Ensemble.Close()
	time.Sleep(10 * time.Second)
}
