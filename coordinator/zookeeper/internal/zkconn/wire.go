package zkconn

import (
	"bufio"
	"cmp"
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
// and inspects the first, the reply to the connect request, before the client
// does. The client reads in one goroutine at a time, so reading needs no lock.
type socket struct {
	net.Conn
	session *Conn
	again   bool          // it continues the session
	greeted chan struct{} // closed after the handshake
	in      *bufio.Reader

	handshakeDone bool   // the handshake is over
	message       []byte // the latest; its memory is reused
	rest          []byte // the unread part of a message
	readErr       error  // the end of the connection

	mu         sync.Mutex
	unanswered int       // number of unanswered requests
	silent     time.Time // since when, if there are some
	doubts     int       // number of reasons to confirm, see Renew
	confirmed  int       // number of doubts that were resolved
}

// maxMessage bounds the memory that a peer can make us allocate. A listing of a
// hundred thousand contenders has 10 MiB.
const maxMessage = 64 << 20

func newSocket(conn net.Conn, session *Conn) *socket {
	return &socket{
		Conn: conn, session: session, greeted: make(chan struct{}), in: bufio.NewReader(conn),
	}
}

// Read returns messages that were read as a whole.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if err := s.fill(); err != nil {
			s.session.setLastError(fmt.Errorf("%v: %w", s.RemoteAddr(), err))
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// When the connection is lost, fill first sends the client notices, as if from
// the service, that everything it watches has changed. So the client has hardly
// any watches to set again on the next connection. It does that badly: it reads
// the last transaction's number while another goroutine writes it; it does not
// report failure, which would be a lost wake-up; and watches without waiters
// would stay for ever.
func (s *socket) fill() (err error) {
	switch {
	case s.readErr != nil:
		return s.readErr
	case !s.handshakeDone:
		return s.handshake()
	}
	s.message, err = readMessage(s.in, s.message, maxMessage)
	if err == nil && len(s.message) < 4+replyHeader { // the client would panic
		err = errors.New("zookeeper: message without a header; is this a ZooKeeper server?")
	}
	if err == nil {
		s.rest = s.message
		if isRequest(s.message) {
			s.addUnanswered(-1)
		}
		return nil
	}
	_ = s.Close() // unblocks a Write that the client waits for
	// Only whole messages were returned, so the notices start a message.
	if s.readErr, s.rest = err, s.session.markDisconnected(); len(s.rest) == 0 {
		return s.readErr
	}
	return nil
}

// handshake reads the reply to the connect request. If it fails, the client
// tries the next server, and does not read again.
func (s *socket) handshake() error {
	defer close(s.greeted)
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

// isRequest distinguishes requests and their replies from pings and notices,
// which have negative numbers.
func isRequest(message []byte) bool {
	return len(message) >= 8 && int32(binary.BigEndian.Uint32(message[4:])) >= 0
}

// addUnanswered counts the requests that the server has not answered. If it
// answers none of them for a quarter of the TTL, the connection is closed,
// which leaves time to find another server before the session is taken for
// lost. The client notices silence only after two thirds, and never notices a
// server that answers pings but nothing else, because it lost its leader.
func (s *socket) addUnanswered(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if late := s.session.late(); n < 0 && late > 0 && now.Sub(s.silent) > late {
		s.doubts++
	}
	s.unanswered += n
	if s.unanswered > 0 && (n < 0 || s.unanswered == n) { // after a reply, and at the first request
		s.silent = now
		patience := max(s.session.TTL()/4, 200*time.Millisecond)
		_ = s.Conn.SetReadDeadline(now.Add(patience))
	}
}

// doubtful reports whether there are doubts that were not resolved, and how
// many there have been.
func (s *socket) doubtful() (doubts int, doubtful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubts, s.doubts > s.confirmed
}

// proven reports whether a majority has answered over this connection.
func (s *socket) proven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.again || s.confirmed > 0
}

// confirm notes that so many doubts were resolved.
func (s *socket) confirm(doubts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed = max(s.confirmed, doubts)
}

// SetReadDeadline ignores the client's deadline, which is too late, during the
// handshake and while requests are unanswered.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.handshakeDone || s.unanswered > 0 {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing. When a write blocks, a request is unanswered,
// and the read deadline closes the connection. The client sets and clears a
// write deadline for each request, which may wake a thread.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// Write never fails. When it cannot write it closes the connection, and the
// client learns it from the next read, exactly once.
//
// The client completes a request whose write fails at once, and again when it
// clears the outstanding requests. The second completion blocks for ever,
// holding the client's lock, if the request repeats credentials after a
// reconnect, or is interrupted by Close.
func (s *socket) Write(p []byte) (int, error) {
	if s.handshakeDone && isRequest(p) { // the client writes whole messages
		s.addUnanswered(1)
	}
	if _, err := s.Conn.Write(p); err != nil {
		_ = s.Close()
	}
	return len(p), nil
}

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
	opAuth         = 100
	opCloseSession = -11
	replyHeader    = 16         // bytes of each message after the handshake
	maxHandshake   = 1 << 10    // a reply has about 40 bytes
	closeXid       = 0x7fffffff // of no other request of a session
)

