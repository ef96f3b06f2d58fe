package virtualzk

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// containerOwner is the owner of a container node.
const containerOwner = math.MinInt64

// Event is the kind of a notice of a watch.
type event int32

const (
	created         event = 1
	deleted         event = 2
	dataChanged     event = 3
	childrenChanged event = 4
)

// Change is one change of a node, a part of a transaction.
type Change struct {
	Op    Op
	Path  string
	Data  []byte // after it
	Owner int64  // of a created node: the session, or 0
	acl   []acl
}

// Op is the kind of a Change.
type Op int32

// The kinds of changes.
const (
	Create = Op(opCreate)
	Delete = Op(opDelete)
	Set    = Op(opSetData)
)

// node is a node of a tree. All but children is immutable data of the last
// change of each kind.
type node struct {
	data                []byte
	acl                 []acl
	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	version             int32
	creates             int32 // of children; the sequence numbers count it
	owner               int64
	children            map[string]struct{}
}

// tree is the nodes by path.
type tree struct {
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{} // by session
}

func newTree() *tree {
	t := &tree{nodes: map[string]*node{}, ephemerals: map[int64]map[string]struct{}{}}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		t.nodes[path] = &node{acl: anyone, children: map[string]struct{}{}}
		if path != "/" {
			t.nodes[parentOf(path)].children[nameOf(path)] = struct{}{}
		}
	}
	return t
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// apply applies a change that was checked. undo takes it back, if no other
// change came between.
func (t *tree) apply(c Change, zxid int64, at time.Time) (undo func()) {
	switch c.Op {
	case Create:
		return t.create(c, zxid, at.UnixMilli())
	case Delete:
		return t.remove(c, zxid)
	}
	n := t.nodes[c.Path]
	before := *n
	n.data, n.mzxid, n.mtime = c.Data, zxid, at.UnixMilli()
	n.version++
	return func() { *n = before }
}

func (t *tree) create(c Change, zxid, at int64) (undo func()) {
	parent := t.nodes[parentOf(c.Path)]
	before := *parent
	parent.children[nameOf(c.Path)] = struct{}{}
	// The count stops at its greatest value, and then the last change of the
	// children is not noted either.
	if next := parent.creates + 1; next > parent.creates {
		parent.creates, parent.pzxid = next, zxid
	}
	t.nodes[c.Path] = &node{
		data: c.Data, acl: c.acl, owner: c.Owner, children: map[string]struct{}{},
		czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: at, mtime: at,
	}
	t.own(c.Path, c.Owner, true)
	return func() {
		delete(t.nodes, c.Path)
		delete(parent.children, nameOf(c.Path))
		*parent = before
		t.own(c.Path, c.Owner, false)
	}
}

func (t *tree) remove(c Change, zxid int64) (undo func()) {
	parent, n := t.nodes[parentOf(c.Path)], t.nodes[c.Path]
	before := *parent
	delete(t.nodes, c.Path)
	delete(parent.children, nameOf(c.Path))
	parent.pzxid = max(parent.pzxid, zxid)
	t.own(c.Path, n.owner, false)
	return func() {
		t.nodes[c.Path] = n
		*parent = before
		parent.children[nameOf(c.Path)] = struct{}{}
		t.own(c.Path, n.owner, true)
	}
}

// own notes that a session has an ephemeral node, or no more.
func (t *tree) own(path string, session int64, does bool) {
	switch {
	case session == 0 || session == containerOwner:
	case !does:
		delete(t.ephemerals[session], path)
	default:
		if t.ephemerals[session] == nil {
			t.ephemerals[session] = map[string]struct{}{}
		}
		t.ephemerals[session][path] = struct{}{}
	}
}

// ephemeral returns the paths of a session's nodes, sorted.
func (t *tree) ephemeral(session int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[session]))
}

// emptyContainers returns the paths of those that have had a child.
func (t *tree) emptyContainers() []string {
	var all []string
	for path, n := range t.nodes {
		if n.owner == containerOwner && n.creates > 0 && len(n.children) == 0 {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

// names returns the names of a node's children. ZooKeeper does not sort them.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.children)) }

// appendStat appends a node's Stat. Its count of changes of the children is
// that of creations and deletions.
func (n *node) appendStat(b []byte) []byte {
	b = appendInt64(appendInt64(b, n.czxid), n.mzxid)
	b = appendInt64(appendInt64(b, n.ctime), n.mtime)
	b = appendInt32(appendInt32(b, n.version), 2*n.creates-int32(len(n.children)))
	owner := n.owner
	if owner == containerOwner { // which is hidden
		owner = 0
	}
	b = appendInt64(appendInt32(b, 0), owner)
	b = appendInt32(appendInt32(b, int32(len(n.data))), int32(len(n.children)))
	return appendInt64(b, n.pzxid)
}

// notices are the watches that a change fires, in order.
func (c Change) notices() []notice {
	parent := notice{parentOf(c.Path), childrenChanged}
	switch c.Op {
	case Create:
		return []notice{{c.Path, created}, parent}
	case Delete:
		return []notice{{c.Path, deleted}, parent}
	}
	return []notice{{c.Path, dataChanged}}
}
