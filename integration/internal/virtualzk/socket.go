package virtualzk

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// socket is the client's end of a connection. Unlike a net.Pipe's its Write
// does not wait for a reader, as a kernel's does not.
type socket struct {
	wire *wire
	addr net.Addr

	mu       sync.Mutex
	in       []byte // that has arrived and was not read
	err      error  // after it
	deadline time.Time
	changed  chan struct{} // closed when a reader has to look again
	out      []byte        // an incomplete message
	closed   bool
}

func newSocket(w *wire, addr string) *socket {
	return &socket{
		wire: w, addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)),
		changed: make(chan struct{}),
	}
}

// wake has readers look again. The caller holds mu.
func (s *socket) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// put appends what has arrived, and reports whether the client can read it.
func (s *socket) put(b []byte) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.in = append(s.in, b...)
	s.wake()
	return !s.closed
}

// fail ends the connection, with an error after what has arrived.
func (s *socket) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.wake()
	}
}

func (s *socket) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		deadline, changed := s.deadline, s.changed
		switch {
		case s.closed:
			s.mu.Unlock()
			return 0, net.ErrClosed
		case !deadline.IsZero() && !time.Now().Before(deadline):
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(s.in) > 0:
			n := copy(p, s.in)
			s.in = s.in[n:]
			s.mu.Unlock()
			return n, nil
		case s.err != nil:
			s.mu.Unlock()
			return 0, s.err
		}
		s.mu.Unlock()
		if deadline.IsZero() {
			<-changed
			continue
		}
		late := time.NewTimer(time.Until(deadline))
		select {
		case <-changed:
		case <-late.C:
		}
		late.Stop()
	}
}

// Write sends the whole messages, and keeps the rest.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return 0, net.ErrClosed
	case s.err != nil:
		s.mu.Unlock()
		return 0, s.err
	}
	s.out = append(s.out, p...)
	var messages [][]byte
	for len(s.out) >= 4 {
		n := int(binary.BigEndian.Uint32(s.out))
		if len(s.out) < 4+n {
			break
		}
		messages = append(messages, append([]byte(nil), s.out[4:4+n]...))
		s.out = s.out[4+n:]
	}
	s.mu.Unlock()
	if len(messages) > 0 {
		s.wire.locked(func() { s.wire.sent(messages) })
	}
	return len(p), nil
}

func (s *socket) Close() error {
	s.mu.Lock()
	was := s.closed || s.err != nil
	s.closed = true
	s.wake()
	s.mu.Unlock()
	if !was {
		s.wire.locked(s.wire.close)
	}
	return nil
}

func (s *socket) LocalAddr() net.Addr  { return s.addr }
func (s *socket) RemoteAddr() net.Addr { return s.addr }

func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.wake()
	return nil
}

// SetWriteDeadline does nothing: no Write waits.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