// hello is the service's reply to a connect request, which the client does not
// show. A session of 0 means that the requested one is over.
type hello struct {
	timeout time.Duration
	session int64
	passwd  []byte // needed to end the session on another connection
}

// readMessage reads one message with its length prefix, into the memory of an
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

// appendNotice appends a watch event as the service sends it, except that its
// state differs.
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

// parseHello parses the reply to a connect request: version, timeout, session,
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

// connectTimeout is the time for one server to connect, with TLS and handshake.
//
// A reconnect must be able to waste one attempt and have time for a second. A
// new session is not so urgent, and the service has to write it down.
func (h hello) connectTimeout() time.Duration {
	short := min(max(h.timeout/6, 250*time.Millisecond), 2*time.Second)
	if h.session == 0 {
		return max(2*short, time.Second)
	}
	return short
}

// appendConnect appends the connect request that continues the session.
func (h hello) appendConnect(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4+8+4+8+4+len(h.passwd)))
	b = binary.BigEndian.AppendUint32(b, 0) // version
	// The last zxid seen is 0: a server that lags is good enough here.
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(h.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(h.session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.passwd)))
	return append(b, h.passwd...)
}

// endSession ends the session over a fresh connection: then its nodes are gone.
// A server that demands credentials gets them first; they may be "".
//
// All requests are sent at once: the service reads the others when it has
// accepted the first. The first alone would continue the session for a whole
// TTL, again on each attempt where replies are late or lost.
//
// An answer with a session is the server's that knows it, also if there is an
// error.
func (h hello) endSession(conn io.ReadWriter, digest string) (answer hello, err error) {
	requests := h.appendConnect(nil)
	if digest != "" {
		requests = appendAuth(requests, digest)
	}
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
	// A server that refuses the credentials may end the session all the same,
	// so the reply to the end decides.
	var refused error
	for { // replies have xid, zxid, error
		message, err = readMessage(in, message, maxHandshake)
		if err != nil {
			return answer, cmp.Or(refused, err)
		}
		if len(message) < 20 {
			return answer, errors.New("zookeeper: unexpected reply to the end of a session")
		}
		xid := binary.BigEndian.Uint32(message[4:])
		code := int32(binary.BigEndian.Uint32(message[16:]))
		switch failed := code != 0 && code != codeExpired; {
		case failed && xid == closeXid:
			return answer, codeError(code)
		case failed:
			refused = codeError(code)
		case xid == closeXid:
			return answer, nil
		}
	}
}

// appendAuth appends credentials. Their number is that of all clients for it.
func appendAuth(b []byte, digest string) []byte {
	const scheme = "digest"
	b = binary.BigEndian.AppendUint32(b, uint32(4+4+4+4+len(scheme)+4+len(digest)))
	b = binary.BigEndian.AppendUint32(b, 1<<32-4) // xid
	b = binary.BigEndian.AppendUint32(b, opAuth)
	b = binary.BigEndian.AppendUint32(b, 0) // type
	b = binary.BigEndian.AppendUint32(b, uint32(len(scheme)))
	b = append(b, scheme...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(digest)))
	return append(b, digest...)
}
