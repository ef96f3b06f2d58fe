package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// This file has the handoff: how a release admits the next entry without a read
// of the queue. In a contended queue each entry has a successor node:
//
//	x_5f0c…_1000a2b3c4d5e6f_0000000007    an entry
//	successor_0000000008                  its successor node, made in the same transaction
//	x_77ab…_1000a2b3c4d5e70_0000000009    the next entry, which looks for successor_0000000008
//
// A sequence number counts the nodes that were made in the queue. So an entry
// with number n knows without a listing the name of its predecessor's successor
// node, if there is one. Its data is the part of the predecessor's name that
// cannot be guessed. One read of it finds the predecessor and sets the watch to
// wait with.
//
// The successor node is deleted together with its entry, in one transaction. Only
// an entry that passes leaves it, with other data: to the follower that is a
// change and no deletion, and it is admitted without a read of the queue. Nothing
// else writes to a successor node. To delete one is always safe, since its
// follower then reads the queue.
//
// A successor node that was passed is deleted in the transaction in which the
// entry that it passed to leaves, or by its own session after a while. It is an
// ephemeral node like its entry.

const successorPrefix = "successor_"

// parseSuccessor reads the name of a successor node.
func parseSuccessor(name string) (seq int32, ok bool) {
	number, ok := strings.CutPrefix(name, successorPrefix)
	if !ok {
		return 0, false
	}
	return nodes.Sequence(number)
}

// successor is the name of the node's successor node, if it has one; empty if
// it cannot have one, because it was converted or numbers run out.
func (n node) successor() string {
	if n.seq < 0 || n.seq >= math.MaxInt32-1 || n.turn > 0 {
		return ""
	}
	return successorName(n.seq + 1)
}

func successorName(seq int32) string { return fmt.Sprintf("%s%010d", successorPrefix, seq) }

// nearestSuccessor is the name that the successor node of the predecessor has;
// empty if it cannot have one.
func (n node) nearestSuccessor() string {
	if n.late() || n.seq < 2 {
		return ""
	}
	return successorName(n.seq - 1)
}

// successorData is the data of a successor node: the entry's name but for the
// number, which follows from its own. A mark before it says that the entry has
// passed.
type successorData struct {
	node   node // as it joined
	passed bool
}

const passedMark = "passed_"

func (h successorData) data() []byte {
	var mark string
	if h.passed {
		mark = passedMark
	}
	c := driver.Contender{ID: h.node.ID, Mode: h.node.Mode}
	return []byte(mark + nodePrefix(c, h.node.Session))
}

// read reads a successor node of this name.
func read(successor string, data []byte) (h successorData, ok bool) {
	seq, ok := parseSuccessor(successor)
	if !ok || seq < 1 {
		return successorData{}, false
	}
	text, passed := strings.CutPrefix(string(data), passedMark)
	h.passed = passed
	h.node, ok = parseNode(fmt.Sprintf("%s%010d", text, seq-1))
	return h, ok && h.node.turn == 0
}

// hasSuccessor tells whether a node has a successor node.
func (c queueView) hasSuccessor(n node) bool {
	return n.successor() != "" && slices.Contains(c.successors, n.seq+1)
}

// orphans are the names of the successor nodes whose entries are gone: as a rule
// what entries that passed have left.
func (c queueView) orphans() []string {
	if len(c.successors) == 0 {
		return nil
	}
	there := make(map[int32]bool, len(c.nodes))
	for _, n := range c.nodes {
		if n.turn == 0 {
			there[n.seq+1] = true
		}
	}
	var names []string
	for _, seq := range c.successors {
		if !there[seq] {
			names = append(names, successorName(seq))
		}
	}
	return names
}

// removeOrphans deletes the successor nodes whose entries are gone. Those that
// were passed are among them, and their followers then read the queue.
func (s *session) removeOrphans(ctx context.Context, queue driver.Queue, all queueView) error {
	for _, name := range all.orphans() {
		err := s.Delete(ctx, s.Below(queue, name), -1)
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, driver.ErrRefused) {
			return err
		}
	}
	return nil
}

// maxSpent bounds the successor nodes that one contender clears away.
const maxSpent = 16

// note keeps what a listing shows to the i-th in the queue: whether the entry
// ahead has a successor node; to the first which successor nodes are left over.
func (s *session) note(queue driver.Queue, c queueView, i int) {
	n := c.nodes[i]
	if n.late() {
		return
	}
	var follows string
	var spent []string
	if i > 0 {
		if ahead := c.nodes[i-1]; c.hasSuccessor(ahead) {
			follows = ahead.Key
		}
	} else {
		for _, name := range c.orphans() {
			if seq, _ := parseSuccessor(name); seq < n.seq && len(spent) < maxSpent {
				spent = append(spent, name)
			}
		}
	}
	node := s.Below(queue, n.Key)
	if _, known := s.Own(node); !known && follows == "" && spent == nil {
		return
	}
	s.Keep(node, func(o *nodes.Own) {
		if o.Follows = follows; i == 0 {
			o.Spent = spent
		}
	})
}

// contention are the queues that a session takes for contended. Only there its
// entries get successor nodes: without followers they would be of no use.
type contention struct {
	mu sync.Mutex
	m  map[driver.Queue]*traffic
}

// traffic is what a session notes of a contended queue.
type traffic struct {
	joins int         // to the empty queue, until it is no longer contended
	clear *time.Timer // deletes what the latest pass has left
}

const (
	maxContended = 1024 // queues
	quietAfter   = 4    // joins
)

func (c *contention) contended(queue driver.Queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[queue] != nil
}

