package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// link is all that a session's Conn sees of the network: the list of servers
// (it is the Conn's HostProvider), the dialer, and the sockets. It puts right
// what the client library gets wrong there, and it is how the session makes an
// end of a Conn: once retired, it dials no more.
//
// A Conn whose session expired goes on with a new one by itself, and sends on
// it whatever was queued for the old one. With a dialer that refuses it cannot.
type link struct {
	servers []string
	tls     *tls.Config // nil: without TLS
	ttl     time.Duration
	lapse   func() []notice // called when a connection is lost, returns what makes all watches fire

	ctx    context.Context // ends when the link is retired
	cancel context.CancelFunc
	idle   chan struct{} // closed when the Conn, after that, has come to rest
	idling sync.Once
	hosts  *rotation // for the Conn's loop only
	target target    // likewise

	mu      sync.Mutex
	socket  *socket // the latest
	hello   hello   // what the session is, once there is one
	refused hello   // the session that was not as asked for, if so
	failed  error   // why the last attempt failed
}

var errRetired = errors.New("zookeeper: session has ended")

func newLink(servers []string, conf *tls.Config, ttl time.Duration, lapse func() []notice) *link {
	l := &link{servers: servers, tls: conf, ttl: ttl, lapse: lapse, hosts: newRotation(servers), idle: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Init, Len, Next and Connected are the Conn's HostProvider. Init has nothing
// to do: the servers are known, and resolved when they are needed.
func (l *link) Init([]string) error { return nil }

// Len is the number of servers.
func (l *link) Len() int { return len(l.servers) }

// Connected has nothing to do: rounds go by the clock.
func (l *link) Connected() {}

// Next waits out the pause between rounds itself and never asks the Conn to
// wait, because the Conn would wait a whole second and fail what is queued.
// Only a retired link does: that wait is the one place where Conn.Close can
// stop a Conn that has no connection.
func (l *link) Next() (server string, retryStart bool) {
	t, err := l.hosts.next(l.ctx)
	if err != nil {
		l.idling.Do(func() { close(l.idle) })
		return "retired", true
	}
	l.target = t
	return t.addr, false
}

// patience is how long one server may take for everything up to the session:
// connection, TLS, handshake. The client library waits more than six times the
// TTL for a server that accepts and stays silent.
//
// A lost connection is noticed at two thirds of the TTL at the latest, so a
// reconnect must be able to waste one attempt and have time for a second. The
// first connect has no such hurry, and has to wait for the service to write the
// new session down.
func (l *link) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hello.session == 0 {
		return min(max(l.ttl/3, time.Second), 5*time.Second)
	}
	return min(max(l.ttl/6, 250*time.Millisecond), 2*time.Second)
}

// dial is the Conn's dialer. It ignores the address, which Next chose, and the
// library's timeout.
func (l *link) dial(string, string, time.Duration) (net.Conn, error) {
	by := time.Now().Add(l.patience())
	ctx, cancel := context.WithDeadline(l.ctx, by)
	defer cancel()
	conn, err := l.connect(ctx, l.target)
	if err != nil {
		l.note(err)
		return nil, err
	}
	s := newSocket(conn, l, by)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil { // retired meanwhile: nobody would close this one
		s.drop()
		return nil, errRetired
	}
	l.socket = s
	l.failed = fmt.Errorf("zookeeper: %s accepted the connection and has not answered yet", l.target.addr)
	return s, nil
}

// connect makes a connection to one server.
func (l *link) connect(ctx context.Context, t target) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.addr)
	if err != nil || l.tls == nil {
		return conn, err
	}
	conf := l.tls
	if conf.ServerName == "" {
		conf = conf.Clone()
		conf.ServerName = t.host
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // without TLS's close alert
		return nil, err
	}
	return secure, nil
}

// greet judges the session that a server offers. One with another timeout than
// was asked for would end at another time than its user computes.
//
// The first server to offer one ends the link: the next ones would do the same,
// and each would keep a session. On a reconnect it is only this server that is
// not used: with servers that are configured differently, going on with it
// would shorten the session's life behind its user's back.
func (l *link) greet(h hello) error {
	l.mu.Lock()
	first := l.hello.session == 0
	switch {
	case h.timeout == l.ttl:
		l.hello, l.failed = h, nil
	case first:
		l.refused = h
	}
	l.mu.Unlock()
	if h.timeout == l.ttl {
		return nil
	}
	if first {
		l.retire()
	}
	return fmt.Errorf("zookeeper: session timeout of %v asked for, %v granted", l.ttl, h.timeout)
}

