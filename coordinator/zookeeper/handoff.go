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
// The successor node is deleted together with its entry, in one transaction. An
// entry that passes writes to it first, in the same transaction. The service
// applies a transaction step by step, and a watch fires once. So to the
// follower a pass is a change and no deletion, and it is admitted without a
// read of the queue. Nothing else writes to a successor node. To delete one is
// always safe, since its follower then reads the queue.
//
// A follower that was not connected during the pass, or joined during it, reads
// the queue too.

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
	if n.seq < 0 || n.seq >= math.MaxInt32-1 || n.conversions > 0 {
		return ""
	}
	return successorName(n.seq + 1)
}

func successorName(seq int32) string { return fmt.Sprintf("%s%010d", successorPrefix, seq) }

// nearestSuccessor is the name that the successor node of the predecessor has;
// empty if it cannot have one.
func (n node) nearestSuccessor() string {
	if n.overflowed() || n.seq < 2 {
		return ""
	}
	return successorName(n.seq - 1)
}

// entryOf is the entry whose successor node has this name and these data. The
// data are the entry's name without its number, which is one less than that of
// the successor node.
func entryOf(successor string, data []byte) (n node, ok bool) {
	seq, ok := parseSuccessor(successor)
	if !ok || seq < 1 {
		return node{}, false
	}
	n, ok = parseNode(fmt.Sprintf("%s%010d", data, seq-1))
	return n, ok && n.conversions == 0
}

// hasSuccessor tells whether a node has a successor node.
func (c queueView) hasSuccessor(n node) bool {
	return n.successor() != "" && slices.Contains(c.successors, n.seq+1)
}

// removeOrphans deletes the successor nodes whose entries are gone: an operator
// has deleted them alone.
func (s *session) removeOrphans(ctx context.Context, queue driver.Queue, all queueView) error {
	used := make(map[string]bool, len(all.nodes))
	for _, n := range all.nodes {
		used[n.successor()] = true
	}
	for _, seq := range all.successors {
		if used[successorName(seq)] {
			continue
		}
		err := s.Delete(ctx, s.ChildPath(queue, successorName(seq)), -1)
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, driver.ErrRefused) {
			return err
		}
	}
	return nil
}

// note keeps what a listing shows to the i-th in the queue: whether the entry
// ahead has a successor node.
func (s *session) noteSuccessor(queue driver.Queue, c queueView, i int) {
	var follows string
	if i > 0 && c.hasSuccessor(c.nodes[i-1]) {
		follows = c.nodes[i-1].Key
	}
	node := s.ChildPath(queue, c.nodes[i].Key)
	if own, _ := s.OwnEntry(node); own.Follows != follows {
		s.SetOwnEntry(node, func(o *nodes.OwnEntry) { o.Follows, o.Watch = follows, nil })
	}
}

// contention are the queues that a session takes for contended, with how many
// more joins may meet few others before they are so no longer. Only there its
// entries get successor nodes: where few contend a listing costs less.
type contention struct {
	mu sync.Mutex
	m  map[driver.Queue]int
}

const (
	maxContended     = 1024 // queues
	uncontendedAfter = 4    // joins
	few              = 2    // nodes besides the own ones
)

func (c *contention) contended(queue driver.Queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[queue] > 0
}

// met notes how many other nodes a join has met.
func (c *contention) observe(queue driver.Queue, others int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch joins := c.m[queue]; {
	case others > few:
		for some := range c.m {
			if joins > 0 || len(c.m) < maxContended {
				break
			}
			delete(c.m, some)
		}
		c.m[queue] = uncontendedAfter
	case joins > 1:
		c.m[queue] = joins - 1
	default:
		delete(c.m, queue)
	}
}

// arrive notes what a join has met, and looks for the predecessor by its
// successor node.
func (s *session) noteJoin(
	ctx context.Context, queue driver.Queue, c driver.Contender, a joinReply,
) driver.Joined {
	if c.Follows && !a.node.overflowed() {
		s.contention.observe(queue, a.others)
	}
	if a.successor == "" {
		return a.Joined
	}
	e := nodes.OwnEntry{Successor: a.successor}
	if !a.First && !c.Alone {
		if n, w, ok := s.predecessor(ctx, queue, a.node); ok {
			a.Nearest, e.Follows, e.Watch = n.Place, n.Key, w
		}
	}
	s.SetOwnEntry(s.ChildPath(queue, a.node.Key), func(o *nodes.OwnEntry) { *o = e })
	return a.Joined
}

// predecessor reads the successor node of the entry directly ahead, and watches
// it, for Follow. A failure says nothing: then the queue is read.
func (s *session) predecessor(
	ctx context.Context, queue driver.Queue, own node,
) (n node, w *zkconn.Watch, ok bool) {
	name := own.nearestSuccessor()
	if name == "" {
		return node{}, nil, false
	}
	w, err := s.WatchTarget(ctx, zkconn.Target{Kind: zkconn.Data, Node: s.ChildPath(queue, name)})
	if err != nil {
		return node{}, nil, false
	}
	n, ok = entryOf(name, w.Seen.Value)
	return n, w, ok
}

// Follow waits with one watch: on the successor node of the entry ahead, or on
// the entry if it has none. Join sets that watch if it finds the successor
// node.
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
	e, _ := s.OwnEntry(s.ChildPath(queue, own.Key))
	n, _ := parseNode(ahead.Key)
	if e.Follows != ahead.Key || n.successor() == "" {
		return false, s.Watch(ctx, queue, ahead)
	}
	err = s.Wait(ctx, func(told zk.Event) (w *zkconn.Watch, err error) {
		switch {
		case told.Type == zk.EventNodeDeleted:
			return nil, nil
		case told.Type == zk.EventNodeDataChanged:
			// Only its owner writes to a successor node. Own stands in the
			// queue, so that is the one in which the watch was set.
			passed = true
			return nil, nil
		case e.Watch != nil: // which may have fired already
			w, e.Watch = e.Watch, nil
			return w, nil
		}
		return s.watchSuccessor(ctx, queue, n)
	})
	return passed && err == nil, err
}

// unlessLeft returns a watch on the successor node of the entry ahead, nil when
// the entry has left.
func (s *session) watchSuccessor(
	ctx context.Context, queue driver.Queue, ahead node,
) (*zkconn.Watch, error) {
	successor := ahead.successor()
	w, err := s.WatchTarget(ctx, zkconn.Target{Kind: zkconn.Data, Node: s.ChildPath(queue, successor)})
	if err == nil {
		if n, _ := entryOf(successor, w.Seen.Value); n.Key != ahead.Key {
			// Somebody has written to it, or the queue was deleted and made
			// anew.
			entry := zkconn.Target{Kind: zkconn.Children, Node: s.ChildPath(queue, ahead.Key)}
			w, err = s.WatchTarget(ctx, entry)
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return w, err
}
