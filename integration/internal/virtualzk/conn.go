package virtualzk

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"
)

// conn is one connection at its member.
type conn struct {
	*member
	number  int
	wire    *wire
	session int64         // 0 before the handshake has ended
	timeout time.Duration // the member's, which may differ from the session's
	who     []identity

	greeted  bool     // the connect request has come
	early    [][]byte // requests that came before the handshake has ended
	pending  []*pending
	watching map[spot]struct{}
	closed   bool
}

// pending is a request that has no reply yet. Replies are sent in the order of
// the requests.
type pending struct {
	needs  int    // length of the log that the member must have applied, or unknown
	answer func() // sends the reply
}

const unknown = -1

// send sends a message to the client.
func (c *conn) send(message []byte) {
	c.wire.sendDown(int32(binary.BigEndian.Uint32(message)), framed(message), func() {})
}

// tell sends the notice of a watch.
func (c *conn) tell(n notice) {
	c.wire.notices++
	c.send(n.message())
}

// close closes the connection.
func (c *conn) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.watches.remove(c)
	c.conns = slices.DeleteFunc(c.conns, func(other *conn) bool { return other == c })
	c.wire.closeDown()
}

// receive handles a message from the client.
func (c *conn) receive(message []byte) {
	switch {
	case c.closed:
	case c.paused:
		c.inbox = append(c.inbox, func() { c.receive(message) })
	case !c.greeted:
		c.greeted = true
		c.greet(message)
	case c.session == 0:
		c.early = append(c.early, message)
	default:
		c.request(message)
	}
}

// greet handles the connect request. A client that has seen more than this
// member is refused.
func (c *conn) greet(message []byte) {
	d := &decoder{b: message}
	d.int32()
	seen, asked, id, password := d.int64(), time.Duration(d.int32())*time.Millisecond, d.int64(), d.bytes()
	if seen > c.zxid && c.serving() {
		c.reached(refusedNewer)
	}
	if d.bad || !c.serving() || seen > c.zxid {
		c.close()
		return
	}
	c.timeout = min(max(asked, c.conf.MinTimeout), c.conf.MaxTimeout)
	if c.short > 0 && id != 0 {
		c.timeout = min(c.timeout, c.short)
	}
	if id == 0 {
		p := c.queue()
		c.ask(func() {
			s := c.begin(c.index, c.timeout)
			c.resolve(p, func() { c.established(s.id, s.password) })
		})
		return
	}
	for _, other := range slices.Clone(c.conns) {
		if other.session == id {
			other.close()
		}
	}
	if c.deposed {
		c.welcome(id, password, bytes.Equal(c.believes[id], password) && len(password) > 0)
		return
	}
	c.ask(func() {
		lives := c.revalidate(id, password, c.index, c.timeout)
		c.learn(func() { c.welcome(id, password, lives) })
	})
}

// queue adds a request that needs the leader.
func (c *conn) queue() *pending {
	p := &pending{needs: unknown}
	c.pending = append(c.pending, p)
	return p
}

// resolve says how to answer a request that the leader has handled. The member
// answers when it has applied everything up to now.
func (c *conn) resolve(p *pending, answer func()) {
	p.answer = answer
	needs := len(c.log)
	c.learn(func() {
		p.needs = needs
		c.drain()
	})
}

// drain answers the first requests that can be answered.
func (c *conn) drain() {
	for len(c.pending) > 0 && !c.closed {
		p := c.pending[0]
		if p.needs == unknown || p.needs > c.applied {
			return
		}
		c.pending = c.pending[1:]
		p.answer()
	}
}

func (c *conn) welcome(id int64, password []byte, lives bool) {
	if lives {
		c.established(id, password)
		return
	}
	c.greeting(0, 0, make([]byte, 16))
	c.close()
}

func (c *conn) greeting(timeout time.Duration, id int64, password []byte) {
	b := appendInt32(nil, 0)
	b = appendInt64(appendInt32(b, int32(timeout.Milliseconds())), id)
	c.wire.sendDown(0, framed(appendBytes(b, password)), func() {
		if s := c.sessions[id]; s != nil && s.owner == c.index && timeout < s.timeout {
			s.untold = false
		}
	})
}

// established ends the handshake.
func (c *conn) established(id int64, password []byte) {
	if c.closed {
		return
	}
	c.session = id
	if !slices.Contains(c.wire.sessions, id) {
		c.wire.sessions = append(c.wire.sessions, id)
	}
	c.greeting(c.timeout, id, password)
	early := c.early
	c.early = nil
	for _, message := range early {
		c.receive(message)
	}
}

// request handles a request. It counts as a sign of life when it comes.
func (c *conn) request(message []byte) {
	d := &decoder{b: message}
	xid, op := d.int32(), d.int32()
	switch {
	case d.bad:
		c.close()
		return
	case op == opAuth:
		c.authenticate(xid, d)
		return
	case c.conf.EnforceAuth && len(c.who) == 0:
		c.refuse(xid, codeCredentialsFirst)
		return
	case !c.touch(c.session, c.timeout):
		return
	}
	body := d.b
	switch op {
	case opPing, opExists, opGetData, opGetChildren, opGetChildren2, opSetWatches, opSetWatches2:
		c.pending = append(c.pending, &pending{answer: func() {
			answer, code := c.read(c, op, body)
			c.send(reply(xid, c.zxid, code, answer))
		}})
		c.drain()
	case opSync:
		p := c.queue()
		if c.alone {
			c.reached(heardAlone)
		}
		c.ask(func() {
			c.resolve(p, func() { c.send(reply(xid, c.zxid, 0, body)) })
		})
		if c.deposed { // it answers alone
			c.reached(answeredAlone)
			p.needs, p.answer = 0, func() { c.send(reply(xid, c.zxid, 0, body)) }
			c.drain()
		}
	case opCreate, opCreate2, opCreateContainer, opSetData, opDelete, opCheck, opMulti, opCloseSession:
		p := c.queue()
		if c.stalled {
			c.reached(unanswered)
		}
		c.ask(func() { c.write(p, xid, op, body) })
	default:
		c.refuse(xid, codeUnimplemented)
	}
}

// write has the leader evaluate a request.
func (c *conn) write(p *pending, xid, op int32, body []byte) {
	txn := c.evaluate(request{
		session: c.session, member: c.index, who: c.who, op: op, body: body, by: ByClient,
	})
	if txn.code == codeSessionMoved {
		c.reached(movedAway)
	}
	p.needs = len(c.log) + 1
	p.answer = func() {
		if txn.code == codeSessionMoved { // another connection has the session
			c.close()
			return
		}
		c.send(reply(xid, txn.Zxid, txn.code, txn.body))
		if op == opCloseSession {
			c.close()
		}
	}
	c.commit(txn)
}

// refuse refuses a request and ends the connection.
func (c *conn) refuse(xid, code int32) {
	c.send(reply(xid, 0, code, nil))
	c.close()
}

// authenticate handles credentials, which are answered at once.
func (c *conn) authenticate(xid int32, d *decoder) {
	d.int32()
	scheme, credentials := d.text(), d.text()
	if d.bad || scheme != "digest" {
		c.refuse(xid, codeAuthFailed)
		return
	}
	if who := digest(credentials); !slices.Contains(c.who, who) {
		c.who = append(c.who, who)
	}
	c.send(reply(xid, 0, 0, nil))
}

// answerWith answers a request with an error, in its turn.
func (c *conn) answerWith(xid, code int32) {
	c.pending = append(c.pending, &pending{answer: func() { c.send(reply(xid, c.zxid, code, nil)) }})
	c.drain()
}
