// Package h2wire reads gRPC over plain HTTP/2 in a proxy, so that netproxy's
// traps can select calls by method:
//
//	proxy, err := netproxy.New(endpoints, netproxy.WithSniffer(h2wire.NewSniffer))
//	trap := proxy.LoseReply(netproxy.Named("/etcdserverpb.KV/Txn"))
//
// A request is each message that the client sends on a stream, with the
// stream's method as its name; a reply is each message that the server sends on
// it, or the end of the stream. That fits unary calls, and the single requests
// on etcd's Watch and LeaseKeepAlive streams. Requests under TLS are not
// recognised.
package h2wire

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/net/http2/hpack"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

// preface is what an HTTP/2 client sends before its first frame.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Frame types and flags, RFC 9113 section 6.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameContinuation = 9

	flagEndStream  = 0x01
	flagEndHeaders = 0x04
	flagPadded     = 0x08
	flagPriority   = 0x20

	headLen = 9
	// maxHeaders bounds the buffered part of one header block.
	maxHeaders = 1 << 20
)

// NewSniffer makes the sniffer of one connection, for netproxy.WithSniffer.
func NewSniffer() netproxy.Sniffer {
	s := &sniffer{methods: map[uint32]string{}}
	s.headers = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":path" {
			s.path = f.Value
		}
	})
	return s
}

// sniffer follows one connection. A proxy calls it from one goroutine at a
// time.
type sniffer struct {
	rest    [2][]byte // an incomplete frame, by direction
	greeted bool      // the preface was seen
	foreign bool      // not HTTP/2: ignored

	headers *hpack.Decoder // the client's header compression, which must read every block
	path    string         // of the last decoded block
	block   []byte         // fragments of an incomplete header block
	methods map[uint32]string
}

// Sniff implements [netproxy.Sniffer].
func (s *sniffer) Sniff(way netproxy.Direction, b []byte) []netproxy.Message {
	if s.foreign {
		return nil
	}
	rest := append(s.rest[way], b...)
	if way == netproxy.Up && !s.greeted {
		if len(rest) < len(preface) {
			s.rest[way] = rest
			return nil
		}
		if !bytes.HasPrefix(rest, []byte(preface)) {
			s.foreign = true
			return nil
		}
		s.greeted, rest = true, rest[len(preface):]
	}
	var messages []netproxy.Message
	for len(rest) >= headLen {
		size := headLen + (int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2]))
		if len(rest) < size {
			break
		}
		if m, ok := s.frame(way, parse(rest[:size])); ok {
			messages = append(messages, m)
		}
		rest = rest[size:]
	}
	s.rest[way] = rest
	return messages
}

// frame is one HTTP/2 frame.
type frame struct {
	kind, flags byte
	stream      uint32
	body        []byte
}

func parse(b []byte) frame {
	return frame{
		kind: b[3], flags: b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & 0x7fffffff,
		body:   b[headLen:],
	}
}

func (f frame) has(flag byte) bool { return f.flags&flag != 0 }

func (s *sniffer) frame(way netproxy.Direction, f frame) (netproxy.Message, bool) {
	if way == netproxy.Down {
		return s.reply(f)
	}
	switch f.kind {
	case frameHeaders:
		s.block = append(s.block[:0], fragment(f)...)
		s.decode(f)
	case frameContinuation:
		s.block = append(s.block, f.body...)
		s.decode(f)
	case frameReset:
		delete(s.methods, f.stream)
	case frameData:
		// An empty frame only marks the end of the client's stream.
		if method := s.methods[f.stream]; method != "" && len(f.body) > 0 {
			return netproxy.Message{ID: int64(f.stream), Name: method}, true
		}
	}
	return netproxy.Message{}, false
}

// reply recognises a message from the server, or the end of a stream without
// one, as after an error.
func (s *sniffer) reply(f frame) (netproxy.Message, bool) {
	if s.methods[f.stream] == "" {
		return netproxy.Message{}, false
	}
	over := f.kind == frameReset || f.has(flagEndStream) && (f.kind == frameHeaders || f.kind == frameData)
	if over {
		delete(s.methods, f.stream)
	}
	if over || f.kind == frameData && len(f.body) > 0 {
		return netproxy.Message{ID: int64(f.stream), Reply: true}, true
	}
	return netproxy.Message{}, false
}

// decode reads a complete header block. A block that cannot be read ends the
// sniffing: the decoder's table would be wrong after it.
func (s *sniffer) decode(f frame) {
	if len(s.block) > maxHeaders {
		s.foreign = true
		return
	}
	if !f.has(flagEndHeaders) {
		return
	}
	s.path = ""
	if _, err := s.headers.Write(s.block); err != nil || s.headers.Close() != nil {
		s.foreign = true
		return
	}
	if s.path != "" {
		s.methods[f.stream] = s.path
	}
}

// fragment returns a HEADERS frame's body without padding and priority.
func fragment(f frame) []byte {
	b, pad := f.body, 0
	if f.has(flagPadded) && len(b) > 0 {
		pad, b = int(b[0]), b[1:]
	}
	if f.has(flagPriority) && len(b) >= 5 {
		b = b[5:]
	}
	return b[:max(0, len(b)-pad)]
}
