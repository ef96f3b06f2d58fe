package virtualzk

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/internal/dial"
)

// Config describes an ensemble. The zero value is one server with ZooKeeper's
// defaults, and no delays.
type Config struct {
	Members int           // default 1
	Tick    time.Duration // default 2 s; sessions end at multiples of it
	// MinTimeout and MaxTimeout bound what all members grant: default 2 and 20
	// ticks. See also Ensemble.Shorten.
	MinTimeout, MaxTimeout time.Duration
	// Containers is the interval at which empty containers are removed. Default
	// a minute.
	Containers time.Duration
	// EnforceAuth refuses clients without credentials.
	EnforceAuth bool

	// Peers is the longest time of a message between two members. Links have
	// their own. Zero: none.
	Peers time.Duration
	// Names: the driver gets host names. Then a process has one ensemble at a
	// time, since they are resolved in the whole process. See Ensemble.Move.
	Names bool
	// Stale, if not nil, is called with each connection to an address that its
	// name no longer has, and since when.
	Stale func(link *Link, since time.Duration)

	// Random generates all times, session IDs and passwords. Nil: there are no
	// random delays, and a message without a delay arrives before its sending
	// returns.
	Random *rand.Rand
	// Key, if not nil, returns what is not random in a path, by which requests
	// of one instant are put in order.
	Key func(path string) string

	// Reached, if not nil, is called with each of States that is reached, with
	// the ensemble's lock held.
	Reached func(state string)
}

// States are named states of an ensemble that are hard to reach.
var States = []string{
	refusedNewer, shortened, heardAlone, answeredAlone, unanswered, movedAway, reapedQueue,
}

const (
	refusedNewer  = "client refused by a member that is behind it"
	shortened     = "session continued with a shorter timeout"
	heardAlone    = "sync at a member that has lost the leader"
	answeredAlone = "sync answered by a deposed leader"
	unanswered    = "write at a member that applies nothing"
	movedAway     = "write refused since the session has moved"
	reapedQueue   = "empty container removed"
)

func (e *Ensemble) reached(state string) {
	if e.conf.Reached != nil {
		e.conf.Reached(state)
	}
}

// Ensemble is a ZooKeeper ensemble. It is safe for concurrent use.
type Ensemble struct {
	conf  Config
	began time.Time
	seed  uint64 // of all generators

	mu       sync.Mutex // guards everything, of links, too
	see      func(Txn)
	decide   func(Request) Fate
	zxid     int64
	head     *tree // after the whole log
	log      []*Txn
	sessions map[int64]*session
	members  []*member
	leader   int // or nobody
	epoch    int // counts the changes of the leader, and the starts and stops
	links    []*Link
	reaping  bool
	restore  func() // of the process's names
	closed   bool
}

// New starts an ensemble. Its first member leads.
func New(conf Config) *Ensemble {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	conf.Members = max(1, conf.Members)
	or(&conf.Tick, 2*time.Second)
	or(&conf.MinTimeout, 2*conf.Tick)
	or(&conf.MaxTimeout, 20*conf.Tick)
	or(&conf.Containers, time.Minute)
	e := &Ensemble{conf: conf, began: time.Now(), head: newTree(), sessions: map[int64]*session{}}
	e.restore = func() {}
	if conf.Names {
		e.restore = dial.ReplaceNames(e.resolve)
	}
	if conf.Random != nil {
		e.seed = conf.Random.Uint64()
	}
	for i := range conf.Members {
		e.members = append(e.members, &member{
			toLeader: lane{rand: e.rng("to leader", i)}, fromLeader: lane{rand: e.rng("from leader", i)},
			Ensemble: e, index: i, tree: newTree(), watches: watches{}, up: true,
			heard: map[int64]time.Duration{},
		})
	}
	return e
}

// Close stops the ensemble for good.
func (e *Ensemble) Close() {
	e.restore()
	e.locked(func() {
		e.closed = true
		e.leader = nobody
		e.epoch++
		for _, s := range e.sessions {
			if s.timer != nil {
				s.timer.Stop()
			}
		}
		for _, m := range e.members {
			m.up = false
			m.disconnect()
		}
	})
}

