package virtualetcd

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
)

// Etcd is a cluster of etcd in a bubble: a real server of one member, which
// clients see as several. It is safe for concurrent use.
type Etcd struct {
	dir     string
	seed    uint64
	members []*Member
	number  int  // of those in the bubble
	named   bool // clients get host names
	dead    bool // see Options
	stale   func(*Link, time.Duration)
	timeout time.Duration // after which the server gives up requests

	mu      sync.Mutex
	server  *etcdserver.EtcdServer // nil while stopped
	life    context.CancelFunc     // of this start of the server
	links   []*Link
	draws   map[string]uint64
	deposed uint64                      // how often a leader was deposed
	keys    map[string]*mvccpb.KeyValue // all, as changed has seen them
	see     func([]Change)
	seen    int64         // the revision up to which changed has seen changes
	more    chan struct{} // closed and replaced when it has seen more
	handled map[*attempt]bool
	granted int64 // see GrantTTL
	streams int   // of watches so far
	decide  func(Request) Fate
}

// Options of an Etcd.
type Options struct {
	// Dir is an empty directory for the server's data.
	Dir string
	// Members is how many members clients see, by default 3.
	Members int
	// Names: clients get host names. See Member.Move.
	Names bool
	// DeadAddresses: each name has another address first, which drops packets.
	DeadAddresses bool
	// Stale, if not nil, is called with each connection to an address that its
	// name no longer has, and since when.
	Stale func(link *Link, since time.Duration)
	// Seed determines how long messages take.
	Seed uint64
}

// New makes an etcd, and starts it. It is called in a bubble, in which Close
// must be called. All etcds of a process at a time are in one bubble.
func New(o Options) (*Etcd, error) {
	if o.Members == 0 {
		o.Members = 3
	}
	e := &Etcd{
		dir: o.Dir, seed: o.Seed, named: o.Names, dead: o.DeadAddresses, stale: o.Stale, draws: map[string]uint64{}, keys: map[string]*mvccpb.KeyValue{},
		more: make(chan struct{}), handled: map[*attempt]bool{},
	}
	for i := range o.Members {
		e.members = append(e.members, &Member{etcd: e, index: i, opened: map[*watchStream]int{}})
	}
	if err := e.enter(); err != nil {
		return nil, err
	}
	if err := e.Start(); err != nil {
		e.leave()
		return nil, err
	}
	return e, nil
}

// Close ends the etcd, and waits for goroutines that end by a timer. Close the
// clients before.
func (e *Etcd) Close() {
	e.Stop()
	e.leave()
	time.Sleep(time.Minute)
}

// Start starts the server, on the data that it had when it stopped. Each lease
// gets its full TTL. It does nothing if the server runs.
func (e *Etcd) Start() error {
	if e.Server() != nil {
		return nil
	}
	cfg, err := serverConfig(e.dir, e.number)
	if err != nil {
		return err
	}
	server, err := etcdserver.NewServer(cfg)
	if err != nil {
		return err
	}
	e.timeout = cfg.ReqTimeout()
	life, end := context.WithCancel(context.Background())
	e.mu.Lock()
	e.server, e.life = server, end
	e.mu.Unlock()
	if err := e.watch(life, server); err != nil { // before the first change
		return err
	}
	server.Start()
	<-server.ReadyNotify()
	for _, m := range e.members {
		m.start(life, server)
	}
	return nil
}

// Stop stops all members, as kill -9 does. Connections break.
func (e *Etcd) Stop() {
	e.mu.Lock()
	server, end, links := e.server, e.life, e.links
	e.server = nil
	e.mu.Unlock()
	if server == nil {
		return
	}
	end()
	for _, l := range links {
		l.lose()
	}
	for _, m := range e.members {
		m.Stop()
	}
	server.HardStop()
}

// Server is the server, or nil while it is stopped.
func (e *Etcd) Server() *etcdserver.EtcdServer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server
}

// Members are the members that clients see.
func (e *Etcd) Members() []*Member { return e.members }

// Link makes the network of a client.
func (e *Etcd) Link() *Link {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := newLink(e, len(e.links))
	e.links = append(e.links, l)
	return l
}

// dial connects to a member's address on a link.
func (e *Etcd) dial(ctx context.Context, net10, link, member int, addr string) (net.Conn, error) {
	e.mu.Lock()
	links := e.links
	e.mu.Unlock()
	if link >= len(links) || member < 0 || member >= len(e.members) {
		return nil, noAddress(addr)
	}
	l, m := links[link], e.members[member]
	if !l.leads(net10-firstNet, m) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.Cause(ctx)}
	}
	return l.dial(ctx, m)
}

// resolve returns the addresses of a member on a link.
func (e *Etcd) resolve(link, member int, host string) ([]string, error) {
	e.mu.Lock()
	links := e.links
	e.mu.Unlock()
	if link < 0 || link >= len(links) || member < 0 || member >= len(e.members) {
		return nil, noHost(host)
	}
	found := []string{links[link].ip(e.members[member])}
	if e.dead {
		found = append([]string{fmt.Sprintf("%d.%d.%d.%d", deadNet, link>>8, link&255, member+1)}, found...)
	}
	return found, nil
}

// rng is a generator of its own.
func (e *Etcd) rng(name ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, name...)
	return rand.New(rand.NewPCG(e.seed, h.Sum64()))
}

// draw returns the next time of a sequence, at least a nanosecond.
func (e *Etcd) draw(most time.Duration, name ...any) time.Duration {
	key := fmt.Sprintln(name...)
	e.mu.Lock()
	n := e.draws[key]
	e.draws[key]++
	e.mu.Unlock()
	return 1 + time.Duration(e.rng(key, n).Int64N(int64(most)))
}

// serverConfig is that of a member without sockets. Its heartbeats and
// elections are those of etcd's defaults, so leases last for at least 2 s. The
// clusters of a bubble have IDs of their own.
func serverConfig(dir string, number int) (config.ServerConfig, error) {
	peer, err := types.NewURLs([]string{"http://127.0.0.1:1"})
	if err != nil {
		return config.ServerConfig{}, err
	}
	members, err := types.NewURLsMap("n0=http://127.0.0.1:1")
	if err != nil {
		return config.ServerConfig{}, err
	}
	return config.ServerConfig{
		Name: "n0", DataDir: dir, ClientURLs: types.URLs{url.URL{Scheme: "http", Host: "127.0.0.1:2"}},
		PeerURLs: peer, InitialPeerURLsMap: members, InitialClusterToken: fmt.Sprint("x", number), NewCluster: true,
		TickMs: 100, ElectionTicks: 10, PreVote: true, MaxLearners: 1,
		SnapshotCount: 10000, SnapshotCatchUpEntries: 5000, MaxTxnOps: 128,
		MaxRequestBytes: 1 << 20, MaxConcurrentStreams: 1 << 20, StrictReconfigCheck: true,
		Logger: zap.NewNop(), UnsafeNoFsync: true, AuthToken: "simple", BcryptCost: 4, TokenTTL: 300,
		WarningApplyDuration: time.Second, WatchProgressNotifyInterval: 10 * time.Minute,
		CompactHashCheckTime: time.Minute,
		ServerFeatureGate:    features.NewDefaultServerFeatureGate("n0", zap.NewNop()),
	}, nil
}
