package virtualzk_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// The operations and permissions that the test sends, by the protocol's
// numbers.
const (
	create, remove, exists, getData, setData, getChildren = 1, 2, 3, 4, 5, 8
	syncs, ping, getChildren2, check, multi, create2      = 9, 11, 12, 13, 14, 15
	createContainer, auth, setWatches, closeSession       = 19, 100, 101, -11
)

const unimplemented = -6

// encoder builds a request.
type encoder []byte

func (e encoder) number(v int32) encoder { return binary.BigEndian.AppendUint32(e, uint32(v)) }
func (e encoder) long(v int64) encoder   { return binary.BigEndian.AppendUint64(e, uint64(v)) }
func (e encoder) text(s string) encoder  { return append(e.number(int32(len(s))), s...) }

func (e encoder) flag(v bool) encoder {
	if v {
		return append(e, 1)
	}
	return append(e, 0)
}

func (e encoder) texts(all ...string) encoder {
	e = e.number(int32(len(all)))
	for _, s := range all {
		e = e.text(s)
	}
	return e
}

// side is one of the two servers, with its clients of the same numbers.
type side struct {
	t       *testing.T
	dial    func() net.Conn
	clients []*raw
	base    int64         // the zxid from which others are counted
	numbers map[int64]int // of sessions
}

// raw is a client that sends and reads messages as they are.
type raw struct {
	net.Conn
	xid      int32
	session  int64
	password []byte
	last     int64 // zxid seen
	notices  []string
	ended    bool // the server has closed the connection
}

// connect connects, for a new session if s has none, and says what came of it.
func (sd *side) connect(c *raw) string {
	c.Conn, c.ended = sd.dial(), false
	b := encoder{}.number(0).long(c.last).number(30_000).long(c.session)
	if c.password == nil {
		c.password = make([]byte, 16)
	}
	c.send(append(b.number(int32(len(c.password))), c.password...))
	m := c.read()
	if m == nil {
		return "refused"
	}
	d := &reader{b: m}
	d.number()
	timeout, session := d.number(), d.long()
	c.password = d.bytes()
	if session == 0 {
		c.ended = true
		return "session over"
	}
	if c.session != session {
		sd.numbers[session] = len(sd.numbers) + 1
	}
	c.session = session
	return fmt.Sprintf("session %d for %d ms", sd.numbers[session], timeout)
}

func (c *raw) send(message []byte) {
	_, _ = c.Write(append(encoder{}.number(int32(len(message))), message...))
}

// read returns the next message, or nil at the end of the connection.
func (c *raw) read() []byte {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		c.ended = true
		return nil
	}
	m := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(c, m); err != nil {
		c.ended = true
		return nil
	}
	return m
}

// call sends a request and returns the reply in words. Notices before it are
// kept.
func (sd *side) call(c *raw, op int32, body []byte) string {
	if c.ended {
		return "no connection"
	}
	c.xid++
	xid := c.xid
	switch op {
	case ping:
		xid = -2
	case auth:
		xid = -4
	}
	c.send(append(encoder{}.number(xid).number(op), body...))
	for {
		m := c.read()
		if m == nil {
			return "connection ended"
		}
		d := &reader{b: m}
		got, zxid, code := d.number(), d.long(), d.number()
		if got == -1 {
			c.notices = append(c.notices, fmt.Sprintf("notice %d of state %d: %s", d.number(), d.number(), d.text()))
			continue
		}
		c.last = max(c.last, zxid)
		if got != xid {
			return fmt.Sprintf("reply to %d instead of %d", got, xid)
		}
		words := fmt.Sprintf("zxid %s, code %d", sd.zxid(zxid), code)
		if code == 0 {
			words += sd.result(op, d)
		}
		for (op == closeSession || code == unimplemented) && !c.ended {
			c.read() // the server closes the connection
		}
		if len(d.b) > 0 {
			words += fmt.Sprintf(", %d bytes more", len(d.b))
		}
		return words
	}
}

// zxid counts from the base, since each run on the real server begins with
// another.
func (sd *side) zxid(z int64) string {
	if z <= 0 || z < sd.base {
		return "old"
	}
	return fmt.Sprint(z - sd.base)
}

// result puts the result of an operation in words.
func (sd *side) result(op int32, d *reader) string {
	switch op {
	case create, syncs:
		return " " + d.text()
	case create2, createContainer:
		return " " + d.text() + sd.stat(d)
	case exists, setData:
		return sd.stat(d)
	case getData:
		return fmt.Sprintf(" %q", d.bytes()) + sd.stat(d)
	case getChildren, getChildren2:
		var names []string
		for n := d.number(); n > 0 && !d.bad; n-- {
			names = append(names, d.text())
		}
		slices.Sort(names)
		words := " " + strings.Join(names, ",")
		if op == getChildren2 {
			words += sd.stat(d)
		}
		return words
	case multi:
		var words string
		for !d.bad {
			op, done, code := d.number(), d.flag(), d.number()
			words += fmt.Sprintf("; %d %v %d", op, done, code)
			if done {
				break
			}
			if op == -1 {
				words += fmt.Sprintf(" error %d", d.number())
			} else {
				words += sd.result(op, d)
			}
		}
		return words
	}
	return ""
}

// stat leaves out the times, and shows sessions by number.
func (sd *side) stat(d *reader) string {
	czxid, mzxid := d.long(), d.long()
	created, modified := d.long(), d.long()
	version, cversion, aversion := d.number(), d.number(), d.number()
	owner := d.long()
	size, children, pzxid := d.number(), d.number(), d.long()
	who := fmt.Sprint(sd.numbers[owner])
	if owner == math.MinInt64 {
		who = "container"
	}
	return fmt.Sprintf(" {c %s m %s p %s versions %d %d %d owner %s size %d children %d times %v}",
		sd.zxid(czxid), sd.zxid(mzxid), sd.zxid(pzxid), version, cversion, aversion, who, size, children,
		created > 0 && modified >= created)
}

// notices returns the notices that clients have got by now. A reply to a ping
// comes after those of all changes before.
func (sd *side) notices() (all []string) {
	for i, c := range sd.clients {
		if !c.ended {
			sd.call(c, ping, nil)
		}
		for _, n := range c.notices {
			all = append(all, fmt.Sprintf("client %d: %s", i, n))
		}
		if c.notices = nil; c.ended {
			all = append(all, fmt.Sprintf("client %d has no connection", i))
		}
	}
	return all
}

// reader reads a reply.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, 8)
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

func (r *reader) number() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) long() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) flag() bool    { return r.take(1)[0] != 0 }
func (r *reader) text() string  { return string(r.bytes()) }

// bytes returns nil for a missing value, which %q shows as "", so it is marked.
func (r *reader) bytes() []byte {
	n := r.number()
	if n < 0 {
		return []byte("(nil)")
	}
	return slices.Clone(r.take(int(n)))
}
