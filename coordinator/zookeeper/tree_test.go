package zookeeper

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
)

// tree is a small ZooKeeper behind a fake: nodes with versions, transactions,
// sequence numbers, and watches that fire once, before the reply to any later
// request. A session ends when that is asked for.
type tree struct {
	mu      sync.Mutex
	zxid    int64
	session int64 // of the request that is applied
	nodes   map[string]treeNode
	watches map[spot]map[*peer]bool
	notices []notice                             // sent so far
	script  func(op int32, node string) treeFate // called before a request is applied, without the lock
	late    []func()
	peers   map[*peer]bool  // true: see stall
	owners  map[int64]*peer // of the sessions: the latest connection
	silent  map[*peer]bool
}

type treeNode struct {
	data         []byte
	czxid, mzxid int64
	version      int32
	creates      int32 // of children
	owner        int64 // the session of an ephemeral node
}

// spot is the subject of a watch: a node, or its children.
type spot struct {
	node     string
	children bool
}

// notice is a watch event.
type notice struct {
	path string
	kind zk.EventType
}

func (n notice) message() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+8+4+4+4+4+len(n.path)))
	b = binary.BigEndian.AppendUint32(b, 1<<32-1) // xid -1: a notice
	b = binary.BigEndian.AppendUint64(b, 1<<64-1) // of no transaction
	b = binary.BigEndian.AppendUint32(b, 0)       // no error
	b = binary.BigEndian.AppendUint32(b, uint32(n.kind))
	b = binary.BigEndian.AppendUint32(b, uint32(zk.StateSyncConnected))
	return appendText(b, n.path)
}

// treeFate says what happens to a request.
type treeFate struct {
	lost bool // it is not applied
	cut  bool // its connection breaks, without a reply
	late bool // it is not applied until deliver
	mute bool // it is applied, and gets no reply
	// silent: the connection has no reply any more, as a real one after a reply
	// that is missing; deaf: nothing it sends is applied, either
	silent, deaf bool
	code         zk.ErrCode // it is the reply's code
}

func plant(f *fake) *tree {
	tr := &tree{
		nodes:   map[string]treeNode{"": {}, "/app": {}, "/app/~": {}, "/app/~/m": {}},
		watches: map[spot]map[*peer]bool{}, peers: map[*peer]bool{},
		owners: map[int64]*peer{}, silent: map[*peer]bool{},
	}
	f.set(func() { f.tree = tr })
	return tr
}

// openTree opens a session on a tree, in virtual time.
func openTree(t *testing.T) (*fake, *tree, *session) {
	t.Helper()
	f := newPipes(t)
	tr := plant(f)
	return f, tr, openFake(t, f, testTTL)
}

// stall has the server of the present connections apply nothing any more: it
// sends no events and answers no write and no sync, but pings and reads.
func (tr *tree) stall() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for p := range tr.peers {
		tr.peers[p] = true
	}
}

func (tr *tree) on(script func(op int32, node string) treeFate) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.script = script
}

// put creates a node or writes to it, and remove deletes one, as another
// client.
func (tr *tree) put(node, data string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.zxid++
	if n, ok := tr.nodes[node]; ok {
		n.data, n.version, n.mzxid = []byte(data), n.version+1, tr.zxid
		tr.nodes[node] = n
		tr.notify(notice{node, zk.EventNodeDataChanged})
		return
	}
	if _, code := tr.create(node, []byte(data), 0); code != 0 {
		panic(fmt.Sprint("put ", node, ": ", code))
	}
	tr.notify(notice{node, zk.EventNodeCreated}, notice{path.Dir(node), zk.EventNodeChildrenChanged})
}

func (tr *tree) remove(node string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if _, ok := tr.nodes[node]; !ok {
		return
	}
	tr.zxid++
	delete(tr.nodes, node)
	tr.notify(notice{node, zk.EventNodeDeleted}, notice{path.Dir(node), zk.EventNodeChildrenChanged})
}

func (tr *tree) list(node string) []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.children(node)
}

func (tr *tree) children(node string) []string {
	var names []string
	for _, p := range slices.Sorted(maps.Keys(tr.nodes)) {
		if name, ok := strings.CutPrefix(p, node+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// watched is the number of watches, notified the number of notices sent.
func (tr *tree) watched() (n int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, peers := range tr.watches {
		n += len(peers)
	}
	return n
}

func (tr *tree) notified() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.notices)
}

func (tr *tree) join(p *peer) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.peers[p], tr.owners[p.session] = false, p
}

