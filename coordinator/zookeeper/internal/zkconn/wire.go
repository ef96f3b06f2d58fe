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

// socket is one connection of the client to a server. It reads whole messages,
// and looks at the first before the client does: the answer to the connect
// request. The client reads in one goroutine at a time, so reading needs no
// lock.
type socket struct {
	net.Conn
	session *Conn
	in      *bufio.Reader

	handshakeDone bool   // the handshake is over
	message       []byte // the latest, and the memory for the next
	rest          []byte // what the client has not read yet of a message
	readErr       error  // why there are no more messages

	mu         sync.Mutex
	unanswered int // how many requests are unanswered
}

// maxMessage bounds what is allocated on the word of the peer. A listing of a
// hundred thousand contenders has 10 MiB.
const maxMessage = 64 << 20

func newSocket(conn net.Conn, session *Conn) *socket {
	return &socket{Conn: conn, session: session, in: bufio.NewReader(conn)}
}

// Read hands on messages that were read as a whole.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if err := s.fill(); err != nil {
			s.session.setLastError(err)
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
// said so, that all it watches has changed, so that it has hardly any watches
// to set again on the next connection. It does that badly: it reads the number
// of the last transaction while another goroutine writes it; it does not tell
// when setting them has failed, which would be a lost wake-up; and watches
// without waiters would come along for ever.
func (s *socket) fill() (err error) {
	switch {
	case s.readErr != nil:
		return s.readErr
	case !s.handshakeDone:
		return s.handshake()
	}
	if s.message, err = readMessage(s.in, s.message, maxMessage); err == nil {
		s.rest = s.message
		if isRequest(s.message) {
			s.addUnanswered(-1)
		}
		return nil
	}
	_ = s.Close() // a Write may be blocked, and the client waits for it
	// After whole messages nothing was begun that this could end up inside.
	if s.readErr, s.rest = err, s.session.markDisconnected(); len(s.rest) == 0 {
		return s.readErr
	}
	return nil
}

// handshake reads the answer to the connect request. When it fails the client
// takes the next server.
func (s *socket) handshake() error {
	message, err := readMessage(s.in, nil, maxHandshake)
	if err != nil {
		return err
	}
	h, err := parseHello(message)
	if err != nil {
		return err
	}
	if err := s.session.checkHello(h); err != nil {
		return err
	}
	s.handshakeDone, s.rest = true, message
	return s.Conn.SetReadDeadline(time.Time{})
}

// isRequest tells requests and their replies from pings and notices, which have
// negative numbers.
func isRequest(message []byte) bool {
	return len(message) >= 8 && int32(binary.BigEndian.Uint32(message[4:])) >= 0
}

// owe counts the requests that the server has not answered. If it answers none
// of them for a quarter of the TTL, the connection is given up, which leaves
// time to find another server before the session's user has to take it for
// lost. The client notices silence after two thirds, and never a server that
// still answers pings but nothing else, because it lost its leader.
func (s *socket) addUnanswered(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered += n
	if s.unanswered > 0 && (n < 0 || s.unanswered == n) { // after an answer, and from the first request on
		patience := max(s.session.TTL()/4, 200*time.Millisecond)
		_ = s.Conn.SetReadDeadline(time.Now().Add(patience))
	}
}

// SetReadDeadline is the client's, which is too late during the handshake and
// while the server owes answers.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.handshakeDone || s.unanswered > 0 {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing. When a write blocks, the server owes an
// answer, and the deadline for reading closes the connection. The client sets
// and clears one for each request, which may wake a thread.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// Write never fails. When it cannot write it closes the connection, and the
// client learns of it from the next read, exactly once.
//
// The client answers a request whose write fails at once, and once more when it
// clears away what was outstanding. For the second answer there is no room when
// the request repeats credentials after a reconnect, or is interrupted by
// Close: the client then blocks for ever, holding its lock.
func (s *socket) Write(p []byte) (int, error) {
	if s.handshakeDone && isRequest(p) { // the client writes whole messages
		s.addUnanswered(1)
	}
	if _, err := s.Conn.Write(p); err != nil {
		_ = s.Close()
	}
	return len(p), nil
}

