package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// session is one session at the service. It sends its requests through one
// Conn, and it is over for ever as soon as that Conn has, or might get, another
// session.
type session struct {
	conn *zk.Conn
	id   int64
	hex  string // id as nodes and people see it
	ttl  time.Duration
	root string // the chroot as a path: "" or "/a/b"
	acl  []zk.ACL
	kind *parentKind

	layout *foreign // nil: Baton's own

	own *owned // the Conn's connection, and its end

	presence   *presence
	watches    *watches
	joins      *joins
	written    *written
	ownEntries *ownEntries
	contention *contention
	left       *leftovers
	synced     atomic.Int64 // the number of the connection on which fresh has synced

	slots    chan struct{} // a place for each running request
	renewals chan struct{} // likewise, for renewals
	running  sync.WaitGroup

	mu    sync.Mutex
	cause error         // why the session is over; nil before
	told  bool          // done is closed
	over  chan struct{} // closed when the session is over, for whatever cause
	done  chan struct{} // closed when it is so by the service's word
}

const (
	// maxRunning bounds the requests of a session that wait for an answer. Each
	// of them has a goroutine, and while a server is silent none of them ends.
	maxRunning = 512

	// maxRenewing bounds the renewals among them. They have places of their
	// own: the session depends on them, and many joins must not keep them
	// out.
	maxRenewing = 2
)

func newSession(ttl time.Duration, base base) *session {
	s := &session{
		ttl:        ttl,
		root:       base.root(),
		acl:        base.acl,
		kind:       base.kind,
		layout:     base.layout,
		presence:   newPresence(),
		watches:    newWatches(),
		joins:      newJoins(),
		written:    newWritten(),
		ownEntries: newOwnEntries(),
		contention: newContention(),
		left:       newLeftovers(),
		slots:      make(chan struct{}, maxRunning),
		renewals:   make(chan struct{}, maxRenewing),
		over:       make(chan struct{}),
		done:       make(chan struct{}),
	}
	s.left.clear = s.clearLeft
	s.synced.Store(1) // nothing was told to this session before its first connection
	return s
}

// identify gives the session its ID. It comes before any request.
func (s *session) identify(id int64) {
	s.id = id
	s.hex = strconv.FormatUint(uint64(id), 16)
}

// ID is ZooKeeper's session ID in hex, as the service's own logs show it after
// "0x".
func (s *session) ID() string { return s.hex }

// TTL is the session timeout that the service granted.
func (s *session) TTL() time.Duration { return s.ttl }

// Capabilities are all but the reuse of IDs: ZooKeeper keeps nothing of a name
// that is gone.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s}
}

// Done is closed when the service says that the session is over, which it does
// when a connection asks for it; or when it has confirmed Close.
func (s *session) Done() <-chan struct{} { return s.done }

// Slack is a quarter of the TTL.
//
// A follower does not pass a client's touch on to the leader: it collects
// touches, and reports them with its answer to the leader's next ping, every
// half tick. If it dies in between, the leader, which ends sessions, knows only
// of the touch before. The coordinator renews every quarter of the TTL, so that
// one is at most a quarter older, and it had been reported, since a TTL is at
// least two ticks and a quarter of it at least the half tick. (A reconnect
// touches the session at the leader directly.)
//
// A leader that has lost its quorum finds out within a tick and may acknowledge
// until then; the new leader gives every session its whole TTL again when it
// starts, so the same slack covers that for a TTL of four ticks or more.
//
// Not covered is a pair of faults: the follower dies within half a tick of a
// renewal's arrival, and the touch before is older than the slack and the
// margin allow for, or was not reported either. That takes a renewal that was
// lost; one that was on its way for so long that the next came within half a
// tick; or a client that sent this one late by more than the margin. With a TTL
// of just two ticks no second fault is needed: a report can come a moment after
// the next renewal. The model of the loss clock in docs/model has all four.
func (s *session) Slack() time.Duration { return s.ttl / 4 }

