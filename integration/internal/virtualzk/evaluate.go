package virtualzk

import (
	"fmt"
	"strings"
	"time"
)

// request is a request that writes, at the leader.
type request struct {
	session int64
	member  int // from which it comes
	who     []identity
	op      int32
	body    []byte
	by      Cause
}

// Txn is a committed transaction: what a request has changed. One that failed
// has changed nothing.
type Txn struct {
	Zxid    int64
	Op      string // of the request
	Session int64  // that sent it
	By      Cause
	Changes []Change
	Closes  int64 // the session that it ends, or 0

	opens *session // that it begins, or nil
	at    time.Time
	code  int32 // of the reply
	body  []byte
}

// Cause is the origin of a transaction.
type Cause string

// The causes.
const (
	ByClient   Cause = "client"   // a request of the session
	ByClock    Cause = "clock"    // the session's timeout, or the service's clean-up
	ByOperator Cause = "operator" // a method of Ensemble
	// ByShortening is the clock of a session that a member has shortened as it
	// continued there, if its client has not got the reply that says so.
	ByShortening Cause = "shortening"
)

var opNames = map[int32]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "getData",
	opSetData: "setData", opGetChildren: "getChildren", opSync: "sync", opPing: "ping",
	opGetChildren2: "getChildren2", opCheck: "check", opMulti: "multi", opCreate2: "create2",
	opCreateContainer: "createContainer", opAuth: "auth", opSetWatches: "setWatches",
	opSetWatches2: "setWatches2", opCreateSession: "createSession", opCloseSession: "closeSession",
}

// evaluation is the evaluation of one request at the leader. It applies each
// change to the leader's tree at once, since the next operation of the request
// must see it, and takes them back if a later one fails.
type evaluation struct {
	*Ensemble
	request
	txn  *Txn
	undo []func()
	// counts are the sequence counters of parents of nodes created so far,
	// which go on where a tree's stop.
	counts map[string]int32
}

// evaluate evaluates a request, and returns its transaction. The leader gives
// failures a number, too.
func (e *Ensemble) evaluate(r request) *Txn {
	e.zxid++
	v := &evaluation{
		Ensemble: e, request: r, counts: map[string]int32{},
		txn: &Txn{Zxid: e.zxid, Op: opNames[r.op], Session: r.session, By: r.by, at: time.Now()},
	}
	d := &decoder{b: r.body}
	switch r.op {
	case opMulti:
		v.txn.body = v.multi(d)
	case opCloseSession:
		v.txn.Closes = r.session
		for _, path := range e.head.ephemeral(r.session) {
			v.apply(Change{Op: Delete, Path: path})
		}
	default:
		v.txn.body, v.txn.code = v.one(r.op, d)
	}
	return v.txn
}

func (v *evaluation) apply(c Change) {
	v.undo = append(v.undo, v.head.apply(c, v.txn.Zxid, v.txn.at))
	v.txn.Changes = append(v.txn.Changes, c)
}

func (v *evaluation) rollBack() {
	for i := len(v.undo) - 1; i >= 0; i-- {
		v.undo[i]()
	}
	v.undo, v.txn.Changes = nil, nil
}

// multi evaluates operations up to one that fails, and then none has changed
// anything. The reply has a result for each.
func (v *evaluation) multi(d *decoder) []byte {
	type result struct {
		op   int32
		body []byte
		code int32
	}
	var results []result
	failed := false
	for {
		op, done, _ := d.int32(), d.bool(), d.int32()
		if done || d.bad {
			break
		}
		if op == opCreate2 {
			op = opCreate // the result of one in a transaction has no Stat
		}
		body, code := v.one(op, d)
		if failed {
			code = codeInconsistency
		} else if code != 0 {
			failed = true
			v.rollBack()
			if code == codeSessionMoved {
				v.txn.code = code
			}
		}
		results = append(results, result{op, body, code})
	}
	if failed {
		v.rollBack() // of those after the failure
	}
	header := func(b []byte, op int32, done bool, code int32) []byte {
		return appendInt32(appendBool(appendInt32(b, op), done), code)
	}
	var b []byte
	for _, r := range results {
		if failed {
			b = appendInt32(header(b, opError, false, r.code), r.code)
		} else {
			b = append(header(b, r.op, false, 0), r.body...)
		}
	}
	return header(b, -1, true, -1)
}

