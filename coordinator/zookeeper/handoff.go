package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has the successor nodes: what an entry of a busy queue leaves in
// reach of whoever comes next.
//
//	x_5f0c…_1000a2b3c4d5e6f_0000000007    an entry
//	successor_0000000008                  its successor node, made in the same transaction
//	x_77ab…_1000a2b3c4d5e70_0000000009    the next entry, which looks for successor_0000000008
//
// A sequence number counts the nodes that were made in the queue, so whoever
// joins with number n knows without a listing what the successor node of the
// one directly ahead is called, if it has one. The successor node says who that
// is, in the part of the entry's name that cannot be guessed. One read of it
// finds the nearest contender and sets the watch to wait with.
//
// It goes together with its entry, in one transaction. Only one that passes
// leaves it, with other data: the watch tells of that by another word than of a
// leaving, so the next one is admitted without a look. Nothing else writes to a
// successor node. Deleting a successor node is always safe, since whoever
// follows it then looks at the queue.
//
// A successor node that was passed is deleted in the transaction in which the
// one that it passed to leaves, or by its own session after a while, and is an
// ephemeral node like its entry.

const successorPrefix = "successor_"

// parseSuccessor reads the name of a successor node.
func parseSuccessor(name string) (seq int32, ok bool) {
	number, ok := strings.CutPrefix(name, successorPrefix)
	if !ok {
		return 0, false
	}
	return sequence(number)
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

// nearestSuccessor is the name that the successor node of the one directly
// ahead has; empty if it cannot have one.
func (n node) nearestSuccessor() string {
	if n.late() || n.seq < 2 {
		return ""
	}
	return successorName(n.seq - 1)
}

// successorData is the data of a successor node: whose it is, in the entry's name but for
// the number, which follows from its own. A mark before it tells that the entry
// has passed.
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
	return []byte(mark + nodePrefix(driver.Contender{ID: h.node.ID, Mode: h.node.Mode}, h.node.Session))
}

// read reads a successor node of this name.
func read(successor string, data []byte) (h successorData, ok bool) {
	seq, ok := parseSuccessor(successor)
	if !ok || seq < 1 {
		return successorData{}, false
	}
	text, passed := strings.CutPrefix(string(data), passedMark)
	h.passed = passed
	h.node, ok = parseOwn(fmt.Sprintf("%s%010d", text, seq-1))
	return h, ok && h.node.turn == 0
}

// hasSuccessor tells whether a node has a successor node.
func (c queueView) hasSuccessor(n node) bool {
	return n.successor() != "" && slices.Contains(c.successors, n.seq+1)
}

