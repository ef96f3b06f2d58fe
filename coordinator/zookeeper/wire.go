package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"
)

// The client library hides what a session needs to know of itself: the timeout that the
// service granted, and the password with which it can be continued or ended on
// another connection. Both are in the answer to the connect request, so this
// file reads that one message, and writes the two that end a session. (For the notice of a
// change, see socket.fill.)

const (
	opCloseSession    = -11
	codeExpired       = -112
	maxHandshake      = 1 << 10    // an answer has about 40 bytes
	closeXid          = 0x7fffffff // which no other request of a session has
	maxSessionTimeout = 1<<31 - 1  // milliseconds
)

// hello is what the service answers to a connect request. A session of 0 means that the
// session asked for is over.
type hello struct {
	timeout time.Duration
	session int64
	passwd  []byte
}

// readMessage reads one message with its length before it.
func readMessage(r *bufio.Reader, most int) ([]byte, error) {
	size, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size)
	if int64(n) > int64(most) {
		return nil, fmt.Errorf("zookeeper: message of %d bytes; is this a ZooKeeper server?", n)
	}
	message := make([]byte, 4+int(n))
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

// append appends the notice as a message.
func (n notice) append(b []byte) []byte { return n.appendIn(b, zk.StateSyncConnected) }

// appendLapsed appends the notice as one that the service has not sent.
func (n notice) appendLapsed(b []byte) []byte { return n.appendIn(b, zk.StateDisconnected) }

func (n notice) appendIn(b []byte, state zk.State) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4+8+4+4+4+4+len(n.path)))
	b = binary.BigEndian.AppendUint32(b, 1<<32-1) // xid -1: a notice
	b = binary.BigEndian.AppendUint64(b, 1<<64-1) // of no transaction
	b = binary.BigEndian.AppendUint32(b, 0)       // no error
	b = binary.BigEndian.AppendUint32(b, uint32(n.kind))
	b = binary.BigEndian.AppendUint32(b, uint32(state))
	b = binary.BigEndian.AppendUint32(b, uint32(len(n.path)))
	return append(b, n.path...)
}

// parseHello reads the answer to a connect request: version, timeout, session, password,
// and from some servers whether they are read-only.
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
	// "I have seen nothing yet": a server that lags is good enough for ending a session,
	// which its leader decides.
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(h.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(h.session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.passwd)))
	return append(b, h.passwd...)
}

// end ends the session over a fresh connection. After nil the session is over at the
// service and its nodes are gone.
//
// Both requests are sent at once: the service reads the second when it has accepted the first. To wait for the
// answer to the first would do harm where replies are late or lost. The first one alone
// continues the session, for a whole TTL, and each further attempt would do so again.
func (h hello) end(conn io.ReadWriter) error {
	requests := h.appendConnect(nil)
	requests = binary.BigEndian.AppendUint32(requests, 8)
	requests = binary.BigEndian.AppendUint32(requests, closeXid)
	requests = binary.BigEndian.AppendUint32(requests, 1<<32+opCloseSession)
	if _, err := conn.Write(requests); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	message, err := readMessage(in, maxHandshake)
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
	// The first message on this connection can only be the reply: xid, zxid, error.
	message, err = readMessage(in, maxHandshake)
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
