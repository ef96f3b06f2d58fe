package onetcd

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// asked is what a request asks for, as far as its keys show it.
type asked struct {
	op          string
	session, id string
	queue       string
	contenders  int // how many contenders it concerns
}

// The kinds of requests.
const (
	opGrant     = "grant"
	opRevoke    = "revoke"
	opKeepAlive = "keep-alive"
	opWatch     = "watch"
	opRead      = "read"
	opSentinel  = "sentinel" // the beginning of a session
	opJoin      = "join"
	opConvert   = "convert"
	opWrite     = "write"
	opLeave     = "leave"
	opForget    = "forget"
	opRecord    = "set-record"
)

// ask reads a request.
func ask(msg any) (a asked) {
	switch r := msg.(type) {
	case *pb.LeaseGrantRequest:
		a.op = opGrant
	case *pb.LeaseRevokeRequest:
		a.op, a.session = opRevoke, hex(r.ID)
	case *pb.LeaseKeepAliveRequest:
		a.op, a.session = opKeepAlive, hex(r.ID)
	case *pb.WatchCreateRequest:
		a.op = opWatch // its key is that of another contender
	case *pb.RangeRequest:
		a.op = opRead
	case *pb.DeleteRangeRequest:
		a.deletes(r)
	case *pb.PutRequest:
		a.puts(r)
	case *pb.TxnRequest:
		a.op = opRead
		a.txn(r)
	}
	return a
}

func hex(lease int64) string { return fmt.Sprintf("%016x", uint64(lease)) }

// txn reads the operations of a transaction, whose first write says what it is.
func (a *asked) txn(r *pb.TxnRequest) {
	for _, op := range append(r.Success, r.Failure...) {
		switch {
		case op.GetRequestTxn() != nil:
			a.txn(op.GetRequestTxn())
		case op.GetRequestPut() != nil:
			a.puts(op.GetRequestPut())
		case op.GetRequestDeleteRange() != nil:
			a.deletes(op.GetRequestDeleteRange())
		}
	}
}

func (a *asked) puts(r *pb.PutRequest) {
	key := string(r.Key)
	if queue, is := recordOf(key); is {
		a.op, a.queue = opRecord, string(queue)
		return
	}
	n, ok := parse(key)
	switch {
	case !ok:
		if len(key) > len(sessions) && key[:len(sessions)] == sessions && a.op == opRead {
			a.op, a.session = opSentinel, key[len(sessions):len(sessions)+16]
		}
	case n.marker || n.id == "":
	case r.IgnoreLease:
		a.about(opWrite, n)
	case n.rank > 0:
		a.about(opConvert, n)
	default:
		a.about(opJoin, n)
	}
}

func (a *asked) deletes(r *pb.DeleteRangeRequest) {
	n, ok := parse(string(r.Key))
	switch {
	case !ok || n.marker:
	case len(r.RangeEnd) > 0:
		if n = prefixed(string(r.Key)); n.id != "" {
			a.about(opForget, n)
		}
	case n.id != "":
		a.about(opLeave, n)
	}
}

// prefixed reads the key of a contender without its mode.
func prefixed(key string) named {
	if key == "" || key[len(key)-1] != '-' {
		return named{}
	}
	n, _ := parse(key + "x")
	return n
}

// about notes that a request concerns a contender. A conversion deletes the old
// entry first.
func (a *asked) about(op string, n named) {
	if n.id != a.id {
		a.contenders++
	}
	a.session, a.id, a.queue = n.session, n.id, string(n.queue)
	if a.op == opRead || a.op == "" || a.op == opSentinel || op == opConvert {
		a.op = op
	}
}
