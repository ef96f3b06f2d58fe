package zkconn

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has what a session's client sees of the network: the list of
// servers and the dialer. They are how a session makes an end of its client,
// which else goes on with a new session by itself, and sends on it what was
// queued before.

// provider is the client's HostProvider.
type provider struct{ *Conn }

// Init has nothing to do: the servers are resolved when they are needed.
func (p provider) Init([]string) error { return nil }

// Len is the number of servers.
func (p provider) Len() int { return len(p.conf.Servers) }

// Connected says that the client has its session.
func (p provider) Connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.up)
}

// Next waits out the pause between rounds itself: the client would wait a whole
// second and fail what is queued. It asks for that only once the session is
// over: then no request is under way, and the client can be closed. (Its Close
// queues a request, and if that is too late to be thrown out, waits a second
// for an answer. Nobody waits for Close.)
func (p provider) Next() (server string, retryStart bool) {
	t, err := p.hosts.next(p.ctx)
	if err != nil {
		go p.client.Close()
		return "stopped", true
	}
	p.target = t
	return t.addr, false
}

// dial is the client's dialer. Next chose the address.
func (c *Conn) dial(string, string, time.Duration) (net.Conn, error) {
	c.mu.Lock()
	by := time.Now().Add(c.hello.connectTimeout())
	c.mu.Unlock()
	ctx, cancel := context.WithDeadline(c.ctx, by)
	defer cancel()
	conn, err := c.target.connect(ctx, c.conf.TLS)
	if err != nil {
		c.setLastError(err)
		return nil, err
	}
	_ = conn.SetReadDeadline(by) // for the handshake
	s := newSocket(conn, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil { // over meanwhile: nobody would close this one
		_ = s.Close()
		return nil, c.Err()
	}
	c.socket = s
	c.lastErr = fmt.Errorf("zookeeper: %s accepted the connection and has not answered yet",
		c.target.addr)
	return s, nil
}

// greet judges the session that a server offers. Another one than before, or
// none, is the end. One with another timeout than was asked for would end at
// another time than its user computes. At first that is the end too: the next
// servers would do the same, and each would keep a session. On a reconnect only
// this server, which is configured differently, is not used.
func (c *Conn) checkHello(h hello) error {
	c.mu.Lock()
	known := c.hello
	if known.session == 0 && h.session != 0 {
		c.hello = h
	}
	c.mu.Unlock()
	switch {
	case known.session != 0 && h.session == 0:
		c.finish(errExpired, true)
		return errExpired
	case h.session == 0:
		return fmt.Errorf("zookeeper: %s gave no session", c.target.addr)
	case known.session != 0 && h.session != known.session:
		c.finish(errMoved, true)
		return errMoved
	case h.timeout != known.timeout:
		err := fmt.Errorf("TTL %v: the service grants %v (its bounds are "+
			"minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks)",
			known.timeout, h.timeout)
		if known.session == 0 {
			c.finish(driver.Wrap(driver.ErrInvalid, err), false)
		}
		return err
	}
	c.setLastError(nil)
	return nil
}

// drop makes the client connect again, elsewhere if there is an elsewhere.
func (c *Conn) closeSocket() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket != nil {
		_ = c.socket.Close()
	}
}

func (c *Conn) setLastError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastErr = err
}

// why is the reason of the latest failure, for error messages.
func (c *Conn) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastErr
}

// end ends a session over a connection of its own, at whatever server answers
// first, trying until ctx ends. The library's Close waits a second, on a
// connection that may be silent, and does not tell the outcome. A session of 0
// is a new one, which is over at once, and shows what timeout is granted.
func (c *Config) endSession(ctx context.Context, h hello) (answer hello, err error) {
	for hosts := newRotation(c.Servers); ; {
		t, stopped := hosts.next(ctx)
		if stopped != nil {
			return hello{}, unavailable(ctx, err)
		}
		err = c.exchange(ctx, t, h.connectTimeout(), func(conn io.ReadWriter) (err error) {
			answer, err = h.endSession(conn)
			return err
		})
		if err == nil {
			return answer, nil
		}
	}
}

// visit talks to a server over a connection of its own.
func (c *Config) exchange(
	ctx context.Context, t target, patience time.Duration, talk func(io.ReadWriter) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := t.connect(ctx, c.TLS)
	if err != nil {
		return err
	}
	defer func() { _ = closeNow(conn) }()
	// A cancelled ctx has to interrupt a read as well; a deadline alone would
	// not.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	return talk(conn)
}
