package zkconn

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestServerThatReadsNothingIsLeft after a quarter of the TTL, although the
// client is blocked in a Write.
func TestServerThatReadsNothingIsLeft(t *testing.T) {
	const ttl = 9 * time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	again := make(chan time.Time, 1)
	go func() {
		first, err := l.Accept()
		if err != nil {
			return
		}
		defer first.Close()
		_ = first.(*net.TCPConn).SetReadBuffer(4096)
		var size [4]byte
		_, _ = io.ReadFull(first, size[:])
		_, _ = io.CopyN(io.Discard, first, int64(binary.BigEndian.Uint32(size[:])))
		hello := binary.BigEndian.AppendUint32(nil, 4+4+8+4+16)
		hello = binary.BigEndian.AppendUint32(hello, 0) // version
		hello = binary.BigEndian.AppendUint32(hello, uint32(ttl.Milliseconds()))
		hello = binary.BigEndian.AppendUint64(hello, 7) // session
		hello = binary.BigEndian.AppendUint32(hello, 16)
		_, _ = first.Write(append(hello, make([]byte, 16)...))
		second, err := l.Accept()
		if err != nil {
			return
		}
		again <- time.Now()
		second.Close()
	}()
	s, err := (&Config{Servers: []string{l.Addr().String()}}).Open(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 64<<10)
	began := time.Now()
	for range 300 {
		if _, err := Start(t.Context(), s, func(c *zk.Conn) (*zk.Stat, error) {
			return c.Set("/x", value, -1)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if took := (<-again).Sub(began); took > ttl/2 {
		t.Errorf("another server is tried after %v, with a TTL of %v", took, ttl)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = s.Close(ctx)
}
