package zkwire

import (
	"encoding/binary"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

// maxFrame bounds the length of a frame. Servers refuse more than 1 MiB by
// default; a greater first "length" is another protocol.
const maxFrame = 16 << 20

// sniffer follows one connection. A proxy calls it from one goroutine at a
// time.
type sniffer struct {
	counter *Counter
	streams [2]frames
}

// Sniff implements [netproxy.Sniffer].
func (s *sniffer) Sniff(way netproxy.Direction, b []byte) []netproxy.Message {
	var messages []netproxy.Message
	stream := &s.streams[way]
	stream.feed(b, func(first bool, frame []byte) {
		var m netproxy.Message
		var ok bool
		if way == netproxy.Up {
			m, ok = s.request(first, frame)
		} else {
			m, ok = s.reply(first, frame)
		}
		if ok {
			messages = append(messages, m)
		}
	})
	return messages
}

// connectID is the ID of a handshake, which has no transaction ID. It exceeds
// an int32.
const connectID = 1 << 40

// request reads a frame from the client: transaction id, operation, body. The
// first frame of a connection is the handshake, which has neither.
func (s *sniffer) request(first bool, frame []byte) (netproxy.Message, bool) {
	if first {
		s.counter.count(func(c *Counts) { c.Connects++ })
		return netproxy.Message{ID: connectID, Name: "connect"}, true
	}
	if len(frame) < 8 {
		return netproxy.Message{}, false
	}
	xid, op := int32At(frame, 0), int32At(frame, 4)
	s.counter.count(func(c *Counts) {
		switch {
		case op == opPing || xid == xidPing:
			c.Pings++
		case op == opAuth || xid == xidAuth:
			c.Auths++
		case op == opSetWatches || op == opSetWatches2 || xid == xidSetWatches:
			c.SetWatches++
		default:
			c.Requests[name(op)]++
			if watches(op, frame) {
				c.Watches++
			}
		}
	})
	return netproxy.Message{ID: int64(xid), Name: name(op)}, true
}

// watches reports whether a request sets a watch: the flag is the last byte of
// the requests that can.
func watches(op int32, frame []byte) bool {
	switch name(op) {
	case "exists", "getData", "getChildren", "getChildren2":
		return frame[len(frame)-1] != 0
	}
	return false
}

// reply reads a frame from the server: transaction id, zxid, error, body. The
// first answers the handshake and names the session.
func (s *sniffer) reply(first bool, frame []byte) (netproxy.Message, bool) {
	if first {
		if session, ok := parseConnected(frame); ok && session.ID != 0 {
			s.counter.granted(session)
		}
		return netproxy.Message{ID: connectID, Reply: true}, true
	}
	if len(frame) < 16 {
		return netproxy.Message{}, false
	}
	xid := int32At(frame, 0)
	if xid == xidNotification {
		s.counter.count(func(c *Counts) { c.Notifications++ })
		return netproxy.Message{}, false
	}
	return netproxy.Message{ID: int64(xid), Reply: true}, true
}

// frames splits one direction into its length-prefixed frames.
type frames struct {
	rest    []byte // an incomplete frame
	started bool   // the first frame was seen
	foreign bool   // not ZooKeeper: ignored
}

func (f *frames) feed(b []byte, each func(first bool, frame []byte)) {
	if f.foreign {
		return
	}
	f.rest = append(f.rest, b...)
	for len(f.rest) >= 4 {
		size := int(int32At(f.rest, 0))
		if size < 0 || size > maxFrame {
			f.foreign, f.rest = true, nil
			return
		}
		if len(f.rest) < 4+size {
			return
		}
		each(!f.started, f.rest[4:4+size])
		f.started = true
		f.rest = f.rest[4+size:]
	}
}

func int32At(b []byte, i int) int32 { return int32(binary.BigEndian.Uint32(b[i:])) }
