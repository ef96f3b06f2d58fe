package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/hint"
)

// This file has the list of servers and the dialer of the session's client.
// With them the session stops its client, which by itself would continue with a
// new session, and send on it what was queued before.

type provider struct{ *Conn }

// Init does nothing: next resolves the servers.
func (p provider) Init([]string) error { return nil }

func (p provider) Len() int { return len(p.conf.Servers) }

// Connected notes that the client has its session.
func (p provider) Connected() {
	p.hosts.connected(p.target, p.TTL())
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.up)
}

// Next waits between rounds itself: the client would wait a whole second and
// fail queued requests. It lets the client do so only once the session is over:
// then no request is running, and the client can be closed. (Its Close queues a
// request, and may wait a second for the reply. Nothing waits for Close.)
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
	conn, err := c.conf.connect(ctx, c.target)
	if err != nil {
		c.setLastError(err)
		return nil, err
	}
	_ = conn.SetReadDeadline(by) // for the handshake
	s := newSocket(conn, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello.session != 0 { // else a majority has written the session down
		s.again, s.doubts = true, 1
	}
	if c.ctx.Err() != nil { // over meanwhile: nothing would close the new socket
		_ = s.Close()
		return nil, c.Err()
	}
	c.socket = s
	c.lastErr = fmt.Errorf("zookeeper: %s accepted the connection and has not answered yet",
		c.target.addr)
	return s, nil
}

// checkHello checks the session that a server offers. Another session than
// before, or none, is the end.
//
// So is another timeout than requested, on the first connection: the next
// servers would do the same, and each would keep a session.
//
// On a reconnect a shorter timeout, from a server with a smaller
// maxSessionTimeout, is the end too. The service ends the session that much
// after this reply, unless a later connection has moved its end again, and the
// users' deadline counts the longer time. A longer timeout keeps the session,
// and only this server is not used.
//
// A reply that is lost shows nothing, and a server may have shortened the
// timeout all the same. It is then as short until the next reconnect succeeds:
// each request has the server report the whole timeout again. Ending the
// session instead would end it in every outage, since servers without a quorum
// take the request and hang up. So all servers must grant the TTL; Examine
// compares them.
func (c *Conn) checkHello(h hello) error {
	c.mu.Lock()
	known := c.hello
	if known.session == 0 && h.session != 0 {
		c.hello = h
	}
	c.mu.Unlock()
	switch {
	case known.session != 0 && h.session == 0:
		c.mu.Lock()
		c.denier = c.target.addr // Close asks another
		c.mu.Unlock()
		c.finish(errExpired, false)
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
		switch {
		case known.session == 0:
			c.finish(driver.Wrap(driver.ErrInvalid, err), false)
		case h.timeout < known.timeout:
			c.finish(driver.Wrap(driver.ErrSessionLost, fmt.Errorf("zookeeper: %s has shortened "+
				"the session; give all servers the same maxSessionTimeout: %w", c.target.addr, err)), false)
		}
		return err
	}
	c.setLastError(nil)
	return nil
}

// closeSocket makes the client reconnect, to another server if there is one.
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

// lastError is the latest failure, for error messages.
func (c *Conn) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hint.On(c.lastErr, "not answered yet", "perhaps it hangs, or is no ZooKeeper; use etcd:// for etcd",
		": EOF", "if the port has TLS, use zks://; else check the quorum, and maxClientCnxns")
}

// endSession ends a session over its own connection, at the first server that
// does it or refuses, until ctx ends. The library's Close waits a second, on a
// connection that may be silent, and does not report the outcome. denier is the
// address of a server that has said that the session is over, or "".
func (c *Config) endSession(ctx context.Context, h hello, denier string) (err error) {
	hosts := c.newRotation()
	for denier == "" {
		t, stopped := hosts.next(ctx)
		if stopped != nil {
			return unavailable(ctx, err)
		}
		var answer hello
		answer, err = c.endSessionAt(ctx, t, h)
		if err == nil {
			c.outage.over()
		}
		switch {
		case errors.Is(err, driver.ErrRefused), err == nil && answer.session != 0:
			return err
		case err == nil:
			denier = t.addr
		}
	}
	return c.endSessionElsewhere(ctx, h, denier)
}

// endSessionElsewhere asks all servers but one, which says that the session is
// over: a leader that was paused while the others elected another denies the
// sessions of its successor, for up to a tick after it resumes. It asks them at
// once, since some may be silent. The session is over if none of them knows it.
func (c *Config) endSessionElsewhere(ctx context.Context, h hello, denier string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		known bool // the server has the session
		err   error
	}
	outcomes, asked := make(chan outcome), map[string]bool{denier: true}
	for _, t := range c.newRotation().resolve(ctx) {
		if asked[t.addr] {
			continue
		}
		asked[t.addr] = true
		go func() {
			answer, err := c.endSessionAt(ctx, t, h)
			outcomes <- outcome{answer.session != 0, err}
		}()
	}
	ended := false
	for range len(asked) - 1 {
		switch o := <-outcomes; {
		case o.known && o.err == nil:
			ended = true
			cancel()
		case o.known && !errors.Is(err, driver.ErrRefused):
			err = o.err
		}
	}
	if ended {
		return nil
	}
	return translate(err)
}

// endSessionAt ends a session at a server. A session of 0 is a new one, which
// ends at once and shows the granted timeout.
func (c *Config) endSessionAt(ctx context.Context, t target, h hello) (answer hello, err error) {
	err = c.exchange(ctx, t, h.connectTimeout(), func(conn io.ReadWriter) (err error) {
		answer, err = h.endSession(conn, c.Digest)
		return err
	})
	return answer, err
}

// exchange talks to a server over its own connection.
func (c *Config) exchange(
	ctx context.Context, t target, patience time.Duration, talk func(io.ReadWriter) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := c.connect(ctx, t)
	if err != nil {
		return err
	}
	defer func() { _ = closeNow(conn) }()
	// A cancelled ctx has to interrupt a read; a deadline alone would not.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	return talk(conn)
}
