package zkconn

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/internal/dial"
)

// TestServerThatReadsNothingIsLeft after a quarter of the TTL, although the
// client is blocked in a Write.
func TestServerThatReadsNothingIsLeft(t *testing.T) {
	const ttl = 9 * time.Second
	synctest.Test(t, func(t *testing.T) {
		accepted, over := make(chan net.Conn), make(chan struct{})
		connect := func(context.Context, string) (net.Conn, error) {
			here, there := net.Pipe() // has no buffer
			select {
			case accepted <- there:
				return here, nil
			case <-over:
				return nil, net.ErrClosed
			}
		}
		again := make(chan time.Time, 1)
		go func() {
			first := <-accepted
			grant(first, ttl)
			second := <-accepted
			again <- time.Now()
			_, _ = first.Close(), second.Close()
			close(over)
		}()
		s, err := (&Config{Servers: []string{"10.0.0.1:2181"}, Dial: dial.Options{Connect: connect}}).Open(t.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 300 {
			if _, err := Start(t.Context(), s, func(c *zk.Conn) (*zk.Stat, error) {
				return c.Set("/x", nil, -1)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if took := (<-again).Sub(began); took < ttl/4 || took > ttl/3 {
			t.Errorf("another server is tried after %v, with a TTL of %v", took, ttl)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = s.Close(ctx)
		time.Sleep(2 * time.Second) // the client library waits for the reply to its request to close
	})
}

// grant answers the first message of a connection with a session.
func grant(conn net.Conn, ttl time.Duration) {
	var size [4]byte
	_, _ = io.ReadFull(conn, size[:])
	_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:])))
	hello := binary.BigEndian.AppendUint32(nil, 4+4+8+4+16)
	hello = binary.BigEndian.AppendUint32(hello, 0) // version
	hello = binary.BigEndian.AppendUint32(hello, uint32(ttl.Milliseconds()))
	hello = binary.BigEndian.AppendUint64(hello, 7) // session
	hello = binary.BigEndian.AppendUint32(hello, 16)
	_, _ = conn.Write(append(hello, make([]byte, 16)...))
}
