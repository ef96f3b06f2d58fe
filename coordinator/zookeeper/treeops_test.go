package zookeeper

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"
)

// This file has the operations of a tree, on the wire format.

const (
	opExists          = 3
	opSet             = 5
	opCreateContainer = 19
	opSetWatches      = 101
)

const (
	noNode     zk.ErrCode = -101
	noAuth     zk.ErrCode = -102
	badVersion zk.ErrCode = -103
	nodeExists zk.ErrCode = -110
	notEmpty   zk.ErrCode = -111
)

// fields reads a request.
type fields struct{ b []byte }

func (r *fields) number() int32 {
	v := int32(binary.BigEndian.Uint32(r.b))
	r.b = r.b[4:]
	return v
}

func (r *fields) flag() bool {
	v := r.b[0] != 0
	r.b = r.b[1:]
	return v
}

func (r *fields) text() string {
	n := max(0, r.number())
	v := string(r.b[:n])
	r.b = r.b[n:]
	return v
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func (tr *tree) stat(node string) []byte {
	n, b := tr.nodes[node], make([]byte, 68)
	binary.BigEndian.PutUint64(b, uint64(n.czxid))
	binary.BigEndian.PutUint64(b[8:], uint64(n.mzxid))
	binary.BigEndian.PutUint32(b[32:], uint32(n.version))
	binary.BigEndian.PutUint64(b[44:], uint64(n.owner))
	binary.BigEndian.PutUint32(b[56:], uint32(len(tr.children(node))))
	return b
}

// create makes a node. Parents must be there.
func (tr *tree) create(node string, data []byte, flags int32) (string, zk.ErrCode) {
	above, ok := tr.nodes[strings.TrimSuffix(path.Dir(node), "/")]
	if !ok {
		return "", noNode
	}
	if flags&zk.FlagSequence != 0 && flags != zk.FlagContainer {
		node += fmt.Sprintf("%010d", above.creates)
	}
	if _, ok := tr.nodes[node]; ok {
		return "", nodeExists
	}
	above.creates++
	tr.nodes[strings.TrimSuffix(path.Dir(node), "/")] = above
	made := treeNode{data: data, czxid: tr.zxid, mzxid: tr.zxid}
	if flags == zk.FlagEphemeral || flags == zk.FlagEphemeralSequential {
		made.owner = tr.session
	}
	tr.nodes[node] = made
	return node, 0
}

// change applies one operation that writes.
func (tr *tree) change(op int32, r *fields) (body []byte, notices []notice, code zk.ErrCode) {
	node := strings.TrimSuffix(r.text(), "/")
	n, ok := tr.nodes[node]
	switch op {
	case opCreate, opCreateContainer:
		data := r.text()
		for range r.number() {
			r.number()
			r.text()
			r.text()
		}
		made, code := tr.create(node, []byte(data), r.number())
		return appendText(nil, made), []notice{{made, zk.EventNodeCreated}, {path.Dir(node), zk.EventNodeChildrenChanged}}, code
	case opSet:
		data, version := r.text(), r.number()
		if code := checked(ok, version, n.version); code != 0 {
			return nil, nil, code
		}
		n.data, n.version, n.mzxid = []byte(data), n.version+1, tr.zxid
		tr.nodes[node] = n
		return tr.stat(node), []notice{{node, zk.EventNodeDataChanged}}, 0
	case opDelete:
		if code := checked(ok, r.number(), n.version); code != 0 {
			return nil, nil, code
		}
		if len(tr.children(node)) > 0 {
			return nil, nil, notEmpty
		}
		delete(tr.nodes, node)
		return nil, []notice{{node, zk.EventNodeDeleted}, {path.Dir(node), zk.EventNodeChildrenChanged}}, 0
	case opCheck:
		return nil, nil, checked(ok, r.number(), n.version)
	}
	panic(fmt.Sprint("request with code ", op))
}

func checked(there bool, want, have int32) zk.ErrCode {
	switch {
	case !there:
		return noNode
	case want != -1 && want != have:
		return badVersion
	}
	return 0
}

// multi applies all operations or none.
func (tr *tree) multi(r *fields) []byte {
	const failed, untried = -1, -2
	tr.zxid++
	before := maps.Clone(tr.nodes)
	var ok, refused []byte
	var notices []notice
	broken := false
	header := func(b []byte, op int32, done byte) []byte {
		return append(append(binary.BigEndian.AppendUint32(b, uint32(op)), done), 0, 0, 0, 0)
	}
	for {
		op, done, _ := r.number(), r.flag(), r.number()
		if done {
			break
		}
		code := zk.ErrCode(untried)
		body, sent, outcome := tr.change(op, r)
		if !broken {
			code, broken = outcome, outcome != 0
		}
		ok = append(header(ok, op, 0), body...)
		refused = binary.BigEndian.AppendUint32(header(refused, failed, 0), uint32(code))
		notices = append(notices, sent...)
	}
	if broken {
		tr.nodes = before
		return header(refused, failed, 1)
	}
	tr.notify(notices...)
	return header(ok, failed, 1)
}
