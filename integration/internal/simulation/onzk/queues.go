package onzk

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/virtualzk"
)

// This file reads the queues from the transactions, as the driver's documents
// say that they are stored, with none of its code.

const chroot = "/world"

// layout says how queues are stored.
type layout struct {
	shared string // the name of another client's layout, or "" for Baton's own
	world  simulation.World
}

// base is the node above the queues, and a slash.
func (l layout) base() string {
	if l.shared != "" {
		return chroot + "/"
	}
	return chroot + "/~/"
}

// path is where a queue is.
func (l layout) path(queue driver.Queue) string {
	if _, name, _ := strings.Cut(string(queue), "/"); l.shared != "" {
		return l.base() + name
	}
	return l.base() + string(queue)
}

// named is what the path of a node says.
type named struct {
	queue  driver.Queue
	key    string
	record bool
	// successor is the number of a successor node, or -1; seq that of an entry.
	successor, seq    int64
	mode, id, session string
	token             driver.Token // of a converted entry
}

// parse reads a path. One that is no part of a queue is not ok. Of another
// program's node only the queue and the key are known.
func (l layout) parse(path string) (n named, ok bool) {
	if l.shared != "" {
		return l.parseShared(path)
	}
	rest, below := strings.CutPrefix(path, l.base())
	parts := strings.Split(rest, "/")
	n.successor, n.seq = -1, -1
	switch {
	case !below || len(parts) < 2 || len(parts) > 3:
		return n, false
	case len(parts) == 2:
		name, is := strings.CutSuffix(parts[1], "+record")
		n.queue, n.record = driver.Queue(parts[0]+"/"+name), is
		return n, is
	}
	n.queue, n.key = driver.Queue(parts[0]+"/"+parts[1]), parts[2]
	if number, is := strings.CutPrefix(n.key, "successor_"); is {
		n.successor, _ = strconv.ParseInt(number, 10, 32)
		return n, true
	}
	fields := strings.Split(n.key, "_")
	if len(fields) != 4 && len(fields) != 6 {
		return n, true
	}
	n.mode, n.id, n.session = fields[0], fields[1], fields[2]
	n.seq, _ = strconv.ParseInt(fields[len(fields)-1], 10, 32)
	if len(fields) == 6 {
		token, _ := strconv.ParseUint(fields[3], 16, 63)
		n.token = driver.Token(token)
	}
	return n, true
}

// queues are the queues and records after all transactions so far.
type queues struct {
	layout
	entries map[driver.Queue][]driver.Entry // in order
	records map[driver.Queue]driver.Record
}

func newQueues(l layout) queues {
	return queues{l, map[driver.Queue][]driver.Entry{}, map[driver.Queue]driver.Record{}}
}

func sessionName(id int64) string { return strconv.FormatUint(uint64(id), 16) }

// steps applies a transaction, and calls see with each step after it.
func (q queues) steps(txn virtualzk.Txn, see func(memory.Step)) {
	passed := map[string]bool{} // the successor nodes that were written to
	var left *driver.Entry      // that is converted if another of its contender follows
	leaves := func() {
		if left != nil {
			n, _ := q.parse(q.base() + left.Key)
			see(q.leave(txn, n.queue, *left, passed))
			left = nil
		}
	}
	for _, c := range txn.Changes {
		n, ok := q.parse(c.Path)
		if q.shared != "" && n.id != "" {
			n.session = sessionName(txn.Session) // no name has it
		}
		switch {
		case !ok:
		case n.record:
			see(q.recorded(txn, n.queue, c))
		case n.successor >= 0:
			if c.Op == virtualzk.Set {
				passed[fmt.Sprint(n.queue, n.successor)] = true
			}
		case c.Op == virtualzk.Delete:
			leaves()
			if i := q.index(n); i >= 0 {
				e := q.entries[n.queue][i]
				e.Key = strings.TrimPrefix(c.Path, q.base())
				left = &e
			}
		case c.Op == virtualzk.Create && left != nil && n.converts(*left, q.shared):
			old, _ := q.parse(q.base() + left.Key)
			e := entry(n, c, left.Token)
			q.entries[n.queue][q.index(old)] = e
			left = nil
			see(memory.Step{Kind: memory.StepConverted, By: hand(txn, e), Queue: n.queue, Entry: e})
		case c.Op == virtualzk.Create:
			e := entry(n, c, driver.Token(txn.Zxid))
			q.entries[n.queue] = append(q.entries[n.queue], e)
			see(memory.Step{Kind: memory.StepJoined, By: hand(txn, e), Queue: n.queue, Entry: e})
		case c.Op == virtualzk.Set:
			if i := q.index(n); i >= 0 {
				q.entries[n.queue][i].Value = c.Data
				e := q.entries[n.queue][i]
				see(memory.Step{Kind: memory.StepWritten, By: hand(txn, e), Queue: n.queue, Entry: e})
			}
		}
	}
	leaves()
}

// converts reports whether a new node continues an entry that has just left.
// Names in layouts of other clients have no token.
func (n named) converts(left driver.Entry, shared string) bool {
	return n.id != "" && n.id == left.ID && (shared != "" || n.token == left.Token)
}

// index is that of the entry with a name.
func (q queues) index(n named) int {
	return slices.IndexFunc(q.entries[n.queue], func(e driver.Entry) bool { return e.Key == n.key })
}

func entry(n named, c virtualzk.Change, token driver.Token) driver.Entry {
	return driver.Entry{
		Place: driver.Place{Key: n.key, ID: n.id, Mode: n.mode, Session: n.session},
		Token: token, Value: c.Data,
	}
}

// leave removes an entry, whose key has its queue before it.
func (q queues) leave(
	txn virtualzk.Txn, queue driver.Queue, e driver.Entry, passed map[string]bool,
) memory.Step {
	n, _ := q.parse(q.base() + e.Key)
	e.Key = n.key
	i := q.index(n)
	q.entries[queue] = slices.Delete(slices.Clone(q.entries[queue]), i, i+1)
	if len(q.entries[queue]) == 0 {
		delete(q.entries, queue)
	}
	return memory.Step{
		Kind: memory.StepLeft, By: hand(txn, e), Queue: queue, Entry: e,
		Passed: n.token == 0 && passed[fmt.Sprint(queue, n.seq+1)],
	}
}

// recorded notes a record, whose version is that of its node's data, plus one.
func (q queues) recorded(txn virtualzk.Txn, queue driver.Queue, c virtualzk.Change) memory.Step {
	switch c.Op {
	case virtualzk.Delete:
		delete(q.records, queue)
	case virtualzk.Create:
		q.records[queue] = driver.Record{Value: c.Data, Version: 1}
	default:
		q.records[queue] = driver.Record{Value: c.Data, Version: q.records[queue].Version + 1}
	}
	return memory.Step{
		Kind: memory.StepRecord, By: memory.Hand(txn.By), Queue: queue, Record: q.records[queue],
	}
}

// hand is who has changed an entry. Baton's own operator is another session.
//
// A session that a member has shortened can end before its client knows: then
// the client was cut off, and can report the loss too late. It is the operator
// who gives the members different bounds.
func hand(txn virtualzk.Txn, e driver.Entry) memory.Hand {
	if txn.By == virtualzk.ByClient && sessionName(txn.Session) != e.Session ||
		txn.By == virtualzk.ByShortening {
		return memory.ByOperator
	}
	return memory.Hand(txn.By)
}

func (q queues) names() []driver.Queue { return slices.Sorted(maps.Keys(q.entries)) }