// met notes a join that has met others.
func (c *contention) met(queue driver.Queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.m[queue]
	if t == nil {
		for some := range c.m {
			if len(c.m) < maxContended {
				break
			}
			delete(c.m, some)
		}
		t = new(traffic)
		c.m[queue] = t
	}
	t.joins = quietAfter
}

// alone notes a join to an empty queue.
func (c *contention) alone(queue driver.Queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.m[queue]; t != nil {
		if t.joins--; t.joins == 0 {
			delete(c.m, queue)
		}
	}
}

// passed notes the timer that deletes what a pass is about to leave. The entry
// after the pass before deletes what that one has left, so its timer is stopped:
// as long as a session goes on passing in a queue, nothing is sent.
func (c *contention) passed(queue driver.Queue, timer *time.Timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.m[queue]
	if t == nil {
		return
	}
	if t.clear != nil {
		t.clear.Stop()
	}
	t.clear = timer
}

// arrive notes what a join has met, and looks for the predecessor by its
// successor node.
func (s *session) arrive(
	ctx context.Context, queue driver.Queue, c driver.Contender, a arrival,
) driver.Joined {
	e := nodes.Own{Successor: a.successor}
	alone := a.others == 0
	if a.successor != "" && !alone && !c.Alone {
		switch h, ok := s.predecessor(ctx, queue, a.node); {
		case !ok:
		case h.passed: // it was the first in the queue and directly ahead, and has left
			a.First = true
			e.Spent = []string{a.node.nearestSuccessor()}
			alone = a.others == 1 && h.node.Session == s.Hex
		default:
			a.Nearest, e.Follows = h.node.Place, h.node.Key
		}
	}
	if e.Successor != "" {
		s.Keep(s.Below(queue, a.node.Key), func(o *nodes.Own) { *o = e })
	}
	switch {
	case alone:
		s.contention.alone(queue)
	case c.Follows && !a.node.late():
		s.contention.met(queue)
	}
	return a.Joined
}

// predecessor reads the successor node of the entry directly ahead, and watches
// it: for Follow, which finds the watch standing. A failure says nothing: then
// the queue is read.
func (s *session) predecessor(
	ctx context.Context, queue driver.Queue, n node,
) (h successorData, ok bool) {
	name := n.nearestSuccessor()
	if name == "" {
		return successorData{}, false
	}
	w, err := s.Watching(ctx, zkconn.Target{Kind: zkconn.Data, Node: s.Below(queue, name)})
	if err != nil {
		return successorData{}, false
	}
	return read(name, w.Seen.Value)
}

// Follow waits with one watch: on the successor node of the entry ahead, which
// Join has set already if it has found that; if the entry has no successor node,
// on the entry.
//
// A change of the successor node's data says that the entry ahead has passed.
// The successor node is deleted together with its entry. If an operator deletes
// the entry alone, its own session deletes the successor node as soon as it
// notices, or ends and takes it along.
func (s *session) Follow(
	ctx context.Context, queue driver.Queue, own, ahead driver.Place,
) (passed bool, err error) {
	err = cmp.Or(s.CheckQueue(queue), nodes.CheckKey(queue, own), nodes.CheckKey(queue, ahead))
	if err != nil {
		return false, err
	}
	mine, _ := parseNode(own.Key)
	n, _ := parseNode(ahead.Key)
	e, _ := s.Own(s.Below(queue, own.Key))
	if e.Follows != ahead.Key || n.successor() == "" {
		return false, s.Watch(ctx, queue, ahead)
	}
	err = s.Wait(ctx, func(told zk.Event) (w *zkconn.Watch, err error) {
		switch {
		case told.Type == zk.EventNodeDeleted:
			return nil, nil
		case told.Type == zk.EventNodeDataChanged && told.State == zk.StateSyncConnected:
			// Only its owner writes to a successor node. Own stands in the
			// queue, so that is the one in which the watch was set.
			passed = true
			return nil, nil
		}
		w, passed, err = s.unlessPassed(ctx, queue, n)
		return w, err
	})
	if passed && n.successor() == mine.nearestSuccessor() {
		// Of several who follow it this one clears it away.
		s.Keep(s.Below(queue, own.Key), func(o *nodes.Own) { o.Spent = []string{n.successor()} })
	}
	return passed && err == nil, err
}

// unlessPassed returns the watch on the successor node of the entry ahead, nil
// when the entry has left.
func (s *session) unlessPassed(
	ctx context.Context, queue driver.Queue, ahead node,
) (w *zkconn.Watch, passed bool, err error) {
	successor := s.Below(queue, ahead.successor())
	w, err = s.Watching(ctx, zkconn.Target{Kind: zkconn.Data, Node: successor})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	h, ok := read(ahead.successor(), w.Seen.Value)
	switch {
	case !ok || h.node.Key != ahead.Key: // the queue was deleted, and made anew
		return nil, false, nil
	case h.passed:
		return nil, true, nil
	}
	return w, false, nil
}

// lingerFor is how long the successor node of an entry that has passed is left
// to the entry that it passed to, which deletes it when it leaves, if there is
// one.
const lingerFor = time.Second

// clearLater deletes a successor node that is left, or about to be, after a
// while, and until the service has answered.
//
// A successor node of that name that does not say that it was passed is another
// one, in a queue that was removed and made anew: hence the version of its data.
// -1 is any.
func (s *session) clearLater(successor string, version int32) *time.Timer {
	return time.AfterFunc(lingerFor, func() {
		s.Run(func() {
			err := s.Delete(context.Background(), successor, version)
			if errors.Is(err, driver.ErrUnavailable) {
				s.clearLater(successor, version)
			}
		})
	})
}
