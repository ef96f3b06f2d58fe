package h2wire_test

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/h2wire"
)

// peer writes one direction of a connection with the reference implementation.
type peer struct {
	bytes.Buffer
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
}

func newPeer() *peer {
	p := &peer{}
	p.framer = http2.NewFramer(p, nil)
	p.encoder = hpack.NewEncoder(&p.block)
	return p
}

func (p *peer) headers(t *testing.T, stream uint32, end bool, fields ...string) {
	t.Helper()
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := p.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	half := p.block.Len() / 2 // in two frames, padded, with a priority: every variation
	err := p.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: p.block.Bytes()[:half], EndStream: end, PadLength: 7,
		Priority: http2.PriorityParam{Weight: 3},
	})
	if err == nil {
		err = p.framer.WriteContinuation(stream, true, p.block.Bytes()[half:])
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *peer) data(t *testing.T, stream uint32, end bool, s string) {
	t.Helper()
	if err := p.framer.WriteData(stream, end, []byte(s)); err != nil {
		t.Fatal(err)
	}
}

func TestCallsAreNamedInAnyChunks(t *testing.T) {
	up, down := newPeer(), newPeer()
	up.WriteString(http2.ClientPreface)
	if err := up.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	const txn, watch = "/etcdserverpb.KV/Txn", "/etcdserverpb.Watch/Watch"
	for _, stream := range []uint32{1, 5} { // the second time the path is compressed
		up.headers(t, stream, false, ":method", "POST", ":path", txn)
		up.data(t, stream, true, "request")
	}
	up.headers(t, 3, false, ":method", "POST", ":path", watch)
	up.data(t, 3, false, "create")
	up.data(t, 3, true, "")

	down.headers(t, 1, false, ":status", "200")
	down.data(t, 1, false, "reply")
	down.headers(t, 1, true, "grpc-status", "0")
	down.headers(t, 5, true, ":status", "200", "grpc-status", "14") // only an error
	down.data(t, 3, false, "event")

	want := []netproxy.Message{
		{ID: 1, Name: txn}, {ID: 5, Name: txn}, {ID: 3, Name: watch},
		{ID: 1, Reply: true}, {ID: 1, Reply: true}, {ID: 5, Reply: true}, {ID: 3, Reply: true},
	}
	for _, size := range []int{1, 2, 3, 7, 100, 1 << 20} {
		s := h2wire.NewSniffer()
		got := feed(s, netproxy.Up, up.Bytes(), size)
		got = append(got, feed(s, netproxy.Down, down.Bytes(), size)...)
		if len(got) != len(want) {
			t.Fatalf("portions of %d: %v, want %v", size, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("portions of %d, message %d: %v, want %v", size, i, got[i], want[i])
			}
		}
	}
}

func feed(s netproxy.Sniffer, way netproxy.Direction, b []byte, size int) []netproxy.Message {
	var all []netproxy.Message
	for len(b) > 0 {
		n := min(size, len(b))
		all = append(all, s.Sniff(way, b[:n])...)
		b = b[n:]
	}
	return all
}

func TestForeignBytesAreIgnored(t *testing.T) {
	s := h2wire.NewSniffer()
	if got := feed(s, netproxy.Up, []byte("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"), 5); len(got) != 0 {
		t.Fatalf("messages in foreign bytes: %v", got)
	}
	if got := feed(s, netproxy.Down, []byte("HTTP/1.1 200 OK\r\n\r\n"), 5); len(got) != 0 {
		t.Fatalf("messages in foreign bytes: %v", got)
	}
}
