package zookeeper

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has how a session joins a line that nobody else has used for a while: by making its node and no more, which costs the
// service a good deal less than a transaction.
//
// The service numbers the nodes of a line in the order in which they are made. A contender with number n that was the first has left.
// Then whoever gets the number n + 1 is alone: nobody came between the two, and those before n had gone before. Whoever gets another
// number knows nothing, and looks.
//
// A line that was removed and made again counts from 0 again, and the number may come once more. So this session watches the line's
// node: the service tells of the removal before it answers any request that came after it, on the same connection. Others who join
// write to that node, so they end the calm as well. (Those who join like this do not, and are told by the numbers.)

// calmAfter is after how many joins in a row that met nobody a line is calm.
const calmAfter = 2

// calms are what a session knows of lines in which it met nobody.
type calms struct {
	mu sync.Mutex
	m  map[driver.Line]*calm
}

type calm struct {
	alone      int    // joins in a row
	watch      *watch // on the line's node
	connection int    // on which it was set; 0 for none
	last       string // the key of the latest that was the first
	next       int32  // the number of whoever is alone next; 0 when it is not known
}

func newCalms() *calms { return &calms{m: make(map[driver.Line]*calm)} }

// next is what to expect of a join. ok is false if the line is not calm.
func (c *calms) next(line driver.Line) (expected calm, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.m[line]; known != nil && known.next > 0 {
		return *known, true
	}
	return calm{}, false
}

// alone notes a join that met nobody, and reports whether a watch is to be set, for which it is the time: after that nobody but
// others writes to the line's node.
func (c *calms) alone(line driver.Line, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.m[line]
	if known == nil {
		if len(c.m) >= maxBusy {
			clear(c.m)
		}
		known = &calm{}
		c.m[line] = known
	}
	known.alone++
	known.last, known.next = key, 0
	return known.alone == calmAfter
}

// watched notes the watch, unless the line has become another one meanwhile.
func (c *calms) watched(line driver.Line, key string, w *watch, connection int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.m[line]; known != nil && known.last == key {
		known.watch, known.connection = w, connection
	}
}

// left notes that an entry was removed by a request that was answered.
func (c *calms) left(line driver.Line, n node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.m[line]; known != nil && known.connection > 0 && known.last == n.Key && !n.late() {
		known.next = n.seq + 1
	}
}

func (c *calms) end(line driver.Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, line)
}

// calm tells whether the line's node is the one that was watched, and whether nobody has joined but like this session does.
func (s *session) calm(c calm) bool { return c.connection == s.presence.number() && !c.watch.spent() }

// addAlone joins a line that is calm. sent is false if it was not.
func (s *session) addAlone(ctx context.Context, line driver.Line, c driver.Contender, f *flight) (a arrival, sent bool, err error) {
	expected, ok := s.calms.next(line)
	if !ok || c.Alone || c.Record != 0 {
		return a, false, nil
	}
	if !s.calm(expected) {
		s.calms.end(line)
		return a, false, nil
	}
	place := s.below(line, nodePrefix(c, s.hex))
	request := appendCreate(newRequest(opCreate2, len(place)+len(c.Value)), place, c.Value, s.acl, zk.FlagEphemeralSequential)
	r, sent, err := express(ctx, s, f, request, readCreated)
	if !sent {
		return a, false, nil
	}
	if err == nil {
		a.node, err = made(place, r.path)
	}
	if err != nil {
		s.calms.end(line)
		if code(err) == codeUnimplemented { // as containers are there
			s.kind.plain.Store(true)
			return a, false, nil
		}
		return a, true, err
	}
	a.Joined = driver.Joined{Place: a.node.Place, Token: driver.Token(r.czxid)}
	if a.First = a.node.seq == expected.next && !a.node.late() && s.calm(expected); !a.First {
		s.calms.end(line)
		a.others = 1 // or more
	}
	return a, true, nil
}

// created is what the reply to the making of a node says of it.
type created struct {
	path  string
	czxid int64
}

// readCreated reads that reply.
func readCreated(b []byte, err error) (c created, _ error) {
	if err != nil {
		return c, err
	}
	r := record{b}
	c.path, c.czxid = r.text(), r.stat().Czxid
	if r.short() || c.czxid == 0 {
		return c, driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: unexpected reply to a join"))
	}
	return c, nil
}

// becalm notes that a contender has met nobody. The watch is left at the service until others come or the line is removed.
func (s *session) becalm(ctx context.Context, line driver.Line, n node) {
	if s.own == nil || s.own.credentials || s.kind.plain.Load() || !s.calms.alone(line, n.Key) {
		return
	}
	connection, node := s.presence.number(), s.path(line)
	if w, _, err := s.watch(ctx, watchKey{onCalm, node}, node); err == nil {
		s.calms.watched(line, n.Key, w, connection)
	}
}
