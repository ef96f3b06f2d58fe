package zookeeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// This file writes and reads the records of the requests that go by the lane, in ZooKeeper's serialization: numbers in network order,
// strings and byte arrays after their length, -1 for none.

const (
	opError   = -1
	opCreate  = 1
	opDelete  = 2
	opSetData = 5
	opCheck   = 13
	opMulti   = 14
)

func appendInt(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(appendInt(b, int32(len(s))), s...)
}

// newRequest begins a request of a kind, with room for its length and number, and for texts and data of so many bytes.
func newRequest(kind int32, size int) []byte {
	const rest = 128 // lengths, versions, the access list that is usual
	return appendInt(make([]byte, 8, rest+size), kind)
}

// appendData appends a byte array, which may be none.
func appendData(b, data []byte) []byte {
	if data == nil {
		return appendInt(b, -1)
	}
	return appendString(b, data)
}

// operation is one of a transaction.
type operation struct {
	kind int32
	path string
	data []byte
	n    int32 // the flags of a node that is made; else the version that is wanted, -1 for any
}

// requestsOf are operations as the Conn takes them. They may outlive the call that they are made for.
func requestsOf(ops []operation, acl []zk.ACL) []any {
	requests := make([]any, len(ops))
	for i, op := range ops {
		switch op.kind {
		case opCreate:
			requests[i] = &zk.CreateRequest{Path: op.path, Data: bytes.Clone(op.data), Acl: acl, Flags: op.n}
		case opDelete:
			requests[i] = &zk.DeleteRequest{Path: op.path, Version: op.n}
		case opSetData:
			requests[i] = &zk.SetDataRequest{Path: op.path, Data: bytes.Clone(op.data), Version: op.n}
		case opCheck:
			requests[i] = &zk.CheckVersionRequest{Path: op.path, Version: op.n}
		}
	}
	return requests
}

// appendMulti appends a transaction with its kind.
func appendMulti(b []byte, ops []operation, acl []zk.ACL) []byte {
	b = appendInt(b, opMulti)
	for _, op := range ops {
		b = appendInt(append(appendInt(b, op.kind), 0), -1) // not the end, no error
		switch op.kind {
		case opCreate:
			b = appendCreate(b, op.path, op.data, acl, op.n)
		case opSetData:
			b = appendInt(appendData(appendString(b, op.path), op.data), op.n)
		case opDelete, opCheck:
			b = appendVersion(b, op.path, op.n)
		}
	}
	return appendInt(append(appendInt(b, -1), 1), -1)
}

func appendCreate(b []byte, node string, data []byte, acl []zk.ACL, flags int32) []byte {
	b = appendInt(appendData(appendString(b, node), data), int32(len(acl)))
	for _, acl := range acl {
		b = appendString(appendString(appendInt(b, acl.Perms), acl.Scheme), acl.ID)
	}
	return appendInt(b, flags)
}

// appendVersion appends a node and its version, of which a request to delete or to check it consists.
func appendVersion(b []byte, node string, version int32) []byte {
	return appendInt(appendString(b, node), version)
}

// outcome is what the reply to a transaction says.
type outcome struct {
	count  int       // of operations
	failed int       // which one has failed, counted from 1; 0 if the reply does not say
	made   [2]string // the first nodes that were made
	stat   zk.Stat   // of the last node that was written to
}

// add adds what it says of the next operation. Those before one that has failed have no error, since they would have succeeded; those after
// it have one that says that they were not tried.
func (o *outcome) add(made string, stat *zk.Stat, err error) {
	o.count++
	if err != nil && o.failed == 0 {
		o.failed = o.count
	}
	if stat != nil {
		o.stat = *stat
	}
	if o.made[0] == "" {
		o.made[0] = made
	} else if o.made[1] == "" {
		o.made[1] = made
	}
}

// outcomeOf is what the Conn has read.
func outcomeOf(results []zk.MultiResponse) (o outcome) {
	for _, r := range results {
		o.add(r.String, r.Stat, r.Error)
	}
	return o
}

var errRecord = errors.New("zookeeper: unexpected reply to a transaction")

// readMulti reads the reply to a transaction, like the Conn does: the error is the first of the operations'.
func readMulti(b []byte, err error) (o outcome, _ error) {
	if err != nil {
		return o, err
	}
	r := record{b}
	for {
		kind, done, _ := r.int(), r.byte(), r.int()
		if done != 0 && !r.short() {
			return o, err
		}
		var failure error
		switch kind {
		case opError:
			failure = codeError(r.int())
			o.add("", nil, failure)
		case opCreate:
			o.add(r.text(), nil, nil)
		case opSetData:
			stat := r.stat()
			o.add("", &stat, nil)
		case opCheck, opDelete:
			o.add("", nil, nil)
		default:
			return outcome{}, errRecord
		}
		if r.short() {
			return outcome{}, errRecord
		}
		if err == nil {
			err = failure
		}
	}
}

// readNothing reads a reply without a body.
func readNothing(_ []byte, err error) (struct{}, error) { return struct{}{}, err }

// record is what is left to read of a reply; nil if there was less than was read.
type record struct{ left []byte }

func (r *record) short() bool { return r.left == nil }

func (r *record) next(n int) []byte {
	if n < 0 || n > len(r.left) {
		r.left = nil
		return make([]byte, 8)
	}
	var b []byte
	b, r.left = r.left[:n], r.left[n:]
	return b
}

func (r *record) byte() byte   { return r.next(1)[0] }
func (r *record) int() int32   { return int32(binary.BigEndian.Uint32(r.next(4))) }
func (r *record) long() int64  { return int64(binary.BigEndian.Uint64(r.next(8))) }
func (r *record) text() string { return string(r.next(int(r.int()))) }

func (r *record) stat() zk.Stat {
	return zk.Stat{
		Czxid: r.long(), Mzxid: r.long(), Ctime: r.long(), Mtime: r.long(), Version: r.int(), Cversion: r.int(), Aversion: r.int(),
		EphemeralOwner: r.long(), DataLength: r.int(), NumChildren: r.int(), Pzxid: r.long(),
	}
}

// codeErrors are the Conn's words for the service's codes.
var codeErrors = map[int32]error{
	-8: zk.ErrBadArguments, -100: zk.ErrAPIError, -101: zk.ErrNoNode, -102: zk.ErrNoAuth, -103: zk.ErrBadVersion,
	-108: zk.ErrNoChildrenForEphemerals, -110: zk.ErrNodeExists, -111: zk.ErrNotEmpty, -112: zk.ErrSessionExpired,
	-114: zk.ErrInvalidACL, -115: zk.ErrAuthFailed, -116: zk.ErrClosing, -117: zk.ErrNothing, -118: zk.ErrSessionMoved,
	-123: zk.ErrReconfigDisabled,
}

func codeError(code int32) error {
	if code == 0 {
		return nil
	}
	if err, ok := codeErrors[code]; ok {
		return err
	}
	return fmt.Errorf("unknown error: %d", code) // as the Conn says it, see code
}
