package zookeeper

import (
	"bufio"
	"crypto/tls"
	"net"
	"time"
)

// socket is one connection of a Conn to a server. It reads whole messages, and looks at the
// first before the Conn does: the answer to the connect request.
//
// The Conn reads in one goroutine at a time, so the fields that reading changes need no lock.
type socket struct {
	net.Conn
	link *link
	in   *bufio.Reader
	by   time.Time // when the handshake must be over

	greeted bool   // it is
	rest    []byte // what the Conn has not read yet of a message
	lost    error  // why there are no more messages
}

// maxMessage bounds what is allocated on the word of whoever is at the other end. The listing of a
// line with a hundred thousand contenders has 10 MiB.
const maxMessage = 64 << 20

func newSocket(conn net.Conn, l *link, by time.Time) *socket {
	return &socket{Conn: conn, link: l, in: bufio.NewReader(conn), by: by}
}

// Read hands on messages that were read as a whole.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if err := s.fill(); err != nil {
			s.link.note(err)
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// fill gets the next message.
//
// When the connection is lost the Conn is first told, as if the service had said so, that all it
// watches has changed. Waiters then look again, on the next connection, and the Conn has no watches
// that it would have to set again there. Left to itself it does that badly: it reads the number of
// the last transaction in one goroutine while another one writes it, which is a data race; it does not tell
// when setting them has failed, which would be a lost wake-up; and watches for
// which nobody waits any more come along for ever. (A watch that is set on the new connection in the
// instant in which the Conn looks for such is set twice, which is nothing.)
func (s *socket) fill() (err error) {
	switch {
	case s.lost != nil:
		return s.lost
	case !s.greeted:
		return s.handshake()
	}
	if s.rest, err = readMessage(s.in, maxMessage); err == nil {
		return nil
	}
	// Whole messages are what makes this safe: nothing was begun that this could end up inside.
	s.lost, s.rest = err, nil
	for _, n := range s.link.lapse() {
		s.rest = n.appendLapsed(s.rest)
	}
	if len(s.rest) == 0 {
		return s.lost
	}
	return nil
}

// handshake reads the answer to the connect request, within the time that is left for it. If the
// link does not like it, the Conn sees a failed handshake and takes the next server.
func (s *socket) handshake() error {
	if err := s.Conn.SetReadDeadline(s.by); err != nil {
		return err
	}
	message, err := readMessage(s.in, maxHandshake)
	if err != nil {
		return err
	}
	h, err := parseHello(message)
	if err != nil {
		return err
	}
	if h.session != 0 {
		if err := s.link.greet(h); err != nil {
			return err
		}
	}
	s.greeted, s.rest = true, message
	return s.Conn.SetReadDeadline(time.Time{})
}

// SetReadDeadline is the Conn's. During the handshake it would be ten times too late.
func (s *socket) SetReadDeadline(t time.Time) error {
	if !s.greeted {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// Write never fails. When it cannot write it closes the connection, and the Conn learns
// of it from the next read.
//
// The Conn answers a request whose write fails at once, and once more when it clears
// away what was outstanding. The second answer has no room for a request that repeats the
// credentials after a reconnect, and none for one that Close interrupts: the Conn then
// blocks for ever, holding its lock. The read side reports each failure exactly once.
func (s *socket) Write(p []byte) (int, error) {
	if _, err := s.Conn.Write(p); err != nil {
		s.drop()
	}
	return len(p), nil
}

// Close closes the connection at once.
func (s *socket) Close() error { return closeNow(s.Conn) }

// closeNow closes a connection. TLS would first send a farewell, and wait five seconds
// for room in the buffers of a peer that has stopped reading.
func closeNow(c net.Conn) error {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	return c.Close()
}

// drop makes the Conn connect again, elsewhere if there is an elsewhere.
func (s *socket) drop() { _ = s.Close() }
