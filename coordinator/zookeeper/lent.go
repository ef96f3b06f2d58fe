package zookeeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// FromConn makes a driver on an existing connection, which it never closes. Its sessions adopt
// the session that the connection has when they are opened.
//
// sessionTimeout must be the timeout that the service granted, and the TTL of the
// client must be the same. The client library hides what was granted, and the service keeps
// requests between 2 and 20 ticks (4 s and 40 s by default): a timeout that was asked for
// and raised or lowered makes holders believe too long or too short. An Open with a URL finds out
// by itself and is the better choice where a connection need not be shared.
//
// When the session expires, such a connection goes on with a new one. A session opened before is lost
// then, and what it sent by mistake on the new one is removed again. One session
// can be open at a time; a connection has no second one to give.
//
// Closing a session removes the entries that it made and leaves the connection alone. What could not
// be removed, because the service did not answer, is removed when it does, until the
// driver is closed: the connection would keep it there. Besides its watches, which the library
// cannot take back before their nodes go, nothing stays.
//
// The credentials that the connection has (zk.Conn.AddAuth) count. A connection with the library's
// own list of servers takes a second or more to reconnect, and one with a silent server up to
// two thirds of the timeout to notice.
func FromConn(c *zk.Conn, sessionTimeout time.Duration, opts ...Option) (driver.Driver, error) {
	if c == nil {
		return nil, invalid("no connection")
	}
	if err := checkTTL(sessionTimeout); err != nil {
		return nil, err
	}
	d := &borrower{
		base:    base{acl: zk.WorldACL(zk.PermAll), kind: new(parentKind)},
		conn:    c,
		timeout: sessionTimeout,
		chores:  newChores(),
	}
	for _, o := range opts {
		if o == nil {
			return nil, invalid("nil option")
		}
		if err := o(&d.base); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// borrower is the driver on a connection that it was given.
type borrower struct {
	base
	conn    *zk.Conn
	timeout time.Duration
	chores  *chores

	mu   sync.Mutex
	last *session // the latest that was opened
}

func (d *borrower) String() string { return "zk://" + d.conn.Server() + "/" + d.chroot }

// Close waits for what is being removed, until ctx ends, and gives up the rest.
func (d *borrower) Close(ctx context.Context) error { return d.chores.close(ctx) }

// Open adopts the connection's session.
func (d *borrower) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if ttl != d.timeout {
		return nil, invalid("TTL %v: the connection's session was granted %v", ttl, d.timeout)
	}
	for d.conn.State() != zk.StateHasSession || d.conn.SessionID() == 0 {
		if !sleep(ctx, lookInterval/10) {
			return nil, away(ctx, nil)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := newSession(ttl, d.base)
	s.conn = d.conn
	s.lent = &lent{chores: d.chores, made: make(map[entry]bool)}
	s.identify(d.conn.SessionID())
	if d.last != nil && d.last.id == s.id && d.last.reason() == nil {
		return nil, driver.Wrap(driver.ErrSessionLost, errors.New("zookeeper: the connection's session is in use, and it has no other"))
	}
	d.last = s
	s.look()
	s.lent.wg.Go(s.follow)
	return s, nil
}
