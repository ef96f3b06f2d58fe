package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// request is a transaction and its answer. Those that are sent most are the first part of a piece of memory that has all parts of the
// request, each of which would be an allocation, or several.
type request struct {
	req  pb.TxnRequest
	resp pb.TxnResponse
}

// cond compares a revision of a key, or of all keys from key to before end, unless that is empty. Both begin with stem.
type cond struct {
	stem, key, end string
	mod            int64 // the mod revision
	newer          bool  // the key's is above mod
	made           int64 // the create revision, without mod; 0 says that there is no such key
}

const mostConds = 4

func unchanged(key string, mod int64) cond { return cond{key: key, mod: mod} }

func absent(prefix string) cond { return cond{key: prefix, end: clientv3.GetPrefixRangeEnd(prefix)} }

// fill writes the condition, and its keys into memory that is there for several.
func (c cond) fill(to *pb.Compare, keys *text) {
	to.Key, to.Result = keys.add(c.stem, c.key), pb.Compare_EQUAL
	if c.end != "" {
		to.RangeEnd = keys.add(c.stem, c.end)
	}
	if c.newer {
		to.Result = pb.Compare_GREATER
	}
	switch {
	case c.mod != 0:
		to.Target, to.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: c.mod}
	case c.made != 0:
		to.Target, to.TargetUnion = pb.Compare_CREATE, &pb.Compare_CreateRevision{CreateRevision: c.made}
	default:
		to.Target, to.TargetUnion = pb.Compare_CREATE, neverMade
	}
}

// neverMade is part of many requests, and nobody writes to it.
var neverMade = &pb.Compare_CreateRevision{}

// text is memory for keys.
type text []byte

// newText has room for the keys of conditions and more.
func newText(conds []cond, more int) text {
	for _, c := range conds {
		more += 2*len(c.stem) + len(c.key) + len(c.end)
	}
	return make(text, 0, more)
}

func (t *text) add(stem, rest string) []byte {
	n := len(*t)
	*t = append(append(*t, stem...), rest...)
	return (*t)[n:len(*t):len(*t)]
}

// ifs has room for the conditions of a request.
type ifs struct {
	list [mostConds]*pb.Compare
	of   [mostConds]pb.Compare
}

func (i *ifs) fill(conds []cond, keys *text) []*pb.Compare {
	for n, c := range conds {
		i.list[n] = &i.of[n]
		c.fill(i.list[n], keys)
	}
	return i.list[:len(conds)]
}

// compares are conditions for clientv3's builders. Its own Compare makes more copies.
func compares(conds []cond) []clientv3.Cmp {
	cmps, keys := make([]clientv3.Cmp, len(conds)), newText(conds, 0)
	for i, c := range conds {
		c.fill(cmps[i].GetCompare(), &keys)
	}
	return cmps
}

// putOp is one part of a request.
type putOp struct {
	op  pb.RequestOp
	of  pb.RequestOp_RequestPut
	req pb.PutRequest
}

func (p *putOp) fill(key, value []byte, lease clientv3.LeaseID) *pb.RequestOp {
	p.req.Key, p.req.Value, p.req.Lease = key, value, int64(lease)
	p.of.RequestPut, p.op.Request = &p.req, &p.of
	return &p.op
}

// dropOp is the delete of one key, as part of a request.
type dropOp struct {
	op  pb.RequestOp
	of  pb.RequestOp_RequestDeleteRange
	req pb.DeleteRangeRequest
}

func (d *dropOp) fill(key []byte) *pb.RequestOp {
	d.req.Key = key
	d.of.RequestDeleteRange, d.op.Request = &d.req, &d.of
	return &d.op
}

// txnOp is a transaction as part of another.
type txnOp struct {
	op  pb.RequestOp
	of  pb.RequestOp_RequestTxn
	req pb.TxnRequest
}

func (t *txnOp) fill() *pb.RequestOp {
	t.of.RequestTxn, t.op.Request = &t.req, &t.of
	return &t.op
}

// readOps are reads of keys without values as parts of a request.
func readOps(reads []clientv3.Op) []*pb.RequestOp {
	ops := make([]*pb.RequestOp, len(reads))
	for i, r := range reads {
		to := &struct {
			op  pb.RequestOp
			of  pb.RequestOp_RequestRange
			req pb.RangeRequest
		}{}
		to.req.Key, to.req.RangeEnd, to.req.Limit, to.req.KeysOnly = r.KeyBytes(), r.RangeBytes(), r.Limit(), true
		to.of.RequestRange, to.op.Request = &to.req, &to.of
		ops[i] = &to.op
	}
	return ops
}

// entering puts a key with a lease if all conditions hold, of which there are mostConds at most.
func entering(conds []cond, key string, value []byte, lease clientv3.LeaseID) *request {
	e := &struct {
		request
		ifs  ifs
		then [1]*pb.RequestOp
		put  putOp
	}{}
	keys := newText(conds, len(key))
	e.req.Compare = e.ifs.fill(conds, &keys)
	e.then[0] = e.put.fill(keys.add(key, ""), value, lease)
	e.req.Success = e.then[:]
	return &e.request
}
