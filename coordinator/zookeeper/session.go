package zookeeper

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// session is one session at the service. It sends its requests through one Conn, and it is
// over for ever as soon as that Conn has, or might get, another session.
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

	presence *presence
	watches  *watches
	joins    *joins
	written  *written
	traces   *traces
	traffic  *traffic
	left     *leftovers
	synced   atomic.Int64 // the number of the connection on which fresh has synced

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
	// maxRunning bounds the requests of a session that wait for an answer. Each of them has a
	// goroutine, and while a server is silent none of them ends.
	maxRunning = 512

	// maxRenewing bounds the renewals among them. They have places of their own: the
	// session depends on them, and a crowd of joins must not keep them out.
	maxRenewing = 2
)

func newSession(ttl time.Duration, base base) *session {
	s := &session{
		ttl:      ttl,
		root:     base.root(),
		acl:      base.acl,
		kind:     base.kind,
		layout:   base.layout,
		presence: newPresence(),
		watches:  newWatches(),
		joins:    newJoins(),
		written:  newWritten(),
		traces:   newTraces(),
		traffic:  newTraffic(),
		left:     newLeftovers(),
		slots:    make(chan struct{}, maxRunning),
		renewals: make(chan struct{}, maxRenewing),
		over:     make(chan struct{}),
		done:     make(chan struct{}),
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

// ID is ZooKeeper's session ID in hex, as the service's own logs show it after "0x".
func (s *session) ID() string { return s.hex }

// TTL is the session timeout that the service granted.
func (s *session) TTL() time.Duration { return s.ttl }

// Capabilities are all but the reuse of IDs: ZooKeeper keeps nothing of a name that is gone.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s,
	}
}

// Done is closed when the service says that the session is over, which it does when a
// connection asks for it; or when it has confirmed Close.
func (s *session) Done() <-chan struct{} { return s.done }

// Slack is a quarter of the TTL.
//
// A follower does not pass a client's touch on to the leader: it collects touches, and reports them with
// its answer to the leader's next ping, every half tick. If it dies in between, the
// leader, which ends sessions, knows only of the touch before. The coordinator renews every
// quarter of the TTL, so that one is at most a quarter older, and it had been
// reported, since a TTL is at least two ticks and a quarter of it at least the half tick.
// (A reconnect touches the session at the leader directly.)
//
// A leader that has lost its quorum finds out within a tick and may acknowledge until
// then; the new leader gives every session its whole TTL again when it starts, so the
// same slack covers that for a TTL of four ticks or more.
//
// Not covered is a pair of faults: the follower dies within half a tick of a renewal's arrival, and the touch before is
// older than the slack and the margin allow for, or was not reported either. That takes a renewal that was lost; one
// that was on its way for so long that the next came within half a tick; or a client that sent this one
// late by more than the margin. With a TTL of just two ticks no second fault is needed: a report can come a moment after
// the next renewal. The model of the loss clock in docs/model has all four.
func (s *session) Slack() time.Duration { return s.ttl / 4 }

// Renew sends a sync, which goes to the leader and back.
//
// Any request touches the session at the server it reaches, but a read proves less: a
// follower that has lost its leader answers reads, and collects touches that nobody will hear of,
// until it notices.
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

// fresh makes what is read next at least as new as all that this session was told
// before.
//
// On one connection it is so by itself. At a reconnect the client names the latest
// transaction that it has seen in a reply, and a server that is behind it refuses; but what a watch has
// told does not count there. So the first view after a reconnect costs a sync.
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

// freshly reads what is at least as new as all that this session was told before it was called. A read that went over
// a newer connection than the one that was synced is repeated.
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

// finish ends the session for this process, for the first cause given. Done tells of it
// only if it is the service's word. It does not wait for anything: the Conn calls it too.
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

// begin counts something that runs for the session, unless that is over: who ends it waits for what runs.
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

// judge gives the outcome of a request its kind, and draws the conclusions for the session.
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
