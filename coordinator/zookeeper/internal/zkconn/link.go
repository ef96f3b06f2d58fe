package zkconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"
)

// link is all that a session's client sees of the network: the list of servers
// (it is the client's HostProvider), the dialer, and the sockets. It puts right
// what the client library gets wrong there, and it is how the session makes an
// end of the client: once retired, it dials no more.
//
// A client whose session expired goes on with a new one by itself, and sends on
// it whatever was queued for the old one. With a dialer that refuses it cannot.
type link struct {
	servers   []string
	tls       *tls.Config // nil: without TLS
	ttl       time.Duration
	connected func(bool) []notice // Conn.connected

	ctx    context.Context // ends when the link is retired
	cancel context.CancelFunc
	idle   chan struct{} // closed when the client, after that, has come to rest
	idling sync.Once
	hosts  *rotation // for the client's loop only
	target target    // likewise

	mu      sync.Mutex
	socket  *socket // the latest
	hello   hello   // what the session is, once there is one
	refused hello   // the session that was not as asked for, if so
	failed  error   // why the last attempt failed
}

func newLink(
	servers []string, conf *tls.Config, ttl time.Duration, connected func(bool) []notice,
) *link {
	l := &link{
		servers: servers, tls: conf, ttl: ttl, connected: connected,
		hosts: newRotation(servers), idle: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Init, Len, Next and Connected are the client's HostProvider. Init has nothing
// to do: the servers are known, and resolved when they are needed.
func (l *link) Init([]string) error { return nil }

// Len is the number of servers.
func (l *link) Len() int { return len(l.servers) }

// Connected says that the client has its session. The client still has to send
// the watches that it knows of, beside the goroutine that takes answers. It
// knows of none: see socket.fill.
func (l *link) Connected() { l.connected(true) }

// Next waits out the pause between rounds itself and never asks the client to
// wait, because the client would wait a whole second and fail what is queued.
// Only a retired link does: that wait is the one place where Conn.Close can
// stop a client that has no connection.
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
// connection, TLS, handshake.
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

// dial is the client's dialer. It ignores the address, which Next chose, and the
// library's timeout.
func (l *link) dial(string, string, time.Duration) (net.Conn, error) {
	by := time.Now().Add(l.patience())
	ctx, cancel := context.WithDeadline(l.ctx, by)
	defer cancel()
	conn, err := l.target.connect(ctx, l.tls)
	if err != nil {
		l.note(err)
		return nil, err
	}
	s := newSocket(conn, l, by)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil { // retired meanwhile: nobody would close this one
		s.drop()
		return nil, l.ctx.Err()
	}
	l.socket = s
	l.failed = fmt.Errorf("zookeeper: %s accepted the connection and has not answered yet",
		l.target.addr)
	return s, nil
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
// first, trying until ctx ends. That works in every state the client may be in,
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
	conn, err := t.connect(ctx, l.tls)
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
