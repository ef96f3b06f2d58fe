package zkconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Config says where the service is.
type Config struct {
	Servers []string    // host:port
	TLS     *tls.Config // nil: without TLS
	Digest  string      // "user:password", or ""
}

// Conn is one session. It sends its requests through one client connection of
// the library, and it is over for ever as soon as that has, or might get,
// another session.
type Conn struct {
	client  *zk.Conn
	events  <-chan zk.Event // closed when the client's last goroutine ends; no event is read
	retired chan struct{}   // closed when nothing runs for the session any more

	id  int64
	ttl time.Duration

	link    *link
	watches watches
	synced  atomic.Int64 // the generation of the connection on which Fresh has synced

	slots    chan struct{} // a place for each running request
	renewals chan struct{} // likewise, for renewals
	running  sync.WaitGroup

	mu    sync.Mutex
	up    chan struct{} // closed while there is a connection
	turns int64         // how often a connection has come or gone: odd while there is one
	cause error         // why the session is over; nil before
	told  bool          // done is closed
	over  chan struct{} // closed when the session is over, for whatever cause
	done  chan struct{} // closed when the service has said so
}

const (
	// maxRunning bounds the requests of a session that wait for an answer. A
	// renewal is sent behind them, and the session depends on it: it must not
	// wait for ten thousand waiters who set their watches again after a
	// reconnect.
	maxRunning = 512

	// maxRenewing bounds the renewals, which have places of their own.
	maxRenewing = 2
)

// sendBuffer holds the largest request: 128 KiB, at which the client library
// cuts the list of watches that it sets after a reconnect, or a value of 64
// KiB with its path and access list. The library's own size is 1.5 MiB for
// each session.
const sendBuffer = 256 << 10

// Open starts a session with exactly this TTL.
func (c *Config) Open(ctx context.Context, ttl time.Duration) (*Conn, error) {
	if ttl < time.Millisecond || ttl.Milliseconds() > math.MaxInt32 || ttl%time.Millisecond != 0 {
		return nil, Invalid("TTL %v: ZooKeeper takes whole milliseconds, 1ms to %v",
			ttl, math.MaxInt32*time.Millisecond)
	}
	return c.open(ctx, ttl)
}

// open is Open without a check. A session that could not be opened, and was
// ended, is returned too, for the timeout that it was offered.
func (c *Config) open(ctx context.Context, ttl time.Duration) (*Conn, error) {
	s := &Conn{
		ttl:      ttl,
		retired:  make(chan struct{}),
		watches:  watches{m: make(map[watchKey]*Watch)},
		slots:    make(chan struct{}, maxRunning),
		renewals: make(chan struct{}, maxRenewing),
		up:       make(chan struct{}),
		over:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	s.synced.Store(1) // nothing was told to this session before its first connection
	s.link = newLink(c.Servers, c.TLS, ttl, s.connected)
	s.mu.Lock() // the callbacks wait until client and events are set
	var err error
	s.client, s.events, err = zk.Connect(c.Servers, ttl,
		zk.WithHostProvider(s.link),
		zk.WithDialer(s.link.dial),
		// The channel of events drops what does not fit into it, the expiry of
		// the session included. The callback misses nothing.
		zk.WithEventCallback(s.event),
		zk.WithMaxConnBufferSize(sendBuffer),
		zk.WithLogger(log.New(io.Discard, "", 0)), // errors come back from the calls; the coordinator logs them
		zk.WithLogInfo(false))
	s.mu.Unlock()
	if err != nil {
		return s, driver.Wrap(driver.ErrUnavailable, err)
	}
	if err := s.establish(ctx, c.Digest); err != nil {
		s.abandon(ctx)
		return s, err
	}
	return s, nil
}

// establish waits for the session and gives it its credentials.
func (c *Conn) establish(ctx context.Context, digest string) error {
	select {
	case <-c.present():
	case <-ctx.Done():
		return away(ctx, c.link.why())
	case <-c.link.ctx.Done(): // by link.greet, or because the session was over at once
	}
	h, refused := c.link.sessions()
	switch {
	case refused.session != 0:
		return Invalid("TTL %v: the service grants %v "+
			"(its bounds are minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks)",
			c.ttl, refused.timeout)
	case h.session == 0:
		return driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the service gave no session"))
	}
	c.id = h.session
	if digest == "" {
		return nil
	}
	return c.authenticate(ctx, digest)
}

// authenticate adds the credentials to the session's connection. The client
// repeats them on every later one, before anything else; but if it reconnects
// just when they were accepted it does not know them yet, hence the comparison.
func (c *Conn) authenticate(ctx context.Context, digest string) error {
	for {
		connection := c.generation()
		_, err := Do(ctx, c, func(client *zk.Conn) (struct{}, error) {
			return struct{}{}, client.AddAuth("digest", []byte(digest))
		})
		switch {
		case err == nil && connection == c.generation():
			return nil
		case ctx.Err() != nil, err != nil && !errors.Is(err, driver.ErrUnavailable):
			return err
		}
	}
}

// abandon ends a session that could not be opened.
func (c *Conn) abandon(ctx context.Context) {
	c.finish(errClosed, false)
	c.awaitRetired(ctx)
	session, refused := c.link.sessions()
	if session.session == 0 {
		session = refused
	}
	if session.session != 0 && ctx.Err() == nil {
		_ = c.link.end(ctx, session) // the service ends it after the TTL in any case
	}
}

// ID is ZooKeeper's session ID in hex, as the service's own logs show it after
// "0x".
func (c *Conn) ID() string { return strconv.FormatUint(uint64(c.id), 16) }

// Number is ZooKeeper's session ID.
func (c *Conn) Number() int64 { return c.id }

// TTL is the session timeout that the service granted.
func (c *Conn) TTL() time.Duration { return c.ttl }

// Done is closed when the service says that the session is over, which it does
// when a connection asks for it; or when it has confirmed Close.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Over is closed when the session is over, for whatever cause: Err.
func (c *Conn) Over() <-chan struct{} { return c.over }

// Err is why the session is over, nil before. It is ErrSessionLost.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Run runs something for the session unless that is over. Close waits for it.
func (c *Conn) Run(f func()) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.running.Add(1)
	c.mu.Unlock()
	defer c.running.Done()
	f()
}