// orphans are the names of the successor nodes whose entries are gone: what
// those who passed have left, as a rule.
func (c queueView) orphans() []string {
	if len(c.successors) == 0 {
		return nil
	}
	there := make(map[int32]bool, len(c.nodes))
	for _, n := range c.nodes {
		if n.ID != "" && n.turn == 0 {
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

// entry names a contender of this session in a queue.
type entry struct {
	queue driver.Queue
	id    string
}

// ownEntries are what a session keeps of its own contenders beyond their places,
// for as long as they stand.
type ownEntries struct {
	mu sync.Mutex
	m  map[entry]ownEntry
}

type ownEntry struct {
	key       string   // the entry's, as far as this session knows
	successor string   // the name of its successor node, empty if there is none
	ahead     string   // the key of somebody ahead, of whom is known
	bare      bool     // that it has no successor node
	spent     []string // names of successor nodes ahead that are of no more use when this one leaves
}

// maxSpent bounds the successor nodes that one contender clears away.
const maxSpent = 16

func newOwnEntries() *ownEntries { return &ownEntries{m: make(map[entry]ownEntry)} }

// of returns what is kept of a place; nothing if it has another key by now.
func (t *ownEntries) of(queue driver.Queue, n node) ownEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr := t.m[entry{queue, n.ID}]; tr.key == n.Key {
		return tr
	}
	return ownEntry{key: n.Key}
}

func (t *ownEntries) keep(queue driver.Queue, id string, tr ownEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[entry{queue, id}] = tr
}

// converted notes that a place has another key, and no successor node.
func (t *ownEntries) converted(queue driver.Queue, old, to node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := entry{queue, old.ID}
	if tr := t.m[e]; tr.key == old.Key {
		tr.key, tr.successor = to.Key, ""
		t.m[e] = tr
	}
}

// drop forgets a place that is not in the queue any more.
func (t *ownEntries) drop(queue driver.Queue, n node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := (entry{queue, n.ID}); t.m[e].key == n.Key {
		delete(t.m, e)
	}
}

// forget forgets a contender.
func (t *ownEntries) forget(queue driver.Queue, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, entry{queue, id})
}

// note keeps what a listing shows to the i-th in the queue: whether the one ahead
// has a successor node; to the first which successor nodes are left over.
func (t *ownEntries) note(queue driver.Queue, c queueView, i int) {
	n := c.nodes[i]
	tr := t.of(queue, n)
	if len(c.successors) == 0 && tr.successor == "" || n.ID == "" || n.late() {
		return
	}
	if i > 0 {
		tr.ahead, tr.bare = c.nodes[i-1].Key, !c.hasSuccessor(c.nodes[i-1])
	} else {
		tr.ahead, tr.spent = "", nil
		for _, name := range c.orphans() {
			if seq, _ := parseSuccessor(name); seq < n.seq && len(tr.spent) < maxSpent {
				tr.spent = append(tr.spent, name)
			}
		}
	}
	t.keep(queue, n.ID, tr)
}

// contention is in which queues a session has met others lately. Only there entries
// get successor nodes: elsewhere nobody would have any use for them.
type contention struct {
	mu sync.Mutex
	m  map[driver.Queue]flow
}

type flow struct {
	busy int   // for how many more joins that meet nobody the queue counts as busy
	size int32 // how many nodes were there at last
}

const (
	maxBusy    = 1024 // queues
	quietAfter = 4    // joins
)

func newContention() *contention { return &contention{m: make(map[driver.Queue]flow)} }

func (t *contention) busy(queue driver.Queue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[queue].busy > 0
}

// long tells whether the queue was rather long when it was last looked at.
func (t *contention) long(queue driver.Queue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[queue].size > shortQueue
}

// met notes that others are in the queue.
func (t *contention) met(queue driver.Queue, size int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(queue, flow{quietAfter, size})
}

// saw notes how many are in the queue, to one who does not stand in it.
func (t *contention) saw(queue driver.Queue, size int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.m[queue]; f.busy > 0 || size > shortQueue {
		t.put(queue, flow{f.busy, size})
	} else {
		delete(t.m, queue)
	}
}

func (t *contention) put(queue driver.Queue, f flow) {
	if _, ok := t.m[queue]; !ok && len(t.m) >= maxBusy {
		for some := range t.m {
			delete(t.m, some)
			break
		}
	}
	t.m[queue] = f
}

// alone notes a join that has met nobody.
func (t *contention) alone(queue driver.Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.m[queue]
	if f.busy--; f.busy > 0 {
		f.size = 0
		t.m[queue] = f
	} else if ok {
		delete(t.m, queue)
	}
}

// Follow waits with one watch: on the successor node of the one ahead, which
// Join has set already if it has found that one; without a successor node, on
// the entry ahead.
//
// A change of the successor node's data says that the one ahead has passed. The
// successor node is deleted together with its entry. If an operator deletes the
// entry alone, its own session deletes the successor node as soon as it
// notices, or ends and takes it along.
func (s *session) Follow(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (passed bool, err error) {
	if err := cmp.Or(s.checkQueue(queue), checkKey(queue, own), checkKey(queue, ahead)); err != nil {
		return false, err
	}
	mine, _ := parseNode(own.Key)
	successor, known := s.successorOf(queue, mine, ahead)
	if successor == "" {
		return false, s.Watch(ctx, queue, ahead)
	}
	err = s.wait(ctx, func(told zk.Event) (w *watch, err error) {
		switch {
		case told.Type == zk.EventNodeDeleted:
			return nil, nil
		case told.Type == zk.EventNodeDataChanged && told.State == zk.StateSyncConnected:
			// Nobody else writes to a successor node. Own stands in the queue,
			// so that is the one in which the watch was set.
			passed = true
			return nil, nil
		}
		w, known, passed, err = s.lookAtSuccessor(ctx, queue, successor, ahead, known)
		return w, err
	})
	if passed && path.Base(successor) == mine.nearestSuccessor() { // of several who follow it this one clears it away
		tr := s.ownEntries.of(queue, mine)
		tr.spent = []string{path.Base(successor)}
		s.ownEntries.keep(queue, mine.ID, tr)
	}
	return passed && err == nil, err
}

// successorOf is the path of the successor node of the one ahead; empty if it
// has none. known says that it has or had one.
func (s *session) successorOf(queue driver.Queue, mine node, ahead driver.Place) (successor string, known bool) {
	n, ok := parseNode(ahead.Key)
	if !ok || n.ID == "" || n.successor() == "" {
		return "", false
	}
	tr := s.ownEntries.of(queue, mine)
	known = tr.ahead == ahead.Key && !tr.bare
	if !known && (tr.ahead == ahead.Key || tr.successor == "") {
		return "", false
	}
	return s.below(queue, n.successor()), known
}

// lookAtSuccessor returns the watch on the successor node while that says
// nothing, nothing when the one ahead has left, and the watch on the entry
// ahead if there is no successor node and none was known.
func (s *session) lookAtSuccessor(
	ctx context.Context, queue driver.Queue, successor string, ahead driver.Place, known bool,
) (w *watch, there, passed bool, err error) {
	w, err = s.watch(ctx, watchKey{onSuccessor, successor}, successor)
	switch {
	case errors.Is(err, zk.ErrNoNode) && !known:
		entry := s.below(queue, ahead.Key)
		if w, err = s.watch(ctx, watchKey{onPlace, entry}, entry); errors.Is(err, zk.ErrNoNode) {
			return nil, false, false, nil
		}
		return w, false, false, err
	case errors.Is(err, zk.ErrNoNode):
		return nil, true, false, nil
	case err != nil:
		return nil, known, false, err
	}
	h, ok := read(path.Base(successor), w.seen.value)
	switch {
	case !ok || h.node.Key != ahead.Key: // the queue was deleted, and made anew
		return nil, true, false, nil
	case h.passed:
		return nil, true, true, nil
	}
	return w, true, false, nil
}

// lingerFor is how long the successor node of one that has passed is left to
// whoever it passed to. That one deletes it when it leaves, if there is such a
// one.
const lingerFor = time.Second

// leftovers are the successor nodes that a session has left when its contenders
// passed: of each queue the latest, since the one before has been of use to
// whoever came in between. As long as a session goes on passing in a queue,
// nothing is sent.
type leftovers struct {
	clear func() // what the timer runs

	mu      sync.Mutex
	m       map[driver.Queue]leftover
	timer   *time.Timer // nil when there is nothing to clear
	stopped bool
}

type leftover struct {
	successor string
	version   int32 // of its data
	since     time.Time
}

func newLeftovers() *leftovers { return &leftovers{m: make(map[driver.Queue]leftover)} }

// note notes a successor node that is left, or about to be, and reports whether
// there is room for it.
func (l *leftovers) note(queue driver.Queue, successor string, version int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.m[queue]; l.stopped || !ok && len(l.m) >= maxBusy {
		return false
	}
	l.m[queue] = leftover{successor, version, time.Now()}
	if l.timer == nil {
		l.timer = time.AfterFunc(lingerFor, l.clear)
	}
	return true
}

// due returns those that have lingered for long enough, and sets the timer for
// the rest.
func (l *leftovers) due() map[driver.Queue]leftover {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	due := make(map[driver.Queue]leftover)
	next := lingerFor
	for queue, left := range l.m {
		if wait := lingerFor - time.Since(left.since); wait <= 0 {
			due[queue] = left
			delete(l.m, queue)
		} else {
			next = min(next, wait)
		}
	}
	if len(l.m) > 0 && !l.stopped {
		l.timer = time.AfterFunc(next, l.clear)
	}
	return due
}

func (l *leftovers) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// clearLeft deletes what has lingered. A successor node of that name that does
// not say that it was passed is another one, in a queue that was removed and
// made anew: hence the version.
func (s *session) clearLeft() {
	if !s.begin() {
		return
	}
	defer s.running.Done()
	for queue, left := range s.left.due() {
		successor := s.below(queue, left.successor)
		_, err := call(context.Background(), s, func() (struct{}, error) {
			return struct{}{}, s.conn.Delete(successor, left.version)
		})
		if errors.Is(err, driver.ErrUnavailable) {
			s.left.again(queue, left)
		}
	}
}

// again keeps what could not be deleted, unless there is something later.
func (l *leftovers) again(queue driver.Queue, left leftover) {
	l.mu.Lock()
	_, ok := l.m[queue]
	l.mu.Unlock()
	if !ok {
		l.note(queue, left.successor, left.version)
	}
}

// shed deletes the successor node of an entry that somebody else has deleted.
func (s *session) shed(ctx context.Context, queue driver.Queue, successor string) {
	if err := s.remove(ctx, s.below(queue, successor)); err != nil && !errors.Is(err, zk.ErrNoNode) {
		s.left.note(queue, successor, -1)
	}
}
