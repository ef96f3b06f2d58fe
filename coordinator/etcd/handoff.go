package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// How a release admits the successor without another read, at a cost that does not
// depend on the length of the queue:
//
// The tail key. A contender that joins a queue which is not empty writes its name to
// the tail key in the joining transaction, and reads the previous value, which names its
// predecessor (J8). As long as there is a tail key, every join swaps it, so no entry lies
// between the two. A contender that finds neither entry nor tail key makes none: that is
// the uncontended lock, one small transaction and one delete. A tail key goes with the
// entry that it names, in the transaction that deletes that, or with its lease. The next
// contender then finds no tail key, reads the queue, and makes a new one. A tail key may
// name an entry that is gone; the contender that follows it sees that, and reads the queue.
//
// The handoff marker. A release of the first entry, when the tail key is newer than that
// entry, which means that others are behind it, makes a key with the name of the entry
// and a "~" more. One watch of the two keys shows both, and one event says that the
// entry is gone and was the first. An entry that goes without a marker, because its
// contender gave up or its session ended, says nothing, and the follower reads the queue.
// The value of a marker is the entry's create revision, since names are used again. The
// follower deletes the marker with its own entry. One that is left over goes with the
// lease of its maker, or with the entry of a contender that has read the queue.
//
// To delete a tail key or a marker is safe at any time: contenders then read the queue. To
// write one is not.

// markSuffix sorts after all characters of a name, and occurs in none.
const markSuffix = "~"

// mark is the key of an entry's handoff marker.
func mark(key string) string { return key + markSuffix }

func isMark(key string) bool { return strings.HasSuffix(key, markSuffix) }

// mostMarks bounds the markers that one contender deletes. Others remain for the next.
const mostMarks = 16

const tailSuffix = "+tail"

// tail is the queue's tail key.
func (l layout) tail(queue driver.Queue) string { return l.stem(queue) + tailSuffix }

// tailOf is the tail key of the queue in which a contender's prefix lies.
func tailOf(prefix string) string { return prefix[:strings.LastIndexByte(prefix, '/')] + tailSuffix }

// swapTail succeeds if the queue is empty. If not, it writes the contender's name to the
// tail key and reads the previous one, for a contender that follows its predecessor.
func (s *session) swapTail(a *attempt) clientv3.Op {
	var swap []clientv3.Op
	if a.Follows {
		name := strings.TrimPrefix(a.entry, s.keys.queue(a.queue))
		swap = append(swap, clientv3.OpPut(s.keys.tail(a.queue), name, clientv3.WithLease(s.lease), clientv3.WithPrevKV()))
	}
	return clientv3.OpTxn(s.empty(a.queue), nil, swap)
}

// predecessor reads the previous tail key. It was written in the transaction that made the
// entry which it names, so its mod revision is that entry's create revision.
func (s *session) predecessor(queue driver.Queue, tail *mvccpb.KeyValue) driver.Place {
	if tail == nil {
		return driver.Place{}
	}
	return s.keys.place(queue, entry{s.keys.queue(queue) + string(tail.Value), tail.ModRevision})
}

// Pass is Leave with a handoff marker if the tail key says that others are behind.
//
// An etcd that is out of space refuses the marker, which is a put. Then the entry goes
// without one.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	err := s.leave(ctx, queue, own, true)
	if !isAnswer(err, rpctypes.ErrNoSpace) {
		return err
	}
	if err = s.leave(ctx, queue, own, false); errors.Is(err, driver.ErrGone) {
		return nil // the refused request was applied all the same: see madeWithoutSpace
	}
	return err
}

// deletes are the operations that delete an entry, the tail key if it names the entry, and
// markers of others. If the tail key is newer than the entry and handoff is set, they make
// the entry's own marker.
func (s *session) deletes(queue driver.Queue, e entry, handoff bool, marks []string) []clientv3.Op {
	ops := append(make([]clientv3.Op, 0, 2+len(marks)), clientv3.OpDelete(e.key))
	if !s.keys.shared {
		tail := s.keys.tail(queue)
		newer := clientv3.Compare(clientv3.ModRevision(tail), ">", s.keys.rank(queue, e))
		var create []clientv3.Op
		if handoff {
			create = []clientv3.Op{clientv3.OpPut(mark(e.key), revision(e.rev), clientv3.WithLease(s.lease))}
		}
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{newer}, create, []clientv3.Op{clientv3.OpDelete(tail)}))
	}
	for _, m := range marks {
		if m != mark(e.key) { // a request may not delete and make one key
			ops = append(ops, clientv3.OpDelete(m))
		}
	}
	return ops
}

// sweep deletes what was read of a queue if that is nothing but markers. If there is more,
// the next attempt finds it. A follower of one of them reads the queue instead. It
// reports whether they are gone.
func (s *session) sweep(ctx context.Context, kvs []*mvccpb.KeyValue) (bool, error) {
	var same []clientv3.Cmp
	var drop []clientv3.Op
	for _, kv := range kvs {
		if !isMark(string(kv.Key)) {
			return false, nil
		}
		same = append(same, unchanged(string(kv.Key), kv.ModRevision))
		drop = append(drop, clientv3.OpDelete(string(kv.Key)))
	}
	resp, err := s.c.Txn(s.lead(ctx)).If(same...).Then(drop...).Commit()
	if err != nil {
		return false, s.failed(ctx, err)
	}
	return resp.Succeeded, nil
}

// parted separates a contender's entries from the markers of earlier contenders with its ID.
func parted(kvs []*mvccpb.KeyValue) (entries, marks []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if isMark(string(kv.Key)) {
			marks = append(marks, kv)
		} else {
			entries = append(entries, kv)
		}
	}
	return entries, marks
}

// memory is what a session remembers of its contenders and of queues to save requests.
type memory struct {
	mu sync.Mutex
	// plain has the create revisions of entries that no tail key has named, and that no
	// request was sent to delete, by the contender's prefix.
	plain map[string]int64
	// marks are to be deleted with a contender's entry: the markers of those ahead of it.
	marks map[string][]string
	// contended has queues in which the last join of this session found others.
	contended map[driver.Queue]bool
}

const mostContended = 1024 // queues; to forget one costs a request

func newMemory() memory {
	return memory{plain: make(map[string]int64), marks: make(map[string][]string), contended: make(map[driver.Queue]bool)}
}

func (m *memory) isContended(queue driver.Queue) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contended[queue]
}

// joined remembers how a contender has joined, with the create revision rev.
func (m *memory) joined(a *attempt, rev int64, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first || !a.Follows {
		m.plain[a.prefix] = rev
	}
	if first {
		delete(m.contended, a.queue)
		return
	}
	if len(m.contended) >= mostContended {
		clear(m.contended)
	}
	m.contended[a.queue] = true
}

// takePlain reports whether a plain delete may remove an entry, and does so once.
func (m *memory) takePlain(e mine) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	rev := m.plain[e.contender]
	delete(m.plain, e.contender)
	return rev == e.rev
}

func (m *memory) noteMark(contender, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if noted := m.marks[contender]; len(noted) < mostMarks && !slices.Contains(noted, key) {
		m.marks[contender] = append(noted, key)
	}
}

func (m *memory) marksOf(contender string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[contender]
}

func (m *memory) drop(contender string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.plain, contender)
	delete(m.marks, contender)
}
