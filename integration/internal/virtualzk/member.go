package virtualzk

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// member is one server.
type member struct {
	*Ensemble
	index            int
	tree             *tree
	applied          int   // transactions of the log
	zxid             int64 // of the last
	watches          watches
	conns            []*conn       // by number
	accepted, opened int           // connections and sessions, ever
	short            time.Duration // the longest timeout of a session that continues, or 0

	up      bool
	moves   int           // so often has its address changed
	moved   time.Time     // last
	lag     time.Duration // before it applies a transaction
	stalled bool          // it applies nothing
	paused  bool          // it does nothing
	inbox   []func()      // what it does when it is resumed
	// alone: it has lost the others and has not noticed yet. Then nothing that
	// needs the leader is answered; but a deposed leader answers itself what a
	// leader answers alone.
	alone, deposed bool
	believes       map[int64][]byte // a deposed leader's sessions, with passwords

	// Requests to the leader, and what comes from there, in order.
	toLeader, fromLeader lane
	heard                map[int64]time.Duration // touches to report
	reporting            bool
}

// lane keeps the order of messages.
type lane struct {
	last time.Time
	rand *rand.Rand // or nil
}

// takes is a random time of at most that much, at least a nanosecond unless
// there is no generator.
func (l *lane) takes(most time.Duration) time.Duration {
	if l.rand == nil {
		return most
	}
	return 1 + time.Duration(l.rand.Int64N(int64(most)+1))
}

// post calls f after a random time, in the order of the lane, unless there is
// another leader or the member has stopped by then.
func (m *member) post(l *lane, extra time.Duration, f func()) {
	epoch := m.epoch
	at := time.Now().Add(l.takes(m.conf.Peers) + extra)
	if !at.After(l.last) {
		at = l.last.Add(1)
	}
	wait := time.Until(at)
	if wait <= 0 {
		f()
		return
	}
	l.last = at
	time.AfterFunc(wait, func() {
		m.locked(func() {
			if m.epoch == epoch && m.up && !m.alone {
				f()
			}
		})
	})
}

// isLeader: it answers without another member.
func (m *member) isLeader() bool { return m.deposed || m.leader == m.index }

// ask has the leader do something.
func (m *member) ask(f func()) {
	switch {
	case m.alone:
	case m.isLeader():
		f()
	default:
		m.post(&m.toLeader, 0, f)
	}
}

// learn has the member do something when it hears from the leader.
func (m *member) learn(f func()) {
	if m.isLeader() {
		f()
	} else {
		m.post(&m.fromLeader, 0, f)
	}
}

// serving: it accepts connections that become sessions.
func (m *member) serving() bool { return m.up && (m.alone || m.leader != nobody) }

// applyTo applies the log up to a length.
func (m *member) applyTo(length int) {
	for m.up && !m.stalled && !m.paused && !m.alone && m.applied < length {
		m.apply(m.log[m.applied])
	}
}

// apply applies the next transaction: watches fire before its reply.
func (m *member) apply(txn *Txn) {
	m.applied++
	for _, c := range txn.Changes {
		m.tree.apply(c, txn.Zxid, txn.at)
		for _, n := range c.notices() {
			m.watches.fire(n)
		}
	}
	m.zxid = txn.Zxid
	for _, c := range slices.Clone(m.conns) {
		c.drain()
		if txn.Closes != 0 && c.session == txn.Closes {
			c.close()
		}
	}
}

// touch notes that a client of the member lives. It reports whether the request
// is served.
func (m *member) touch(id int64, timeout time.Duration) bool {
	switch {
	case m.deposed:
		return m.believes[id] != nil
	case m.isLeader():
		return m.Ensemble.touch(id, timeout)
	}
	m.heard[id] = timeout
	if !m.reporting {
		m.reporting = true
		half := m.conf.Tick / 2
		epoch := m.epoch
		time.AfterFunc(half-time.Since(m.began)%half+time.Duration(m.index), func() {
			m.locked(func() { m.report(epoch) })
		})
	}
	return true
}

// report tells the leader, every half tick, which clients were heard.
func (m *member) report(epoch int) {
	heard := m.heard
	m.heard, m.reporting = map[int64]time.Duration{}, false
	if m.epoch != epoch || !m.up || m.alone || m.paused {
		return
	}
	for id, timeout := range heard {
		m.Ensemble.touch(id, timeout)
	}
}

// read answers a request that only reads.
func (m *member) read(c *conn, op int32, body []byte) (answer []byte, code int32) {
	d := &decoder{b: body}
	if op == opPing {
		return nil, 0
	}
	if op == opSetWatches || op == opSetWatches2 {
		m.restore(c, d)
		return nil, 0
	}
	path, watch := d.text(), d.bool()
	if op == opExists && strings.ContainsRune(path, 0) { // only here
		return nil, codeBadArguments
	}
	n := m.tree.nodes[path]
	if watch && op == opExists {
		m.watches.add(spot{path, false}, c)
	}
	switch {
	case n == nil:
		return nil, codeNoNode
	case op == opExists:
		return n.appendStat(nil), 0
	case !allows(n.acl, permRead, c.who):
		return nil, codeNoAuth
	}
	if watch {
		m.watches.add(spot{path, op != opGetData}, c)
	}
	switch op {
	case opGetData:
		return n.appendStat(appendBytes(nil, n.data)), 0
	case opGetChildren:
		return appendTexts(nil, n.names()), 0
	}
	return n.appendStat(appendTexts(nil, n.names())), 0
}

// disconnect closes all connections.
func (m *member) disconnect() {
	for _, c := range slices.Clone(m.conns) {
		c.close()
	}
}