func (tr *tree) leave(p *peer) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.peers, p)
	delete(tr.silent, p)
	for _, peers := range tr.watches {
		delete(peers, p)
	}
}

func (tr *tree) notify(notices ...notice) {
	for _, n := range notices {
		for _, s := range []spot{{n.path, false}, {n.path, true}} {
			if s.children && n.kind != zk.EventNodeChildrenChanged && n.kind != zk.EventNodeDeleted ||
				!s.children && n.kind == zk.EventNodeChildrenChanged {
				continue
			}
			for p := range tr.watches[s] {
				if tr.peers[p] {
					continue
				}
				p.send(n.message())
				tr.notices = append(tr.notices, n)
			}
			delete(tr.watches, s)
		}
	}
}

func (tr *tree) watch(p *peer, s spot, wanted bool) {
	if !wanted {
		return
	}
	if tr.watches[s] == nil {
		tr.watches[s] = map[*peer]bool{}
	}
	tr.watches[s][p] = true
}

// answer applies and answers request m. It keeps the lock until the reply is
// sent: a watch that the request set must not fire before.
func (tr *tree) answer(p *peer, op int32, m []byte) {
	r := &fields{m[12:]}
	var fate treeFate
	tr.mu.Lock()
	script := tr.script
	tr.mu.Unlock()
	if script != nil && op != opPing && op != opCloseSession && op != opSetWatches {
		node := ""
		if op != opMulti {
			node = (&fields{m[12:]}).text()
		}
		fate = script(op, node)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var code zk.ErrCode
	var body []byte
	if tr.owners[p.session] != p {
		return // the session has moved
	}
	if tr.silent[p] = tr.silent[p] || fate.silent; fate.deaf {
		delete(tr.owners, p.session)
		return
	}
	switch {
	case tr.peers[p] && fate.code == 0 && !isRead(op):
		return
	case fate.code != 0:
		p.answer(op, m, fate.code, nil)
	case fate.late:
		tr.late = append(tr.late, func() { tr.apply(p, op, r) })
	case !fate.lost:
		code, body = tr.apply(p, op, r)
	}
	if fate.cut {
		_ = p.Close()
	}
	if fate == (treeFate{}) && !tr.silent[p] {
		p.answer(op, m, code, body)
	}
}

func isRead(op int32) bool {
	return op == opPing || op == opExists || op == opGet || op == opChildren
}

// deliver applies the late requests, which get no reply.
func (tr *tree) deliver() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, apply := range tr.late {
		apply()
	}
	tr.late = nil
}

func (tr *tree) apply(p *peer, op int32, r *fields) (zk.ErrCode, []byte) {
	tr.session = p.session
	switch op {
	case opCloseSession:
		for node, n := range tr.nodes {
			if n.owner == p.session {
				tr.zxid++
				delete(tr.nodes, node)
				tr.notify(notice{node, zk.EventNodeDeleted},
					notice{path.Dir(node), zk.EventNodeChildrenChanged})
			}
		}
		return 0, nil
	case opPing, opAuth, opSetWatches: // the last is sent for watches just set, if at all
		return 0, nil
	case opSync:
		return 0, appendText(nil, r.text())
	case opMulti:
		return 0, tr.multi(r)
	case opExists, opGet, opChildren:
		return tr.read(p, op, r)
	}
	tr.zxid++
	body, notices, code := tr.change(op, r)
	tr.notify(notices...)
	return code, body
}

func (tr *tree) read(p *peer, op int32, r *fields) (zk.ErrCode, []byte) {
	node := r.text()
	n, ok := tr.nodes[node]
	if wanted := r.flag(); ok || op == opExists {
		tr.watch(p, spot{node, op == opChildren}, wanted)
	}
	switch {
	case !ok:
		return noNode, nil
	case op == opExists:
		return 0, tr.stat(node)
	case op == opGet:
		return 0, append(appendText(nil, string(n.data)), tr.stat(node)...)
	}
	names := tr.children(node)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
	for _, name := range names {
		b = appendText(b, name)
	}
	return 0, append(b, tr.stat(node)...)
}
