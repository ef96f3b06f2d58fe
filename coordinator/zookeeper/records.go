package zookeeper

import (
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
	opCreate2 = 15
)

func appendInt(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(appendInt(b, int32(len(s))), s...)
}

// appendData appends a byte array, which may be none.
func appendData(b, data []byte) []byte {
	if data == nil {
		return appendInt(b, -1)
	}
	return appendString(b, data)
}

// appendMulti appends a transaction with its kind. It is not ok with an operation that is not among those of this file.
func appendMulti(b []byte, ops []any) (_ []byte, ok bool) {
	b = appendInt(b, opMulti)
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			b = appendCreate(appendOp(b, opCreate), op)
		case *zk.DeleteRequest:
			b = appendDelete(appendOp(b, opDelete), op.Path, op.Version)
		case *zk.SetDataRequest:
			b = appendString(appendOp(b, opSetData), op.Path)
			b = appendInt(appendData(b, op.Data), op.Version)
		case *zk.CheckVersionRequest:
			b = appendInt(appendString(appendOp(b, opCheck), op.Path), op.Version)
		default:
			return nil, false
		}
	}
	return appendInt(append(appendInt(b, -1), 1), -1), true
}

// appendOp appends what is before each operation of a transaction: its kind, that it is not the end, and no error.
func appendOp(b []byte, kind int32) []byte { return appendInt(append(appendInt(b, kind), 0), -1) }

func appendCreate(b []byte, op *zk.CreateRequest) []byte {
	b = appendInt(appendData(appendString(b, op.Path), op.Data), int32(len(op.Acl)))
	for _, acl := range op.Acl {
		b = appendString(appendString(appendInt(b, acl.Perms), acl.Scheme), acl.ID)
	}
	return appendInt(b, op.Flags)
}

func appendDelete(b []byte, node string, version int32) []byte {
	return appendInt(appendString(b, node), version)
}

var errRecord = errors.New("zookeeper: unexpected reply to a transaction")

// readMulti reads the reply to a transaction, like the Conn does: the error is the first of the results'.
func readMulti(b []byte, err error) ([]zk.MultiResponse, error) {
	if err != nil {
		return nil, err
	}
	r := record{b}
	var results []zk.MultiResponse
	for {
		kind, done, _ := r.int(), r.byte(), r.int()
		if done != 0 && !r.short() {
			return results, err
		}
		var m zk.MultiResponse
		switch kind {
		case opError:
			m.Error = codeError(r.int())
		case opCreate:
			m.String = r.text()
		case opSetData:
			stat := r.stat()
			m.Stat = &stat
		case opCheck, opDelete:
		default:
			return nil, errRecord
		}
		if r.short() {
			return nil, errRecord
		}
		if err == nil {
			err = m.Error
		}
		results = append(results, m)
	}
}

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
