package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/dial"
	"github.com/baton-go/baton/internal/tlsfiles"
)

// Config says where the service is.
type Config struct {
	Servers []string         // host:port
	TLS     *tlsfiles.Source // nil: without TLS
	Digest  string           // "user:password", or ""
	Tick    time.Duration    // the servers' tickTime, or 0 if it is not known

	Dial dial.Options

	names  dial.Names
	outage outage
	late   openings // without a caller
}

// Close waits for openings whose callers have gone, for longestLate at most,
// and ends the lookups of the servers' names. No session is opened afterwards.
func (c *Config) Close(ctx context.Context) error {
	defer c.names.Close()
	return c.late.wait(ctx)
}

// Conn is one session. It sends its requests through one client connection of
// the library, and is over for ever as soon as that has, or might get, another
// session.
type Conn struct {
	conf    *Config
	client  *zk.Conn
	events  <-chan zk.Event // closed when the client's last goroutine ends; events are not read
	stopped chan struct{}   // closed when only the client's Close may still run

	ctx    context.Context // ends when the session is over, with the cause
	cancel context.CancelCauseFunc
	ended  atomic.Bool // the service has confirmed the end

	watches watches
	synced  atomic.Value  // the up for which Fresh has synced
	slots   chan struct{} // holds an element for each running request
	proving chan struct{} // holds an element while a call proves the connection
	running sync.WaitGroup

	hosts  *rotation // for the client's loop only
	target target    // likewise

	mu      sync.Mutex
	up      chan struct{} // see connected
	socket  *socket       // the latest
	hello   hello         // as requested; after the first reply, as granted
	lastErr error         // of the last attempt
	denier  string        // the address of a server that says that the session is over, or ""
}

// maxRunning bounds the unanswered requests of a session: a renewal is sent
// behind them, and must not wait for ten thousand waiters that set their
// watches again after a reconnect.
const maxRunning = 512

// sendBuffer holds the largest request: 128 KiB, the client library's limit for
// setting watches again. The library's default is 1.5 MiB for each session.
const sendBuffer = 256 << 10

func newConn(conf *Config, ttl time.Duration) *Conn {
	c := &Conn{
		conf:    conf,
		stopped: make(chan struct{}),
		watches: watches{m: make(map[Target]*Watch)},
		slots:   make(chan struct{}, maxRunning),
		proving: make(chan struct{}, 1),
		hosts:   conf.newRotation(),
		up:      make(chan struct{}),
		hello:   hello{timeout: ttl},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.hosts.waits = c.setLastError
	c.synced.Store(c.up) // nothing was read before the first connection
	return c
}

// Open starts a session with exactly this TTL. If ctx ends first, the session
// is ended in the background as soon as the service has named it. Without its
// name, by longestLate, nobody can end it but its TTL.
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
		zk.WithLogger(log.New(io.Discard, "", 0)), // the calls return errors; the coordinator logs them
		zk.WithLogInfo(false))
	s.mu.Unlock()
	if err != nil {
		return nil, driver.Wrap(driver.ErrUnavailable, err)
	}
	context.AfterFunc(s.ctx, s.stop)
	if err := s.establish(ctx); err != nil {
		if ctx.Err() != nil && s.asked() {
			c.late.begin()
			go s.closeLate()
		} else {
			_ = s.Close(ctx) // the service ends it after the TTL in any case
		}
		if errors.Is(err, driver.ErrSessionLost) {
			// Nobody has had the session, and the next Open gets another (O3).
			err = driver.Wrap(driver.ErrUnavailable,
				fmt.Errorf("zookeeper: the session ended before it could be used: %v", err)) //nolint:errorlint // it is not ErrSessionLost
		}
		return nil, err
	}
	return s, nil
}

// establish waits for the session and sends the credentials. The client repeats
// them on every later connection, but not on one made before it knows that they
// were accepted, hence the comparison.
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

// ID is ZooKeeper's session ID in hex, as in the service's logs after "0x".
func (c *Conn) ID() string { return strconv.FormatUint(uint64(c.Number()), 16) }

// Number is ZooKeeper's session ID.
func (c *Conn) Number() int64 { return c.hello.session }

// TTL is the granted session timeout.
func (c *Conn) TTL() time.Duration { return c.hello.timeout }

// Done is closed when the session is over for this process: the service has
// said so, or may end it before its users expect that, or Close was called.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err is why the session is over, or nil. It is ErrSessionLost.
func (c *Conn) Err() error { return context.Cause(c.ctx) }

// Run calls f unless the session is over. Close waits for it.
func (c *Conn) Run(f func()) {
	if c.begin() == nil {
		defer c.running.Done()
		f()
	}
}

// begin counts a running task, for which stop waits. It fails once the session
// is over.
func (c *Conn) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return c.Err()
	}
	c.running.Add(1)
	return nil
}

// finish ends the session for this process, with the first cause given. ended:
// the service has ended it too, so Close need not. It waits for nothing: the
// client calls it too, before it gets another session.
func (c *Conn) finish(cause error, ended bool) {
	if ended {
		c.ended.Store(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel(cause)
}

// classify translates the error of a request, and ends the session if the reply
// says that it is over.
func (c *Conn) classify(err error) error {
	err = translate(err)
	switch {
	case errors.Is(err, driver.ErrSessionLost):
		c.finish(errExpired, true)
		return c.Err()
	case errors.Is(err, zk.ErrSessionMoved):
		// The connection lost the session. A new one will get it.
		c.closeSocket()
	}
	return err
}

// markDisconnected notes that the connection is lost, before the client knows:
// from then on requests wait here for the next connection, and not in the
// client's queue. All watches fire, and the notices make the client forget
// them.
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

// connected returns a channel that is closed while the client is connected.
// Each connection has another channel, so callers compare the channels to
// notice a reconnect.
func (c *Conn) connected() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

// event is the client's callback. Unlike the event channel it misses nothing,
// and it gets an event of a node before any reply that the service has sent
// later.
func (c *Conn) event(e zk.Event) {
	if e.State == zk.StateDisconnected {
		c.markDisconnected() // in case the socket did not notice
		return
	}
	c.watches.fire(e)
}

// stop waits for everything that runs for the session. This needs no service:
// all I/O fails, and the client ends when it tries to reconnect.
func (c *Conn) stop() {
	c.closeSocket()
	for range c.events {
	}
	c.running.Wait()
	close(c.stopped)
}

// Close first ends everything in this process, then the session at the service,
// over its own connection. In this order nothing can come between: the client
// cannot take the session back, and the service refuses requests from its last
// connection, since the session has moved, and ended.
func (c *Conn) Close(ctx context.Context) error {
	c.finish(errClosed, false)
	select {
	case <-c.stopped:
	case <-ctx.Done():
	}
	c.mu.Lock()
	session, denier := c.hello, c.denier
	c.mu.Unlock()
	if session.session == 0 || c.ended.Load() {
		return nil // never established, or its end is confirmed
	}
	if err := c.conf.endSession(ctx, session, denier); err != nil {
		return err
	}
	c.ended.Store(true)
	return nil
}
