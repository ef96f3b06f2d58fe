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
	conf    *Config
	client  *zk.Conn
	events  <-chan zk.Event // closed when the client's last goroutine ends; no event is read
	stopped chan struct{}   // closed when only the client's Close may still run

	ctx       context.Context // ends when the session is over, with the cause
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when the service has said so
	closeDone func()        // closes done

	watches watches
	synced  atomic.Value  // the up with which Fresh has synced
	slots   chan struct{} // a place for each running request
	running sync.WaitGroup

	hosts  *rotation // for the client's loop only
	target target    // likewise

	mu      sync.Mutex
	up      chan struct{} // another one for each connection, closed while that is there
	socket  *socket       // the latest
	hello   hello         // what is asked for; from the first answer on, what was granted
	lastErr error         // why the last attempt failed
}

// maxRunning bounds the requests of a session that wait for an answer: a
// renewal is sent behind them, and must not wait for ten thousand waiters who
// set their watches again after a reconnect.
const maxRunning = 512

// sendBuffer holds the largest request: 128 KiB, at which the client library
// cuts the list of watches that it sets again. Its own size is 1.5 MiB for each
// session.
const sendBuffer = 256 << 10

func newConn(conf *Config, ttl time.Duration) *Conn {
	c := &Conn{
		conf:    conf,
		stopped: make(chan struct{}),
		done:    make(chan struct{}),
		watches: watches{m: make(map[Target]*Watch)},
		slots:   make(chan struct{}, maxRunning),
		hosts:   newRotation(conf.Servers),
		up:      make(chan struct{}),
		hello:   hello{timeout: ttl},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.closeDone = sync.OnceFunc(func() { close(c.done) })
	c.synced.Store(c.up) // nothing was told to this session before its first connection
	return c
}

// Open starts a session with exactly this TTL.
func (c *Config) Open(ctx context.Context, ttl time.Duration) (*Conn, error) {
	if ttl < time.Millisecond || ttl.Milliseconds() > math.MaxInt32 || ttl%time.Millisecond != 0 {
		return nil, Invalid("TTL %v: ZooKeeper takes whole milliseconds, 1ms to %v",
			ttl, math.MaxInt32*time.Millisecond)
	}
	s := newConn(c, ttl)
	s.mu.Lock() // the callbacks wait until client and events are set
	var err error
	s.client, s.events, err = zk.Connect(c.Servers, ttl,
		zk.WithHostProvider(provider{s}),
		zk.WithDialer(s.dial),
		zk.WithEventCallback(s.event),
		zk.WithMaxConnBufferSize(sendBuffer),
		zk.WithLogger(log.New(io.Discard, "", 0)), // errors come back from the calls; the coordinator logs them
		zk.WithLogInfo(false))
	s.mu.Unlock()
	if err != nil {
		return nil, driver.Wrap(driver.ErrUnavailable, err)
	}
	context.AfterFunc(s.ctx, s.stop)
	if err := s.establish(ctx); err != nil {
		_ = s.Close(ctx) // the service ends it after the TTL in any case
		return nil, err
	}
	return s, nil
}

// establish waits for the session and gives it its credentials. The client
// repeats them on every later connection; but if it reconnects just when they
// were accepted it does not know them yet, hence the comparison.
func (c *Conn) establish(ctx context.Context) error {
	if err := c.awaitConnection(ctx); err != nil || c.conf.Digest == "" {
		return err
	}
	for {
		connection := c.connected()
		_, err := Do(ctx, c, func(client *zk.Conn) (struct{}, error) {
			return struct{}{}, client.AddAuth("digest", []byte(c.conf.Digest))
		})
		switch {
		case err == nil && connection == c.connected():
			return nil
		case err != nil && !errors.Is(err, zk.ErrConnectionClosed):
			return err
		}
	}
}

// ID is ZooKeeper's session ID in hex, as the service's logs show it after
// "0x".
func (c *Conn) ID() string { return strconv.FormatUint(uint64(c.Number()), 16) }

// Number is ZooKeeper's session ID.
func (c *Conn) Number() int64 { return c.hello.session }

// TTL is the session timeout that the service granted.
func (c *Conn) TTL() time.Duration { return c.hello.timeout }

// Done is closed when the service has said that the session is over: to a
// connection that asked for it, or to Close.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the session is over, nil before. It is ErrSessionLost.
func (c *Conn) Err() error { return context.Cause(c.ctx) }

// Run runs something for the session unless that is over. Close waits for it.
func (c *Conn) Run(f func()) {
	if c.begin() == nil {
		defer c.running.Done()
		f()
	}
}

// begin counts something that runs. Once the session is over nothing begins,
// and retire waits for what runs.
func (c *Conn) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return c.Err()
	}
	c.running.Add(1)
	return nil
}

// finish ends the session for this process, for the first cause given. It does
// not wait for anything: the client calls it too, before it gets another
// session.
func (c *Conn) finish(cause error, service bool) {
	c.mu.Lock()
	c.cancel(cause)
	c.mu.Unlock()
	if service {
		c.closeDone()
	}
}

// judge gives the outcome of a request its kind, and ends the session if the
// reply says that it is over.
func (c *Conn) classify(err error) error {
	err = translate(err)
	switch {
	case errors.Is(err, driver.ErrSessionLost):
		c.finish(errExpired, true)
		return c.Err()
	case errors.Is(err, zk.ErrSessionMoved):
		// This connection is not the session's any more. A new one will be.
		c.closeSocket()
	}
	return err
}

// lost notes that there is no connection any more, before the client knows:
// from then on requests wait here for the next one, and not in the client's
// queue. All watches fire, and the notices make the client forget them.
func (c *Conn) markDisconnected() (notices []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.up:
		c.up = make(chan struct{})
		return c.watches.fireAll()
	default:
		return nil
	}
}

// present returns a channel that is closed while there is a connection. Each
// connection has another one, which tells replies on a later connection.
func (c *Conn) connected() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

// event is the client's callback. It misses nothing, unlike the channel of
// events, and gets an event of a node before any reply that the service has
// sent later.
func (c *Conn) event(e zk.Event) {
	if e.State == zk.StateDisconnected {
		c.markDisconnected() // if the socket did not notice
		return
	}
	c.watches.fire(e)
}

// retire waits for all that runs for the session, which does not depend on the
// service: all I/O fails, and the client ends when it wants to connect again.
func (c *Conn) stop() {
	c.closeSocket()
	for range c.events { // until closed
	}
	c.running.Wait()
	close(c.stopped)
}

// Close ends first everything in this process, then the session at the service,
// over a connection of its own. In this order nothing comes in between: the
// client cannot take the session back, and the service refuses what its last
// connection still carries, since the session has moved, and ended.
func (c *Conn) Close(ctx context.Context) error {
	c.finish(errClosed, false)
	select {
	case <-c.stopped:
	case <-ctx.Done():
	}
	select {
	case <-c.done:
		return nil // the service has said so
	default:
	}
	c.mu.Lock()
	session := c.hello
	c.mu.Unlock()
	if session.session == 0 {
		return nil // there never was one
	}
	if _, err := c.conf.endSession(ctx, session); err != nil {
		return err
	}
	c.closeDone()
	return nil
}
