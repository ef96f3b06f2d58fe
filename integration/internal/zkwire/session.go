package zkwire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"
)

// ErrSessionGone means that the server does not have the session, or that the
// password is wrong.
var ErrSessionGone = errors.New("zkwire: no such session")

// Session has the data to continue a session on another connection, or to end
// it.
type Session struct {
	ID       int64
	Password []byte
	Timeout  time.Duration // as the server granted it
}

// Kill ends the session at the server, as its owner's Close would, over a
// connection of its own. When it returns nil, that server has removed the
// session's ephemeral nodes. The owner notices at its next contact: the server
// has closed its connection.
func (s Session) Kill(ctx context.Context, addr string) error {
	for again := false; ; again = true {
		err := s.kill(ctx, addr)
		switch {
		case again && errors.Is(err, ErrSessionGone): // the reply to the previous attempt was lost
			return nil
		case !errors.Is(err, io.EOF) || ctx.Err() != nil:
			return err
		}
		// Otherwise its owner has reconnected meanwhile, and the server has
		// closed this connection for that.
	}
}

// kill is one attempt.
func (s Session) kill(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("zkwire: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if err := s.attach(conn); err != nil {
		return err
	}
	// A follower matches a committed request with its own client's pending
	// request by the session and the request's ID: with an equal ID the owner's
	// request would be answered, and its connection would stay open for ever.
	// So the ID is one that no owner reaches.
	const xid = math.MaxInt32 - 1
	request := binary.BigEndian.AppendUint32(nil, xid)
	if err := writeFrame(conn, binary.BigEndian.AppendUint32(request, uint32(0xffffffff&opClose))); err != nil {
		return err
	}
	for {
		frame, err := readFrame(conn)
		if err != nil {
			return err
		}
		if len(frame) >= 16 && int32At(frame, 0) == xid {
			if code := int32At(frame, 12); code != 0 {
				return fmt.Errorf("zkwire: the server refused to close session %#x: error %d", s.ID, code)
			}
			return nil
		}
	}
}

// attach resumes the session. A server that knows it moves it to this
// connection.
func (s Session) attach(conn net.Conn) error {
	if err := writeFrame(conn, s.handshake()); err != nil {
		return err
	}
	frame, err := readFrame(conn)
	if err != nil {
		return err
	}
	got, ok := parseConnected(frame)
	if !ok || got.ID != s.ID || got.Timeout <= 0 {
		return fmt.Errorf("%w: %#x", ErrSessionGone, s.ID)
	}
	return nil
}

// handshake returns a ConnectRequest: protocol version, last zxid seen,
// timeout, session, password. The zxid is 0, so that no server refuses as being
// behind.
func (s Session) handshake() []byte {
	b := make([]byte, 4+8, 64)
	b = binary.BigEndian.AppendUint32(b, uint32(s.Timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(s.ID))
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Password)))
	return append(b, s.Password...)
}

// parseConnected reads a ConnectResponse: protocol version, timeout, session,
// password.
func parseConnected(frame []byte) (Session, bool) {
	if len(frame) < 20 {
		return Session{}, false
	}
	size := int(int32At(frame, 16))
	if size < 0 || len(frame) < 20+size {
		return Session{}, false
	}
	return Session{
		ID:       int64(binary.BigEndian.Uint64(frame[8:])),
		Password: append([]byte(nil), frame[20:20+size]...),
		Timeout:  time.Duration(int32At(frame, 4)) * time.Millisecond,
	}, true
}

func writeFrame(w io.Writer, body []byte) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	if _, err := w.Write(append(frame, body...)); err != nil {
		return fmt.Errorf("zkwire: %w", err)
	}
	return nil
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("zkwire: %w", err)
	}
	size := int32At(head[:], 0)
	if size < 0 || size > maxFrame {
		return nil, fmt.Errorf("zkwire: a frame of %d bytes", size)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, fmt.Errorf("zkwire: %w", err)
	}
	return frame, nil
}
