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

// This file has the successor nodes: what an entry of a busy line leaves in
// reach of whoever comes next.
//
//	x_5f0c…_1000a2b3c4d5e6f_0000000007    an entry
//	successor_0000000008                  its successor node, made in the same transaction
//	x_77ab…_1000a2b3c4d5e70_0000000009    the next entry, which looks for successor_0000000008
//
// A sequence number counts the nodes that were made in the line, so whoever
// joins with number n knows without a listing what the successor node of the
// one directly ahead is called, if it has one. The successor node says who that
// is, in the part of the entry's name that cannot be guessed. One read of it
// finds the nearest contender and sets the watch to wait with.
//
// It goes together with its entry, in one transaction. Only one that passes
// leaves it, with other data: the watch tells of that by another word than of a
// leaving, so the next one is admitted without a look. Nothing else writes to a
// successor node. Deleting a successor node is always safe, since whoever
// follows it then looks at the line.
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
func (c lineView) hasSuccessor(n node) bool {
	return n.successor() != "" && slices.Contains(c.successors, n.seq+1)
}

// orphans are the names of the successor nodes whose entries are gone: what
// those who passed have left, as a rule.
func (c lineView) orphans() []string {
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

// entry names a contender of this session in a line.
type entry struct {
	line driver.Line
	id   string
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
func (t *ownEntries) of(line driver.Line, n node) ownEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr := t.m[entry{line, n.ID}]; tr.key == n.Key {
		return tr
	}
	return ownEntry{key: n.Key}
}

func (t *ownEntries) keep(line driver.Line, id string, tr ownEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[entry{line, id}] = tr
}

// converted notes that a place has another key, and no successor node.
func (t *ownEntries) converted(line driver.Line, old, to node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := entry{line, old.ID}
	if tr := t.m[e]; tr.key == old.Key {
		tr.key, tr.successor = to.Key, ""
		t.m[e] = tr
	}
}

// drop forgets a place that is not in the line any more.
func (t *ownEntries) drop(line driver.Line, n node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := (entry{line, n.ID}); t.m[e].key == n.Key {
		delete(t.m, e)
	}
}

// forget forgets a contender.
func (t *ownEntries) forget(line driver.Line, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, entry{line, id})
}

// note keeps what a listing shows to the i-th in line: whether the one ahead
// has a successor node; to the first which successor nodes are left over.
func (t *ownEntries) note(line driver.Line, c lineView, i int) {
	n := c.nodes[i]
	tr := t.of(line, n)
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
	t.keep(line, n.ID, tr)
}

// contention is in which lines a session has met others lately. Only there entries
// get successor nodes: elsewhere nobody would have any use for them.
type contention struct {
	mu sync.Mutex
	m  map[driver.Line]flow
}

type flow struct {
	busy int   // for how many more joins that meet nobody the line counts as busy
	size int32 // how many nodes were there at last
}

const (
	maxBusy    = 1024 // lines
	quietAfter = 4    // joins
)

func newContention() *contention { return &contention{m: make(map[driver.Line]flow)} }

func (t *contention) busy(line driver.Line) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[line].busy > 0
}

// long tells whether the line was rather long when it was last looked at.
func (t *contention) long(line driver.Line) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[line].size > shortLine
}

// met notes that others are in the line.
func (t *contention) met(line driver.Line, size int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(line, flow{quietAfter, size})
}

// saw notes how many are in the line, to one who does not stand in it.
func (t *contention) saw(line driver.Line, size int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.m[line]; f.busy > 0 || size > shortLine {
		t.put(line, flow{f.busy, size})
	} else {
		delete(t.m, line)
	}
}

func (t *contention) put(line driver.Line, f flow) {
	if _, ok := t.m[line]; !ok && len(t.m) >= maxBusy {
		for some := range t.m {
			delete(t.m, some)
			break
		}
	}
	t.m[line] = f
}