func (e *Ensemble) locked(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// rng returns a generator of its own, or nil without a generator. So what is
// drawn does not depend on the order in which the scheduler lets goroutines of
// one instant run.
func (e *Ensemble) rng(name ...any) *rand.Rand {
	if e.conf.Random == nil {
		return nil
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, name...)
	return rand.New(rand.NewPCG(e.seed, h.Sum64()))
}

// URL returns the URL of the driver, with a chroot and perhaps parameters.
func (e *Ensemble) URL(chroot string) *url.URL {
	var hosts []string
	for _, m := range e.members {
		if e.conf.Names {
			hosts = append(hosts, fmt.Sprintf(hostNames, m.index+1)+":2181")
		} else {
			hosts = append(hosts, m.address()+":2181")
		}
	}
	path, query, _ := strings.Cut(chroot, "?")
	return &url.URL{Scheme: "zk", Host: strings.Join(hosts, ","), Path: path, RawQuery: query}
}

// hostNames are the names of members, from 1 on.
const hostNames = "zk%d.world"

// address is where a member listens at present. Each move gives it another.
func (m *member) address() string { return fmt.Sprintf("10.0.%d.%d", m.moves, m.index+1) }

// resolve is the name server.
func (e *Ensemble) resolve(_ context.Context, host string) ([]string, error) {
	var n int
	if _, err := fmt.Sscanf(host, hostNames, &n); err != nil || n < 1 || n > len(e.members) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return []string{e.members[n-1].address()}, nil
}

// OnCommit calls see for each transaction when it is committed, before any
// member has applied it. see runs with the ensemble's lock held: it must
// neither block nor call the ensemble.
func (e *Ensemble) OnCommit(see func(Txn)) { e.locked(func() { e.see = see }) }

// commit appends a transaction to the log.
func (e *Ensemble) commit(txn *Txn) {
	e.log = append(e.log, txn)
	if s := txn.opens; s != nil {
		e.sessions[s.id] = s
		e.touch(s.id, s.timeout)
	}
	if s := e.sessions[txn.Closes]; s != nil {
		delete(e.sessions, s.id)
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	if e.see != nil {
		e.see(*txn)
	}
	n := len(e.log)
	for _, m := range e.members {
		if m.index == e.leader {
			m.applyTo(n)
		} else {
			m.post(&m.fromLeader, m.lag, func() { m.applyTo(n) })
		}
	}
	e.reapSoon()
}

// begin commits a new session.
func (e *Ensemble) begin(member int, timeout time.Duration) *session {
	s := e.newSession(member, timeout)
	e.zxid++
	e.commit(&Txn{
		Zxid: e.zxid, Op: opNames[opCreateSession], Session: s.id, By: ByClient, opens: s, at: time.Now(),
	})
	return s
}

// reapSoon removes containers that have become empty at the next multiple of
// the interval.
func (e *Ensemble) reapSoon() {
	changes := e.log[len(e.log)-1].Changes
	emptied := slices.ContainsFunc(changes, func(c Change) bool {
		parent := e.head.nodes[parentOf(c.Path)]
		return c.Op == Delete && parent != nil && parent.owner == containerOwner && len(parent.children) == 0
	})
	if !emptied || e.reaping {
		return
	}
	e.reaping = true
	every := e.conf.Containers
	time.AfterFunc(every-time.Since(e.began)%every, func() { e.locked(e.reap) })
}

// reap removes the containers that are empty now. A leader that comes later
// does it, too, so it does not end with the epoch.
func (e *Ensemble) reap() {
	e.reaping = false
	if e.closed {
		return
	}
	if e.leader == nobody {
		e.reaping = true
		time.AfterFunc(e.conf.Containers, func() { e.locked(e.reap) })
		return
	}
	for _, path := range e.head.emptyContainers() {
		e.reached(reapedQueue)
		e.operate(request{op: opDelete, by: ByClock, body: appendInt32(appendText(nil, path), -1)})
	}
}

// operate commits a request of nobody's session.
func (e *Ensemble) operate(r request) (code int32) {
	if e.leader == nobody {
		return codeSessionExpired
	}
	r.member, r.who = nobody, []identity{super}
	txn := e.evaluate(r)
	if txn.code == 0 {
		e.commit(txn)
	} else {
		e.zxid--
	}
	return txn.code
}