// Renew sends a sync, which goes to the leader and back.
//
// Any request touches the session at the server it reaches, but a read proves
// less: a follower that has lost its leader answers reads, and collects touches
// that nobody will hear of, until it notices.
func (s *session) Renew(ctx context.Context) error {
	out, err := start(ctx, s, s.renewals, s.syncing(s.top()))
	if err != nil {
		return err
	}
	_, err = await(ctx, s, out)
	return err
}

// top is a path to sync on. It need not exist; syncing it needs no permission.
func (s *session) top() string {
	if s.root == "" {
		return "/"
	}
	return s.root
}

func (s *session) syncing(path string) func() (string, error) {
	return func() (string, error) { return s.conn.Sync(path) }
}

func (s *session) sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, s.syncing(path))
	return err
}

// fresh makes what is read next at least as new as all that this session was
// told before.
//
// On one connection it is so by itself. At a reconnect the client names the
// latest transaction that it has seen in a reply, and a server that is behind
// it refuses; but what a watch has told does not count there. So the first view
// after a reconnect costs a sync.
func (s *session) fresh(ctx context.Context, path string) error {
	n := int64(s.presence.number())
	if s.synced.Load() >= n {
		return nil
	}
	if err := s.sync(ctx, path); err != nil {
		return err
	}
	s.synced.Store(n) // a reconnect meanwhile has a higher number, and is synced by the next view
	return nil
}

// freshly reads what is at least as new as all that this session was told
// before it was called. A read that went over a newer connection than the one
// that was synced is repeated.
func freshly[T any](ctx context.Context, s *session, path string, read func() (T, error)) (T, error) {
	for {
		n := s.presence.number()
		if err := s.fresh(ctx, path); err != nil {
			var zero T
			return zero, err
		}
		if value, err := read(); err != nil || s.presence.number() == n {
			return value, err
		}
	}
}

// finish ends the session for this process, for the first cause given. Done
// tells of it only if it is the service's word. It does not wait for anything:
// the Conn calls it too.
func (s *session) finish(cause error, service bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = driver.Wrap(driver.ErrSessionLost, cause)
		close(s.over)
		s.left.stop()
		s.own.link.cancel() // before the Conn gets another session
		go s.retire()
	}
	if service && !s.told {
		s.told = true
		close(s.done)
	}
}

// begin counts something that runs for the session, unless that is over: who
// ends it waits for what runs.
func (s *session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.running.Add(1)
	}
	return s.cause == nil
}

// reason is why the session is over.
func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// judge gives the outcome of a request its kind, and draws the conclusions for
// the session.
func (s *session) judge(err error) error {
	err = translate(err)
	switch id := s.conn.SessionID(); {
	case errors.Is(err, driver.ErrSessionLost), id == 0:
		s.finish(errExpired, true)
		return s.reason()
	case id != s.id:
		// Whatever the reply says, it may be about the other session.
		s.finish(errMoved, true)
		return s.reason()
	case errors.Is(err, zk.ErrSessionMoved):
		// This connection is not the session's any more. A new one will be.
		s.own.link.current().drop()
	}
	return err
}

// sendBuffer holds the largest request: 128 KiB, at which the client library
// cuts the list of watches that it sets after a reconnect, or a value of 64 KiB
// with its path and access list. The library's own size is 1.5 MiB for each
// session.
const sendBuffer = 256 << 10

// service is the driver that connects by itself: each session has a Conn of its
// own.
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

// open is Open. A session that could not be opened, and was ended, is returned
// too, for what it was told.
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
		// The channel of events drops what does not fit into it, the expiry of
		// the session included. The callback misses nothing.
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

// authenticate adds the credentials to the session's connection. The Conn
// repeats them on every later one, before anything else; but if it reconnects
// just when they were accepted it does not know them yet, hence the comparison.
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

