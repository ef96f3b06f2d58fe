package zkconn

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// socket is one connection of the client to a server. It reads whole messages, and
// looks at the first before the client does: the answer to the connect request.
//
// The client reads in one goroutine at a time, so the fields that reading changes
// need no lock.
type socket struct {
	net.Conn
	link *link
	in   *bufio.Reader
	by   time.Time // when the handshake must be over

	greeted bool   // it is
	message []byte // the latest, and the memory for the next
	rest    []byte // what the client has not read yet of a message
	lost    error  // why there are no more messages

	mu   sync.Mutex
	owed int // how many requests are unanswered
}

// maxMessage bounds what is allocated on the word of the peer. The listing of a
// queue with a hundred thousand contenders has 10 MiB.
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
// When the connection is lost the client is first told, as if the service had
// said so, that all it watches has changed. Waiters then look again, on the
// next connection, and the client has no watches that it would have to set again
// there. Left to itself it does that badly: it reads the number of the last
// transaction in one goroutine while another one writes it, which is a data
// race; it does not tell when setting them has failed, which would be a lost
// wake-up; and watches without waiters come along for ever. (A
// watch that is set on the new connection in the instant in which the client
// looks for such is set twice, which is nothing.)
func (s *socket) fill() (err error) {
	switch {
	case s.lost != nil:
		return s.lost
	case !s.greeted:
		return s.handshake()
	}
	if s.message, err = readMessage(s.in, s.message, maxMessage); err == nil {
		s.rest = s.message
		if isRequest(s.message) {
			s.owe(-1)
		}
		return nil
	}
	// Whole messages are what makes this safe: nothing was begun that this
	// could end up inside.
	s.lost, s.rest = err, nil
	s.drop() // a Write may be blocked, and the client waits for it
	for _, n := range s.link.connected(false) {
		s.rest = n.append(s.rest, zk.StateDisconnected)
	}
	if len(s.rest) == 0 {
		return s.lost
	}
	return nil
}

// handshake reads the answer to the connect request, within the time that is
// left for it. If the link does not like it, the client sees a failed handshake
// and takes the next server.
func (s *socket) handshake() error {
	if err := s.Conn.SetReadDeadline(s.by); err != nil {
		return err
	}
	message, err := readMessage(s.in, nil, maxHandshake)
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

// isRequest tells requests and their replies from pings and notices, which have
// negative numbers.
func isRequest(message []byte) bool {
	return len(message) >= 8 && int32(binary.BigEndian.Uint32(message[4:])) >= 0
}

// owe counts the requests that the server has not answered. If it answers none
// of them for a quarter of the TTL, the connection is given up. The client
// notices silence after two thirds, and a server that still answers pings but
// nothing else, because it lost its leader, it never notices. A quarter leaves
// time to find another server before the session's user has to take it for
// lost. The requests may have been applied or not, which their callers are told.
func (s *socket) owe(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed += n
	if s.owed > 0 && (n < 0 || s.owed == n) { // after an answer, and from the first request on
		patience := max(s.link.ttl/4, 200*time.Millisecond)
		_ = s.Conn.SetReadDeadline(time.Now().Add(patience))
	}
}

// SetReadDeadline is the client's, which is too late during the handshake and
// while the server owes answers.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.greeted || s.owed > 0 {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing. When a write blocks, the server owes an answer, and
// the deadline for reading closes the connection. The client sets and clears one for
// each request, which may wake a thread.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// Write never fails. When it cannot write it closes the connection, and the
// client learns of it from the next read.
//
// The client answers a request whose write fails at once, and once more when it
// clears away what was outstanding. The second answer has no room for a request
// that repeats the credentials after a reconnect, and none for one that Close
// interrupts: the client then blocks for ever, holding its lock. The read side
// reports each failure exactly once.
func (s *socket) Write(p []byte) (int, error) {
	if s.greeted && isRequest(p) { // the client writes whole messages
		s.owe(1)
	}
	if _, err := s.Conn.Write(p); err != nil {
		s.drop()
	}
	return len(p), nil
}

// Close closes the connection at once.
func (s *socket) Close() error { return closeNow(s.Conn) }

// closeNow closes a connection. TLS would first send a close alert, and wait five
// seconds for room in the buffers of a peer that has stopped reading.
func closeNow(c net.Conn) error {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	return c.Close()
}

// drop makes the client connect again, elsewhere if there is an elsewhere.
func (s *socket) drop() { _ = s.Close() }

const (
	opCloseSession = -11
	codeExpired    = -112
	maxHandshake   = 1 << 10    // an answer has about 40 bytes
	closeXid       = 0x7fffffff // which no other request of a session has
)

// hello is what the service answers to a connect request, which the client keeps
// to itself. With the password a session is ended on another connection. A
// session of 0 means that the session asked for is over.
type hello struct {
	timeout time.Duration
	session int64
	passwd  []byte
}

// readMessage reads one message with its length before it, into the memory of an
// earlier one if that is large enough.
func readMessage(r *bufio.Reader, into []byte, most int) ([]byte, error) {
	size, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size)
	if int64(n) > int64(most) {
		return nil, fmt.Errorf("zookeeper: message of %d bytes; is this a ZooKeeper server?", n)
	}
	message := slices.Grow(into[:0], 4+int(n))[:4+int(n)]
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, err
	}
	return message, nil
}

