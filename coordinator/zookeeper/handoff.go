package zookeeper

import (
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

// This file has the handoff: a release that admits the next entry without a
// read of the queue. In a contended queue each entry has a successor node:
//
//	x_5f0c…_1000a2b3c4d5e6f_0000000007    an entry
//	successor_0000000008                  its successor node, created in the same transaction
//	x_77ab…_1000a2b3c4d5e70_0000000009    the next entry, which reads successor_0000000008
//
// Sequence numbers count the nodes created in the queue. So the entry with
// number n knows the name of its predecessor's successor node without a
// listing. That node's data is the unguessable part of the predecessor's name.
// One read of it finds the predecessor and sets the watch.
//
// The successor node is deleted together with its entry, in one transaction.
// Pass writes to it first, in the same transaction. The service applies a
// transaction step by step, and a watch fires once. So the follower of a pass
// sees a change, not a deletion, and is admitted without a read of the queue.
// Nothing else writes to a successor node. Deleting one is always safe: its
// follower then reads the queue.
//
// A follower that was not connected during the pass, or joined during it, reads
// the queue too.
//
// A follower of the same session needs none of that: see neighbors.go. Its
// predecessor has a successor node all the same, since nobody knows who joins
// next.

const successorPrefix = "successor_"

func parseSuccessor(name string) (seq int32, ok bool) {
	number, ok := strings.CutPrefix(name, successorPrefix)
	if !ok {
		return 0, false
	}
	return nodes.Sequence(number)
}

// successor is the name of the node's successor node, or "" if it can have none
// because it was converted or numbers run out.
func (n node) successor() string {
	if n.seq < 0 || n.seq >= math.MaxInt32-1 || n.conversions > 0 {
		return ""
	}
	return successorName(n.seq + 1)
}

func successorName(seq int32) string { return fmt.Sprintf("%s%010d", successorPrefix, seq) }

// nearestSuccessor is the name of the predecessor's successor node, or "" if it
// can have none.
func (n node) nearestSuccessor() string {
	if n.overflowed() || n.seq < 2 {
		return ""
	}
	return successorName(n.seq - 1)
}

// entryOf is the entry of a successor node with this name and data.
func entryOf(successor string, data []byte) (n node, ok bool) {
	seq, ok := parseSuccessor(successor)
	if !ok || seq < 1 {
		return node{}, false
	}
	n, ok = parseNode(fmt.Sprintf("%s%010d", data, seq-1))
	return n, ok && n.conversions == 0
}

func (c queueView) hasSuccessor(n node) bool {
	return n.successor() != "" && slices.Contains(c.successors, n.seq+1)
}

// removeOrphans deletes the successor nodes whose entries an operator has
// deleted alone.
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

// noteSuccessor notes whether the entry ahead of the i-th has a successor node.
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

// contention holds the queues that a session considers contended, with how many
// more joins may find few others before that ends. Only in these queues do its
// entries get successor nodes: with few contenders a listing costs less.
type contention struct {
	mu sync.Mutex
	m  map[driver.Queue]int
}

const (
	maxContended     = 1024 // queues
	uncontendedAfter = 4    // joins
	few              = 2    // other nodes
)

func (c *contention) contended(queue driver.Queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[queue] > 0
}

// observe notes how many other nodes a join found.
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

// noteJoin notes the contention, and finds the predecessor: among the session's
// own entries, or by its successor node.
func (s *session) noteJoin(
	ctx context.Context, queue driver.Queue, c driver.Contender, a joinReply,
) driver.Joined {
	waits := !a.First && !c.Alone
	if c.Follows && !a.node.overflowed() {
		s.contention.observe(queue, a.others)
		if ahead := s.neighbors.add(queue, a); ahead != nil && waits {
			a.Nearest, waits = ahead.Place, false
		}
	}
	if a.successor == "" {
		return a.Joined
	}
	e := nodes.OwnEntry{Successor: a.successor}
	if waits {
		if n, w, ok := s.predecessor(ctx, queue, a.node); ok {
			a.Nearest, e.Follows, e.Watch = n.Place, n.Key, w
		}
	}
	s.SetOwnEntry(s.ChildPath(queue, a.node.Key), func(o *nodes.OwnEntry) { *o = e })
	return a.Joined
}

// predecessor reads the successor node of the predecessor, and sets the watch
// for Follow. If that fails, the queue is read instead.
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