// sessions returns the session, or else the one that was refused.
func (l *link) sessions() (session, refused hello) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hello, l.refused
}

// end ends a session over a connection of its own, at whatever server answers
// first, trying until ctx ends. That works in every state the Conn may be in,
// connected to a silent server included, and it tells the outcome; the
// library's Close waits a second and does not say whether the service heard of
// it.
func (l *link) end(ctx context.Context, h hello) error {
	hosts := newRotation(l.servers)
	for {
		t, err := hosts.next(ctx)
		if err != nil {
			return away(ctx, l.why())
		}
		if err = l.endAt(ctx, t, h); err == nil {
			return nil
		}
		l.note(err)
	}
}

func (l *link) endAt(ctx context.Context, t target, h hello) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	conn, err := l.connect(ctx, t)
	if err != nil {
		return err
	}
	defer func() { _ = closeNow(conn) }()
	// A cancelled ctx has to interrupt the read as well; a deadline alone would
	// not.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return h.end(conn)
}

// retire ends the link: the socket is closed, and no other is opened.
func (l *link) retire() {
	l.cancel()
	if s := l.current(); s != nil {
		s.drop()
	}
}

// current is the latest socket; nil before the first.
func (l *link) current() *socket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.socket
}

func (l *link) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// why is the reason of the latest failure, for error messages.
func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

const (
	// roundPause is how long a round of all servers takes at least, on average.
	// A healthy session never sees it: it takes the next server at once. The
	// client library's own pause is a full second, which is a tenth of a usual
	// TTL, and with a single server it comes before every reconnect.
	roundPause = 100 * time.Millisecond

	// lookupPatience bounds the resolution of one name, so that a slow name
	// server does not keep the other names from being tried.
	lookupPatience = time.Second
)

// target is one server to dial.
type target struct {
	addr string // IP address and port, or what was configured if it did not resolve
	host string // the configured name, which a certificate is checked against
}

// rotation yields servers to try, one after the other, in rounds: each round
// resolves the names anew, since addresses change in clusters that schedule
// containers, and shuffles, so that clients do not all move to one server.
//
// It is used by one goroutine at a time.
type rotation struct {
	servers []string
	lookup  func(ctx context.Context, host string) ([]string, error)
	pause   time.Duration

	round []target  // what is left of this round
	began time.Time // when this round began
}

func newRotation(servers []string) *rotation {
	return &rotation{servers: servers, lookup: net.DefaultResolver.LookupHost, pause: roundPause}
}

// next returns the next server. It fails only when ctx ends.
//
// A new round begins no sooner than the pause after the last one began,
// whatever came of that: a server that accepts and then hangs up, again and
// again, is not dialled in a tight loop either.
func (r *rotation) next(ctx context.Context) (target, error) {
	if err := ctx.Err(); err != nil {
		return target{}, err
	}
	if len(r.round) == 0 {
		if !r.began.IsZero() {
			// Spread, so that clients which lost a server together do not
			// return together.
			spread := r.pause/2 + rand.N(r.pause+1)
			if !sleep(ctx, spread-time.Since(r.began)) {
				return target{}, ctx.Err()
			}
		}
		r.began = time.Now()
		r.round = r.resolve(ctx)
	}
	t := r.round[0]
	r.round = r.round[1:]
	return t, ctx.Err()
}

// resolve returns every address of every server, shuffled.
func (r *rotation) resolve(ctx context.Context) []target {
	var round []target
	for _, server := range r.servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			round = append(round, target{server, server}) // dialling it will say what is wrong
			continue
		}
		addrs := []string{host}
		if _, err := netip.ParseAddr(host); err != nil {
			bounded, cancel := context.WithTimeout(ctx, lookupPatience)
			if found, err := r.lookup(bounded, host); err == nil && len(found) > 0 {
				addrs = found
			}
			cancel()
		}
		for _, addr := range addrs {
			round = append(round, target{net.JoinHostPort(addr, port), host})
		}
	}
	rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
	return round
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
