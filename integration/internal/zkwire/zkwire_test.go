package zkwire

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

func frame(words ...int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4*len(words)))
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, uint32(w))
	}
	return b
}

// conversation returns one connection's bytes: handshake, a ping, a multi,
// re-registered watches, an unknown operation.
func conversation() (up, down []byte) {
	connected := frame(0, 4000, 0, 77, 4, 0x01020304)
	up = bytes.Join([][]byte{
		frame(0, 0, 0, 4000, 0, 0, 0), frame(-2, 11), frame(1, 14, 9, 9), frame(-8, 101), frame(-4, 100), frame(2, 99),
	}, nil)
	down = bytes.Join([][]byte{
		connected, frame(-2, 0, 5, 0), frame(-1, 0, 5, 0, 1, 3), frame(1, 0, 6, 0), frame(2, 0, 6, -6),
	}, nil)
	return up, down
}

func TestCountsAreTheSameInAnyChunks(t *testing.T) {
	up, down := conversation()
	for size := 1; size <= len(up)+len(down); size++ {
		c := NewCounter()
		s := c.Sniffer()
		var messages []netproxy.Message
		for part := range chunks(up, size) {
			messages = append(messages, s.Sniff(netproxy.Up, part)...)
		}
		for part := range chunks(down, size) {
			messages = append(messages, s.Sniff(netproxy.Down, part)...)
		}
		got := c.Snapshot()
		if got.Connects != 1 || got.Pings != 1 || got.SetWatches != 1 || got.Auths != 1 || got.Notifications != 1 ||
			got.Requests["multi"] != 1 || got.Requests["op99"] != 1 || got.Total() != 2 {
			t.Fatalf("portions of %d: %+v", size, got)
		}
		if len(messages) != 6+4 {
			t.Fatalf("portions of %d: %d messages: %v", size, len(messages), messages)
		}
		session := c.Session()
		if session.ID != 77 || session.Timeout != 4*time.Second || !bytes.Equal(session.Password, []byte{1, 2, 3, 4}) {
			t.Fatalf("portions of %d: session %+v", size, session)
		}
	}
}

func chunks(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

func TestForeignBytesAreNotCounted(t *testing.T) {
	c := NewCounter()
	s := c.Sniffer()
	if got := s.Sniff(netproxy.Up, []byte("GET / HTTP/1.1\r\n\r\n")); len(got) != 0 {
		t.Fatalf("messages in foreign bytes: %v", got)
	}
	if got := c.Snapshot(); got.Total() != 0 || got.Connects != 0 {
		t.Fatalf("counted %+v", got)
	}
}

func TestSinceSubtracts(t *testing.T) {
	c := NewCounter()
	s := c.Sniffer()
	up, down := conversation()
	s.Sniff(netproxy.Up, up)
	before := c.Snapshot()
	s.Sniff(netproxy.Up, frame(3, 14))
	s.Sniff(netproxy.Down, down)
	got := c.Snapshot().Since(before)
	if got.Total() != 1 || got.Requests["multi"] != 1 || got.Pings != 0 || got.Notifications != 1 {
		t.Fatalf("since: %+v", got)
	}
}