// notice is what the service sends to those who watch a node.
type notice struct {
	path string
	kind zk.EventType
}

// append appends the notice as a message. The state tells one that the service
// has sent, zk.StateSyncConnected, from one that it has not.
func (n notice) append(b []byte, state zk.State) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4+8+4+4+4+4+len(n.path)))
	b = binary.BigEndian.AppendUint32(b, 1<<32-1) // xid -1: a notice
	b = binary.BigEndian.AppendUint64(b, 1<<64-1) // of no transaction
	b = binary.BigEndian.AppendUint32(b, 0)       // no error
	b = binary.BigEndian.AppendUint32(b, uint32(n.kind))
	b = binary.BigEndian.AppendUint32(b, uint32(state))
	b = binary.BigEndian.AppendUint32(b, uint32(len(n.path)))
	return append(b, n.path...)
}

// parseHello reads the answer to a connect request: version, timeout, session,
// password, and from some servers whether they are read-only.
func parseHello(m []byte) (hello, error) {
	const fixed = 4 + 4 + 4 + 8 + 4
	if len(m) < fixed {
		return hello{}, errors.New("zookeeper: handshake message is too short")
	}
	h := hello{
		timeout: time.Duration(int32(binary.BigEndian.Uint32(m[8:]))) * time.Millisecond,
		session: int64(binary.BigEndian.Uint64(m[12:])),
	}
	n := int64(int32(binary.BigEndian.Uint32(m[20:])))
	if n < 0 || n > int64(len(m)-fixed) {
		return hello{}, errors.New("zookeeper: handshake message is malformed")
	}
	h.passwd = append(h.passwd, m[fixed:fixed+n]...)
	return h, nil
}

// appendConnect appends the request to continue the session.
func (h hello) appendConnect(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4+8+4+8+4+len(h.passwd)))
	b = binary.BigEndian.AppendUint32(b, 0) // version
	// "I have seen nothing yet": a server that lags is good enough for ending a
	// session, which its leader decides.
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(h.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(h.session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.passwd)))
	return append(b, h.passwd...)
}

// end ends the session over a fresh connection. After nil the session is over
// at the service and its nodes are gone.
//
// Both requests are sent at once: the service reads the second when it has
// accepted the first. To wait for the answer to the first would do harm where
// replies are late or lost. The first one alone continues the session, for a
// whole TTL, and each further attempt would do so again.
func (h hello) end(conn io.ReadWriter) error {
	requests := h.appendConnect(nil)
	requests = binary.BigEndian.AppendUint32(requests, 8)
	requests = binary.BigEndian.AppendUint32(requests, closeXid)
	requests = binary.BigEndian.AppendUint32(requests, 1<<32+opCloseSession)
	if _, err := conn.Write(requests); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	message, err := readMessage(in, nil, maxHandshake)
	if err != nil {
		return err
	}
	answer, err := parseHello(message)
	if err != nil {
		return err
	}
	if answer.session == 0 {
		return nil // over already
	}
	// The first message on this connection can only be the reply: xid, zxid,
	// error.
	message, err = readMessage(in, nil, maxHandshake)
	if err != nil {
		return err
	}
	if len(message) < 20 || binary.BigEndian.Uint32(message[4:]) != closeXid {
		return errors.New("zookeeper: unexpected reply to the end of a session")
	}
	if code := int32(binary.BigEndian.Uint32(message[16:])); code != 0 && code != codeExpired {
		return fmt.Errorf("zookeeper: ending the session failed with code %d", code)
	}
	return nil
}
