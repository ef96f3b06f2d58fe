package virtualetcd

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// conn is a connection of a link with a member: two pipes. Like TCP it has
// buffers, so no write blocks.
type conn struct {
	link   *Link
	member *Member
	pipes  [2]*pipe // by way
	client *end
	server *end
}

func newConn(l *Link, m *Member) *conn {
	c := &conn{link: l, member: m}
	l.dialled[m.index]++
	for w := range c.pipes {
		c.pipes[w] = newPipe(l, m, way(w), l.etcd.rng("conn", l.index, m.index, l.dialled[m.index], w))
	}
	ours, theirs := address{c, l.host()}, address{c, l.addr(m)}
	c.client = &end{conn: c, in: c.pipes[down], out: c.pipes[up], local: ours, remote: theirs}
	c.server = &end{conn: c, in: c.pipes[up], out: c.pipes[down], local: theirs, remote: ours}
	return c
}

// abort resets the connection for both sides. The caller holds link.mu.
func (c *conn) abort() {
	for _, p := range c.pipes {
		p.lose(errReset)
	}
	c.link.drop(c)
}

// strand resets the connection for the client alone. The caller holds link.mu.
func (c *conn) strand() {
	c.pipes[up].strayed = true
	c.pipes[up].stop()
	c.pipes[down].lose(errReset)
	c.link.drop(c)
	c.link.strays = append(c.link.strays, c)
}

// linger is how long a stranded connection stays open after its requests were
// delivered. A server may drop requests of a closed connection.
const linger = time.Second

// deliver lets the requests of a stranded connection arrive, and then ends it.
// The caller holds link.mu.
func (c *conn) deliver() {
	p := c.pipes[up]
	p.delivers = true
	p.pump()
	time.AfterFunc(linger, func() {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		p.lose(errReset)
	})
}

// address is a net.Addr that names its connection: a member sees which client
// sends a request.
type address struct {
	conn *conn
	text string
}

func (address) Network() string  { return "tcp" }
func (a address) String() string { return a.text }

// end is one end of a connection, a net.Conn.
type end struct {
	*conn
	in, out       *pipe
	local, remote address
	closed        bool // guarded by link.mu
}

func (e *end) Read(b []byte) (int, error) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	for {
		switch p := e.in; {
		case e.closed:
			return 0, net.ErrClosed
		case len(p.arrived) > 0:
			n := copy(b, p.arrived)
			p.arrived = p.arrived[n:]
			return n, nil
		case p.end != nil:
			return 0, p.end
		case !p.until.IsZero() && !time.Now().Before(p.until):
			return 0, os.ErrDeadlineExceeded
		}
		e.in.changed.Wait()
	}
}

func (e *end) Write(b []byte) (int, error) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case e.in.end != nil && !errors.Is(e.in.end, io.EOF):
		return 0, e.in.end
	}
	e.out.send(b, nil)
	return len(b), nil
}

// Close ends both directions. The other side sees that when everything that was
// written before has arrived.
func (e *end) Close() error {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed, e.in.gone = true, true
	if e.in.end == nil || errors.Is(e.in.end, io.EOF) {
		e.out.send(nil, io.EOF)
	}
	e.in.changed.Broadcast()
	if e.client.closed && e.server.closed {
		e.link.drop(e.conn)
	}
	return nil
}

func (e *end) LocalAddr() net.Addr              { return e.local }
func (e *end) RemoteAddr() net.Addr             { return e.remote }
func (e *end) SetDeadline(t time.Time) error    { return e.SetReadDeadline(t) }
func (e *end) SetWriteDeadline(time.Time) error { return nil }

func (e *end) SetReadDeadline(t time.Time) error {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	p := e.in
	if p.until = t; p.clock != nil {
		p.clock.Stop()
		p.clock = nil
	}
	if !t.IsZero() {
		p.clock = time.AfterFunc(time.Until(t), func() {
			e.link.mu.Lock()
			defer e.link.mu.Unlock()
			p.changed.Broadcast()
		})
	}
	p.changed.Broadcast()
	return nil
}
