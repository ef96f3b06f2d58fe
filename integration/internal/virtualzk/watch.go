package virtualzk

import (
	"cmp"
	"maps"
	"slices"
)

// notice is what a watch tells.
type notice struct {
	path string
	what event
}

func (n notice) message() []byte {
	const xid, ofNoTransaction, connected = -1, -1, 3
	b := appendInt32(appendInt64(appendInt32(nil, xid), ofNoTransaction), 0)
	return appendText(appendInt32(appendInt32(b, int32(n.what)), connected), n.path)
}

// spot is the subject of a watch: a node, which may be missing, or its
// children.
type spot struct {
	path     string
	children bool
}

// watches are the watches of a member's connections. Each fires once.
type watches map[spot]map[*conn]struct{}

func (w watches) add(s spot, c *conn) {
	if w[s] == nil {
		w[s] = map[*conn]struct{}{}
	}
	w[s][c] = struct{}{}
	c.watching[s] = struct{}{}
}

// remove removes all watches of a connection.
func (w watches) remove(c *conn) {
	for s := range c.watching {
		if delete(w[s], c); len(w[s]) == 0 {
			delete(w, s)
		}
	}
	clear(c.watching)
}

// fire sends a notice to the connections that watch its subject. One that
// watches a deleted node and its children gets one notice.
func (w watches) fire(n notice) {
	notified := map[*conn]struct{}{}
	if n.what != childrenChanged {
		w.notify(spot{n.path, false}, n, notified)
	}
	if n.what == childrenChanged || n.what == deleted {
		w.notify(spot{n.path, true}, n, notified)
	}
}

func (w watches) notify(s spot, n notice, notified map[*conn]struct{}) {
	watching := w[s]
	delete(w, s)
	for _, c := range slices.SortedFunc(maps.Keys(watching), byNumber) {
		delete(c.watching, s)
		if _, done := notified[c]; !done {
			notified[c] = struct{}{}
			c.tell(n)
		}
	}
}

func byNumber(a, b *conn) int { return cmp.Compare(a.number, b.number) }

// restore sets watches again after a reconnect, unless they would have fired
// since a transaction: then it sends the notice.
func (m *member) restore(c *conn, d *decoder) {
	since := d.int64()
	data, exist, children := d.texts(), d.texts(), d.texts()
	tell := func(path string, what event) { c.tell(notice{path, what}) }
	for _, path := range data {
		switch n := m.tree.nodes[path]; {
		case n == nil:
			tell(path, deleted)
		case n.mzxid > since:
			tell(path, dataChanged)
		default:
			m.watches.add(spot{path, false}, c)
		}
	}
	for _, path := range exist {
		if m.tree.nodes[path] != nil {
			tell(path, created)
		} else {
			m.watches.add(spot{path, false}, c)
		}
	}
	for _, path := range children {
		switch n := m.tree.nodes[path]; {
		case n == nil:
			tell(path, deleted)
		case n.pzxid > since:
			tell(path, childrenChanged)
		default:
			m.watches.add(spot{path, true}, c)
		}
	}
}
