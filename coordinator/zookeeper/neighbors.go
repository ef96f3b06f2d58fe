package zookeeper

import (
	"context"
	"strings"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

// neighbors are the entries of a session that others of it may follow, while
// they are queued. The next entry in the queue finds the one ahead without a
// request, and its release wakes the next one without a watch.
//
// Numbers count what was created in the queue. So two entries with consecutive
// numbers have nobody in between, if the queue is the same: the numbers begin
// anew when an empty queue was removed. The reply to a join shows the czxid of
// the queue.
type neighbors struct {
	mu sync.Mutex
	m  map[slot]*neighbor
}

// slot is the number of the node that is created next in a queue.
type slot struct {
	queue driver.Queue
	seq   int32
}

type neighbor struct {
	driver.Place
	made    int64         // the czxid of the queue
	next    slot          // behind the entry and its successor node
	ahead   *neighbor     // next to it when it joined, until it has left itself
	gone    chan struct{} // nil until it is followed; closed when it has left
	left    bool
	passed  bool          // left by Pass
	leaving int           // calls under way that remove it
	idle    chan struct{} // nil, or closed when there are none any more
}

// add adds an entry of a join, and returns the one ahead, or nil.
func (s *neighbors) add(queue driver.Queue, a joinReply) (ahead *neighbor) {
	next := slot{queue, a.node.seq}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ahead = s.m[next]; ahead != nil && ahead.made != a.made {
		ahead = nil
	}
	if next.seq++; a.successor != "" {
		next.seq++
	}
	if s.m == nil {
		s.m = make(map[slot]*neighbor)
	}
	s.m[next] = &neighbor{Place: a.Place, made: a.made, next: next, ahead: ahead}
	return ahead
}

// at returns an entry that has not left, or nil. The caller holds s.mu.
func (s *neighbors) at(queue driver.Queue, p driver.Place) *neighbor {
	seq, _ := nodes.Sequence(p.Key[strings.LastIndexByte(p.Key, '_')+1:])
	for _, next := range [...]int32{seq + 1, seq + 2} {
		if n := s.m[slot{queue, next}]; n != nil && n.Key == p.Key {
			return n
		}
	}
	return nil
}

// follow returns the entry that own follows, or nil if it is not one of the
// session. It may have left since own joined.
func (s *neighbors) follow(queue driver.Queue, own, ahead driver.Place) *neighbor {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n *neighbor
	if me := s.at(queue, own); me != nil && me.ahead != nil && me.ahead.Key == ahead.Key {
		n = me.ahead
	} else if n = s.at(queue, ahead); n == nil {
		return nil
	}
	if n.gone == nil && !n.left {
		n.gone = make(chan struct{})
	}
	return n
}

// leaves notes that a call begins to remove an entry. The caller calls end,
// with whether the entry is gone, and was passed on.
func (s *neighbors) leaves(queue driver.Queue, p driver.Place) *neighbor {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.at(queue, p)
	if n != nil {
		n.leaving++
	}
	return n
}

func (s *neighbors) end(n *neighbor, gone, passed bool) {
	if n == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.leaving--; n.leaving == 0 && n.idle != nil {
		close(n.idle)
		n.idle = nil
	}
	if gone && !n.left {
		s.drop(n, passed)
	}
}

// drop notes that an entry has left. The caller holds s.mu.
func (s *neighbors) drop(n *neighbor, passed bool) {
	n.left, n.passed, n.ahead = true, passed, nil
	if n.gone != nil {
		close(n.gone)
	}
	if s.m[n.next] == n {
		delete(s.m, n.next)
	}
}

// forget notes that a contender has no entry any more. A request without a
// reply may have removed or converted one: then no call has ended it.
func (s *neighbors) forget(queue driver.Queue, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.m { // costs less than the listing of Forget
		if n.ID == id && n.next.queue == queue {
			s.drop(n, false)
		}
	}
}

// hasLeft reports whether the session has removed an entry, and by Pass.
func (s *neighbors) hasLeft(n *neighbor) (left, passed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n.left, n.passed
}

// outcome reports whether an entry has left by Pass, of which the service has
// shown that it is gone. That arrives before the reply to the call that has
// removed it.
func (s *neighbors) outcome(
	ctx context.Context, until func(context.Context, <-chan struct{}) error, n *neighbor,
) (passed bool, err error) {
	for {
		s.mu.Lock()
		if n.left || n.leaving == 0 {
			defer s.mu.Unlock()
			return n.passed, nil
		}
		if n.idle == nil {
			n.idle = make(chan struct{})
		}
		idle := n.idle
		s.mu.Unlock()
		if err := until(ctx, idle); err != nil {
			return false, err
		}
	}
}