// alone notes a join that has met nobody.
func (t *contention) alone(line driver.Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.m[line]
	if f.busy--; f.busy > 0 {
		f.size = 0
		t.m[line] = f
	} else if ok {
		delete(t.m, line)
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
func (s *session) Follow(ctx context.Context, line driver.Line, own, ahead driver.Place) (passed bool, err error) {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own), checkKey(line, ahead)); err != nil {
		return false, err
	}
	mine, _ := parseNode(own.Key)
	successor, known := s.successorOf(line, mine, ahead)
	if successor == "" {
		return false, s.Watch(ctx, line, ahead)
	}
	err = s.wait(ctx, func(told zk.Event) (w *watch, err error) {
		switch {
		case told.Type == zk.EventNodeDeleted:
			return nil, nil
		case told.Type == zk.EventNodeDataChanged && told.State == zk.StateSyncConnected:
			// Nobody else writes to a successor node. Own stands in the line,
			// so that is the one in which the watch was set.
			passed = true
			return nil, nil
		}
		w, known, passed, err = s.lookAtSuccessor(ctx, line, successor, ahead, known)
		return w, err
	})
	if passed && path.Base(successor) == mine.nearestSuccessor() { // of several who follow it this one clears it away
		tr := s.ownEntries.of(line, mine)
		tr.spent = []string{path.Base(successor)}
		s.ownEntries.keep(line, mine.ID, tr)
	}
	return passed && err == nil, err
}

// successorOf is the path of the successor node of the one ahead; empty if it
// has none. known says that it has or had one.
func (s *session) successorOf(line driver.Line, mine node, ahead driver.Place) (successor string, known bool) {
	n, ok := parseNode(ahead.Key)
	if !ok || n.ID == "" || n.successor() == "" {
		return "", false
	}
	tr := s.ownEntries.of(line, mine)
	known = tr.ahead == ahead.Key && !tr.bare
	if !known && (tr.ahead == ahead.Key || tr.successor == "") {
		return "", false
	}
	return s.below(line, n.successor()), known
}

// lookAtSuccessor returns the watch on the successor node while that says
// nothing, nothing when the one ahead has left, and the watch on the entry
// ahead if there is no successor node and none was known.
func (s *session) lookAtSuccessor(
	ctx context.Context, line driver.Line, successor string, ahead driver.Place, known bool,
) (w *watch, there, passed bool, err error) {
	w, err = s.watch(ctx, watchKey{onSuccessor, successor}, successor)
	switch {
	case errors.Is(err, zk.ErrNoNode) && !known:
		entry := s.below(line, ahead.Key)
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
	case !ok || h.node.Key != ahead.Key: // the line was deleted, and made anew
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
// passed: of each line the latest, since the one before has been of use to
// whoever came in between. As long as a session goes on passing in a line,
// nothing is sent.
type leftovers struct {
	clear func() // what the timer runs

	mu      sync.Mutex
	m       map[driver.Line]leftover
	timer   *time.Timer // nil when there is nothing to clear
	stopped bool
}

type leftover struct {
	successor string
	version   int32 // of its data
	since     time.Time
}

func newLeftovers() *leftovers { return &leftovers{m: make(map[driver.Line]leftover)} }

// note notes a successor node that is left, or about to be, and reports whether
// there is room for it.
func (l *leftovers) note(line driver.Line, successor string, version int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.m[line]; l.stopped || !ok && len(l.m) >= maxBusy {
		return false
	}
	l.m[line] = leftover{successor, version, time.Now()}
	if l.timer == nil {
		l.timer = time.AfterFunc(lingerFor, l.clear)
	}
	return true
}

// due returns those that have lingered for long enough, and sets the timer for
// the rest.
func (l *leftovers) due() map[driver.Line]leftover {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	due := make(map[driver.Line]leftover)
	next := lingerFor
	for line, left := range l.m {
		if wait := lingerFor - time.Since(left.since); wait <= 0 {
			due[line] = left
			delete(l.m, line)
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
// not say that it was passed is another one, in a line that was removed and
// made anew: hence the version.
func (s *session) clearLeft() {
	if !s.begin() {
		return
	}
	defer s.running.Done()
	for line, left := range s.left.due() {
		successor := s.below(line, left.successor)
		_, err := call(context.Background(), s, func() (struct{}, error) {
			return struct{}{}, s.conn.Delete(successor, left.version)
		})
		if errors.Is(err, driver.ErrUnavailable) {
			s.left.again(line, left)
		}
	}
}

// again keeps what could not be deleted, unless there is something later.
func (l *leftovers) again(line driver.Line, left leftover) {
	l.mu.Lock()
	_, ok := l.m[line]
	l.mu.Unlock()
	if !ok {
		l.note(line, left.successor, left.version)
	}
}

// shed deletes the successor node of an entry that somebody else has deleted.
func (s *session) shed(ctx context.Context, line driver.Line, successor string) {
	if err := s.remove(ctx, s.below(line, successor)); err != nil && !errors.Is(err, zk.ErrNoNode) {
		s.left.note(line, successor, -1)
	}
}