// finish ends the session for this process, for the first cause given. Done is
// closed only if the service has said so. It does not wait for anything: the
// client calls it too.
func (c *Conn) finish(cause error, service bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = driver.Wrap(driver.ErrSessionLost, cause)
		close(c.over)
		c.link.cancel() // before the client gets another session
		go c.retire()
	}
	if service && !c.told {
		c.told = true
		close(c.done)
	}
}

// judge gives the outcome of a request its kind, and ends the session if the
// reply shows that it is over.
func (c *Conn) judge(err error) error {
	err = translate(err)
	switch id := c.client.SessionID(); {
	case errors.Is(err, driver.ErrSessionLost), id == 0:
		c.finish(errExpired, true)
		return c.Err()
	case id != c.id:
		// Whatever the reply says, it may be about the other session.
		c.finish(errMoved, true)
		return c.Err()
	case errors.Is(err, zk.ErrSessionMoved):
		// This connection is not the session's any more. A new one will be.
		c.link.current().drop()
	}
	return err
}

// connected notes that there is a connection, or none. A loss is noted before
// the client knows of it: from then on requests wait here for the next
// connection, and not in the client's queue. It returns the notices that make
// all watches fire when the connection is lost.
func (c *Conn) connected(is bool) []notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch was := c.turns%2 == 1; {
	case is && !was:
		c.turns++
		close(c.up)
	case was && !is:
		c.turns++
		c.up = make(chan struct{})
		return c.watches.notices()
	}
	return nil
}

// present returns a channel that is closed while there is a connection.
func (c *Conn) present() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

// generation is another one on each connection, and another one still while
// there is none. It changes when a connection is lost, before the client knows:
// a reply that came on a later connection finds another generation, even if the
// request was queued in the client before.
func (c *Conn) generation() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns
}

// event is the client's callback. It runs in the client's own goroutines and
// must not wait. An event of a node comes here before any reply to a request
// that the service has answered later.
func (c *Conn) event(e zk.Event) {
	switch {
	case e.Type != zk.EventSession:
		c.watches.fire(e)
	case e.State == zk.StateExpired:
		c.finish(errExpired, true)
	case e.State == zk.StateDisconnected:
		for _, n := range c.connected(false) { // the socket did not notice
			c.watches.fire(zk.Event{Type: n.kind, Path: n.path, State: zk.StateDisconnected})
		}
		if c.link.ctx.Err() != nil {
			// The client's Close first tells this goroutine to stop, and then
			// queues a request. If that comes too late to be thrown out here,
			// Close waits a second for an answer.
			time.Sleep(time.Millisecond) //nolint:forbidigo // the client's goroutine is not ours to signal
		}
	}
}

// closeGrace is how much longer than its context a Close may wait for what is
// local only. It is a matter of microseconds, on a busy machine of
// milliseconds.
const closeGrace = 250 * time.Millisecond

// retire ends the client and waits for all that runs for the session. It is not
// bounded by a context since it does not depend on the service: link.retire
// fails all I/O.
func (c *Conn) retire() {
	c.link.retire()
	// Close on a client with requests under way would wait a second for a reply
	// that cannot come. One at rest it ends at once.
	<-c.link.idle
	c.client.Close()
	for range c.events { // until closed
	}
	c.running.Wait()
	close(c.retired)
}

// awaitRetired waits for retire, by ctx.
func (c *Conn) awaitRetired(ctx context.Context) {
	select {
	case <-c.retired:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.retired:
	case <-timer.C:
	}
}

// Close ends the session: first everything in this process, then the session at
// the service, over a connection of its own. In this order nothing comes in
// between: the client cannot take the session back, and what its last
// connection still carries is refused by the service, since the session has
// moved, and ended.
func (c *Conn) Close(ctx context.Context) error {
	c.finish(errClosed, false)
	c.awaitRetired(ctx)
	select {
	case <-c.done:
		return nil // the service has said so
	default:
	}
	session, _ := c.link.sessions()
	if err := c.link.end(ctx, session); err != nil {
		return err
	}
	c.finish(errClosed, true)
	return nil
}
