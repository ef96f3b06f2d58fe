package integration_test

import (
	"encoding/binary"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/h2wire"
)

// watchCounter counts the watch events that an etcd sends to one client. It
// reads the traffic, since a driver that makes its own client has no other
// hook.
type watchCounter struct{ sum atomic.Int64 }

func (c *watchCounter) events() int { return int(c.sum.Load()) }

// sniffer returns the sniffer of one connection.
func (c *watchCounter) sniffer() netproxy.Sniffer {
	return &watchSniffer{Sniffer: h2wire.NewSniffer(), counter: c, streams: map[uint32][]byte{}}
}

// watchSniffer reads the server's messages on watch streams, which h2wire
// identifies.
type watchSniffer struct {
	netproxy.Sniffer
	counter *watchCounter
	rest    []byte            // an incomplete frame from the server
	streams map[uint32][]byte // the incomplete message of each watch stream
}

func (s *watchSniffer) Sniff(way netproxy.Direction, b []byte) []netproxy.Message {
	messages := s.Sniffer.Sniff(way, b)
	if way == netproxy.Down {
		s.frames(b)
		return messages
	}
	for _, m := range messages {
		if stream := uint32(m.ID); m.Name == "/etcdserverpb.Watch/Watch" && s.streams[stream] == nil {
			s.streams[stream] = []byte{}
		}
	}
	return messages
}

// frames splits the server's data into HTTP/2 frames: 24 bits of length, type,
// flags, stream.
func (s *watchSniffer) frames(b []byte) {
	const head, data, padded = 9, 0, 0x08
	for s.rest = append(s.rest, b...); len(s.rest) >= head; {
		size := head + int(binary.BigEndian.Uint32(s.rest)>>8)
		if len(s.rest) < size {
			return
		}
		kind, flags, stream, body := s.rest[3], s.rest[4], binary.BigEndian.Uint32(s.rest[5:]), s.rest[head:size]
		if pending, watch := s.streams[stream]; watch && kind == data {
			if flags&padded != 0 && len(body) > 0 {
				body = body[1:max(1, len(body)-int(body[0]))]
			}
			s.streams[stream] = s.messages(append(pending, body...))
		}
		s.rest = s.rest[size:]
	}
}

// messages reads gRPC messages: a compression flag and 32 bits of length. It
// returns the rest.
func (s *watchSniffer) messages(b []byte) []byte {
	const head = 5
	codec := encoding.GetCodecV2(proto.Name)
	for len(b) >= head && len(b)-head >= int(binary.BigEndian.Uint32(b[1:])) {
		size := head + int(binary.BigEndian.Uint32(b[1:]))
		var resp pb.WatchResponse
		if b[0] == 0 && codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b[head:size])}, &resp) == nil {
			s.counter.sum.Add(int64(len(resp.Events)))
		}
		b = b[size:]
	}
	return b
}