// one evaluates one operation. It reads it as a whole, also if it fails.
func (v *evaluation) one(op int32, d *decoder) (body []byte, code int32) {
	switch op {
	case opCreate, opCreate2, opCreateContainer:
		return v.create(op, d.text(), d.bytes(), d.acls(), d.int32())
	case opSetData:
		return v.set(d.text(), d.bytes(), d.int32())
	case opDelete:
		return nil, v.delete(d.text(), d.int32())
	case opCheck:
		return nil, v.check(d.text(), d.int32(), permRead)
	}
	return nil, codeUnimplemented
}

func (v *evaluation) create(
	op int32, path string, data []byte, list []acl, flags int32,
) (body []byte, code int32) {
	const ephemeral, sequential, container = 1, 2, 4
	if flags < 0 || flags > container {
		return nil, codeBadArguments
	}
	if code := v.checkSession(v.session, v.member); code != 0 {
		return nil, code
	}
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) {
		return nil, codeBadArguments
	}
	if list = resolve(list, v.who); list == nil {
		return nil, codeInvalidACL
	}
	above := parentOf(path)
	parent := v.head.nodes[above]
	switch {
	case parent == nil:
		return nil, codeNoNode
	case !allows(parent.acl, permCreate, v.who):
		return nil, codeNoAuth
	}
	count, counted := v.counts[above]
	if !counted {
		count = parent.creates
	}
	if flags&sequential != 0 {
		path += fmt.Sprintf("%010d", count)
	}
	switch {
	case !valid(path):
		return nil, codeBadArguments
	case v.head.nodes[path] != nil:
		return nil, codeNodeExists
	case parent.owner != 0 && parent.owner != containerOwner:
		return nil, codeEphemeralParent
	}
	v.counts[above] = count + 1
	c := Change{Op: Create, Path: path, Data: data, acl: list}
	switch {
	case flags == container:
		c.Owner = containerOwner
	case flags&ephemeral != 0:
		c.Owner = v.session
	}
	v.apply(c)
	if body = appendText(nil, path); op != opCreate {
		body = v.head.nodes[path].appendStat(body)
	}
	return body, 0
}

// valid reports whether a path is absolute, without empty, "." and ".."
// segments.
func valid(path string) bool {
	if path == "/" {
		return true
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}

func (v *evaluation) set(path string, data []byte, version int32) (body []byte, code int32) {
	if code := v.check(path, version, permWrite); code != 0 {
		return nil, code
	}
	v.apply(Change{Op: Set, Path: path, Data: data})
	return v.head.nodes[path].appendStat(nil), 0
}

func (v *evaluation) delete(path string, version int32) (code int32) {
	if code := v.checkSession(v.session, v.member); code != 0 {
		return code
	}
	if path == "/" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") ||
		!strings.Contains(path, "/") || strings.ContainsRune(path, 0) {
		return codeBadArguments
	}
	parent, n := v.head.nodes[parentOf(path)], v.head.nodes[path]
	switch {
	case parent == nil:
		return codeNoNode
	case !allows(parent.acl, permDelete, v.who):
		return codeNoAuth
	case n == nil:
		return codeNoNode
	case version != -1 && version != n.version:
		return codeBadVersion
	case len(n.children) > 0:
		return codeNotEmpty
	}
	v.apply(Change{Op: Delete, Path: path})
	return 0
}

// check checks that a node has a version, -1 for any, and that the client has a
// permission.
func (v *evaluation) check(path string, version, perm int32) (code int32) {
	if code := v.checkSession(v.session, v.member); code != 0 {
		return code
	}
	n := v.head.nodes[path]
	switch {
	case !valid(path):
		return codeBadArguments
	case n == nil:
		return codeNoNode
	case !allows(n.acl, perm, v.who):
		return codeNoAuth
	case version != -1 && version != n.version:
		return codeBadVersion
	}
	return 0
}
