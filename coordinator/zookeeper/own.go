package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// sendBuffer holds the largest request: 128 KiB, at which the client library cuts the list of watches
// that it sets after a reconnect, or a value of 64 KiB with its path and access list. The library's
// own size is 1.5 MiB for each session.
const sendBuffer = 256 << 10

// service is the driver that connects by itself: each session has a Conn of its own.
type service struct {
	base
	scheme  string
	servers []string
	tls     *tls.Config // nil: without TLS
	digest  string      // "user:password", or ""
}

// owned is what a session has when its Conn was made for it.
type owned struct {
	link *link

	events  <-chan zk.Event // closed when the Conn's last goroutine ends; nobody reads the events
	started chan struct{}   // closed when conn and events are set
	retired chan struct{}   // closed when nothing runs for the session any more
}

// Open starts a session.
func (d *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if err := checkTTL(ttl); err != nil {
		return nil, err
	}
	s, err := d.open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// open is Open. A session that could not be opened, and was ended, is returned too, for what it was told.
func (d *service) open(ctx context.Context, ttl time.Duration) (*session, error) {
	s := newSession(ttl, d.base)
	s.own = &owned{
		link:    newLink(d.servers, d.tls, ttl, s.lapse),
		started: make(chan struct{}),
		retired: make(chan struct{}),
	}
	conn, events, err := zk.Connect(d.servers, ttl,
		zk.WithHostProvider(s.own.link),
		zk.WithDialer(s.own.link.dial),
		// The channel of events drops what does not fit into it, the expiry of the session
		// included. The callback misses nothing.
		zk.WithEventCallback(s.event),
		zk.WithMaxConnBufferSize(sendBuffer),
		zk.WithLogger(silence{}), // errors come back from the calls; the coordinator logs them
		zk.WithLogInfo(false))
	if err != nil {
		return s, driver.Wrap(driver.ErrUnavailable, err)
	}
	s.conn, s.own.events = conn, events
	close(s.own.started)
	if err := s.establish(ctx, d.digest); err != nil {
		return s, s.abandon(ctx, err)
	}
	return s, nil
}

// checkTTL refuses what cannot be asked for.
func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond || ttl.Milliseconds() > math.MaxInt32 || ttl%time.Millisecond != 0 {
		return invalid("TTL %v: ZooKeeper takes whole milliseconds, 1ms to %v", ttl,
			math.MaxInt32*time.Millisecond)
	}
	return nil
}

// establish waits for the session and gives it its credentials.
func (s *session) establish(ctx context.Context, digest string) error {
	select {
	case <-s.presence.connected():
	case <-ctx.Done():
		return away(ctx, s.own.link.why())
	case <-s.own.link.ctx.Done(): // by link.greet, or because the session was over at once
	}
	h, refused := s.own.link.sessions()
	switch {
	case refused.session != 0:
		return invalid("TTL %v: the service grants %v (its bounds are minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks)",
			s.ttl, refused.timeout)
	case h.session == 0:
		return driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the service gave no session"))
	}
	s.identify(h.session)
	if digest == "" {
		return nil
	}
	return s.authenticate(ctx, digest)
}

// authenticate adds the credentials to the session's connection. The Conn repeats them on
// every later one, before anything else; but if it reconnects just when they were accepted it
// does not know them yet, hence the comparison.
func (s *session) authenticate(ctx context.Context, digest string) error {
	for {
		connection := s.presence.number()
		_, err := call(ctx, s, func() (struct{}, error) {
			return struct{}{}, s.conn.AddAuth("digest", []byte(digest))
		})
		switch {
		case err == nil && connection == s.presence.number():
			return nil
		case ctx.Err() != nil, err != nil && !errors.Is(err, driver.ErrUnavailable):
			return err
		}
	}
}

// abandon ends a session that could not be opened because of err.
func (s *session) abandon(ctx context.Context, err error) error {
	s.finish(errClosed, false)
	s.awaitRetired(ctx)
	session, refused := s.own.link.sessions()
	if session.session == 0 {
		session = refused
	}
	if session.session != 0 && ctx.Err() == nil {
		_ = s.own.link.end(ctx, session) // the net below is the TTL
	}
	return err
}

// lapse is called when a connection is lost, before the Conn knows: from then on requests wait here for
// the next connection, and not in the Conn's queue. It returns the notices that make all watches fire.
func (s *session) lapse() []notice {
	s.presence.set(false)
	return s.watches.lapse()
}

// event is the Conn's callback. It runs in the Conn's own goroutines and must not wait.
func (s *session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return // watches have channels of their own
	}
	switch e.State {
	case zk.StateHasSession:
		s.presence.soon()
	case zk.StateExpired:
		s.presence.set(false)
		s.finish(errExpired, true)
	default:
		// Connected too: the library calls a server connected when it has accepted,
		// though it may never say a word.
		s.presence.set(false)
		if s.own.link.ctx.Err() != nil {
			// Conn.Close first tells this goroutine to stop, and then queues a request. If that
			// comes too late to be thrown out here, Close waits a second for an answer.
			time.Sleep(time.Millisecond) //nolint:forbidigo // the Conn's goroutine is not ours to signal
		}
	}
}

// silence is the Conn's logger.
type silence struct{}

func (silence) Printf(string, ...any) {}