// Close closes the connection at once.
func (s *socket) Close() error { return closeNow(s.Conn) }

// closeNow closes a connection without TLS's close alert, for which a peer that
// has stopped reading has no room.
func closeNow(c net.Conn) error {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	return c.Close()
}

const (
	opCloseSession = -11
	codeExpired    = -112
	maxHandshake   = 1 << 10    // an answer has about 40 bytes
	closeXid       = 0x7fffffff // which no other request of a session has
)

// hello is what the service answers to a connect request, which the client
// keeps to itself. A session of 0 means that the one asked for is over.
type hello struct {
	timeout time.Duration
	session int64
	passwd  []byte // with which the session is ended on another connection
}

// readMessage reads one message with its length before it, into the memory of
// an earlier one if that is large enough.
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

// appendNotice appends what the service sends to those who watch a node, with
// the state that tells it from what the service has sent.
func appendNotice(b []byte, node string, kind zk.EventType) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4+8+4+4+4+4+len(node)))
	b = binary.BigEndian.AppendUint32(b, 1<<32-1) // xid -1: a notice
	b = binary.BigEndian.AppendUint64(b, 1<<64-1) // of no transaction
	b = binary.BigEndian.AppendUint32(b, 0)       // no error
	b = binary.BigEndian.AppendUint32(b, uint32(kind))
	b = binary.BigEndian.AppendUint32(b, uint32(zk.StateDisconnected))
	b = binary.BigEndian.AppendUint32(b, uint32(len(node)))
	return append(b, node...)
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

// patience is how long one server may take for everything up to the session:
// connection, TLS, handshake.
//
// A reconnect must be able to waste one attempt and have time for a second. A
// new session has no such hurry, and the service has to write it down.
func (h hello) connectTimeout() time.Duration {
	short := min(max(h.timeout/6, 250*time.Millisecond), 2*time.Second)
	if h.session == 0 {
		return max(2*short, time.Second)
	}
	return short
}

// appendConnect appends the request to continue the session.
func (h hello) appendConnect(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4+8+4+8+4+len(h.passwd)))
	b = binary.BigEndian.AppendUint32(b, 0) // version
	// "I have seen nothing yet": a server that lags is good enough here.
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(h.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(h.session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.passwd)))
	return append(b, h.passwd...)
}

// end ends the session over a fresh connection: then its nodes are gone.
//
// Both requests are sent at once: the service reads the second when it has
// accepted the first. The first one alone continues the session for a whole
// TTL, which each attempt would do again where replies are late or lost.
func (h hello) endSession(conn io.ReadWriter) (answer hello, err error) {
	requests := h.appendConnect(nil)
	requests = binary.BigEndian.AppendUint32(requests, 8)
	requests = binary.BigEndian.AppendUint32(requests, closeXid)
	requests = binary.BigEndian.AppendUint32(requests, 1<<32+opCloseSession)
	if _, err := conn.Write(requests); err != nil {
		return hello{}, err
	}
	in := bufio.NewReader(conn)
	message, err := readMessage(in, nil, maxHandshake)
	if err != nil {
		return hello{}, err
	}
	answer, err = parseHello(message)
	if err != nil || answer.session == 0 { // over already
		return answer, err
	}
	// The next message can only be the reply: xid, zxid, error.
	message, err = readMessage(in, nil, maxHandshake)
	if err != nil {
		return hello{}, err
	}
	if len(message) < 20 || binary.BigEndian.Uint32(message[4:]) != closeXid {
		return hello{}, errors.New("zookeeper: unexpected reply to the end of a session")
	}
	if code := int32(binary.BigEndian.Uint32(message[16:])); code != 0 && code != codeExpired {
		return hello{}, fmt.Errorf("zookeeper: ending the session failed with code %d", code)
	}
	return answer, nil
}