// lapse is called when a connection is lost, before the Conn knows: from then
// on requests wait here for the next connection, and not in the Conn's queue.
// It returns the notices that make all watches fire.
func (s *session) lapse() []notice {
	s.presence.set(false)
	return s.watches.lapse()
}

// event is the Conn's callback. It runs in the Conn's own goroutines and must
// not wait.
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
		// Connected too: the library calls a server connected when it has
		// accepted, though it may never say a word.
		s.presence.set(false)
		if s.own.link.ctx.Err() != nil {
			// Conn.Close first tells this goroutine to stop, and then queues a
			// request. If that comes too late to be thrown out here, Close
			// waits a second for an answer.
			time.Sleep(time.Millisecond) //nolint:forbidigo // the Conn's goroutine is not ours to signal
		}
	}
}

// silence is the Conn's logger.
type silence struct{}

func (silence) Printf(string, ...any) {}

// closeGrace is how much longer than its context a Close may wait for what is
// local only. It is a matter of microseconds, on a busy machine of
// milliseconds.
const closeGrace = 250 * time.Millisecond

// retire ends the Conn and waits for all that runs for the session. It is not
// bounded by a context since it does not depend on the service: link.retire
// fails all I/O.
func (s *session) retire() {
	o := s.own
	<-o.started
	o.link.retire()
	// Close on a Conn in full flight would wait a second for a reply that
	// cannot come. One at rest it ends at once.
	<-o.link.idle
	s.conn.Close()
	for range o.events { // until closed
	}
	s.running.Wait()
	close(o.retired)
}

// awaitRetired waits for retire, by ctx.
func (s *session) awaitRetired(ctx context.Context) {
	select {
	case <-s.own.retired:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-s.own.retired:
	case <-timer.C:
	}
}

// Close ends the session: first everything in this process, then the session at
// the service, over a connection of its own. In this order nothing comes in
// between: the Conn cannot take the session back, and what its last connection
// still carries is refused by the service, since the session has moved, and
// ended.
func (s *session) Close(ctx context.Context) error {
	s.finish(errClosed, false)
	s.awaitRetired(ctx)
	select {
	case <-s.done:
		return nil // the service has said so
	default:
	}
	session, _ := s.own.link.sessions()
	if err := s.own.link.end(ctx, session); err != nil {
		return err
	}
	s.finish(errClosed, true)
	return nil
}

// presence is whether a Conn is connected, with its session, right now.
type presence struct {
	mu    sync.Mutex
	up    chan struct{} // closed while connected
	again chan struct{} // closed by the next connection
	isUp  bool
	count int // of connections so far
	calls int // of set and soon
}

// afterSession is how long requests wait when the Conn says that it has a
// session. It says so before it has sent the watches that it still knows of,
// and does that beside the goroutine that takes answers: a watch whose answer
// came first would be sent once more, and the number of the latest change that
// is sent along would be read while it is written.
const afterSession = time.Millisecond

// soon is set(true), a moment later, unless there is news until then.
func (p *presence) soon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	call := p.calls
	time.AfterFunc(afterSession, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.calls == call {
			p.become(true)
		}
	})
}

func newPresence() *presence {
	return &presence{up: make(chan struct{}), again: make(chan struct{})}
}

// set reports a change; what is no change is ignored.
func (p *presence) set(up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.become(up)
}

// become is called with the mutex held.
func (p *presence) become(up bool) {
	if p.isUp == up {
		return
	}
	p.isUp = up
	if !up {
		p.up = make(chan struct{})
		return
	}
	p.count++
	close(p.up)
	close(p.again)
	p.again = make(chan struct{})
}

// connected returns a channel that is closed when there is a connection.
func (p *presence) connected() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up
}

// reconnected returns a channel that is closed by the next new connection.
func (p *presence) reconnected() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.again
}

// number is the number of the latest connection, from 1; 0 before the first.
func (p *presence) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}
