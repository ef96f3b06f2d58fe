package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// wire sends the two requests of a lock that nobody else wants, the join of an empty line and the delete of its entry. They are most
// of what programs send.
type wire interface {
	// enter puts a key with a lease if all conditions hold, of which there are mostConds at most.
	enter(ctx context.Context, conds []cond, key string, value []byte, lease clientv3.LeaseID) (*clientv3.TxnResponse, error)
	delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error)
}

// cond compares a revision of a key, or of all keys from key to before end, unless that is empty. Both begin with stem.
type cond struct {
	stem, key, end string
	mod            int64 // the mod revision; 0 says that there is no such key
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
	if c.mod == 0 {
		to.Target, to.TargetUnion = pb.Compare_CREATE, neverMade
	} else {
		to.Target, to.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: c.mod}
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

// compares are conditions for clientv3's builders. Its own Compare makes more copies.
func compares(conds []cond) []clientv3.Cmp {
	cmps, keys := make([]clientv3.Cmp, len(conds)), newText(conds, 0)
	for i, c := range conds {
		c.fill(cmps[i].GetCompare(), &keys)
	}
	return cmps
}

// builders send by a client that was given. Its keys may be others on the wire, if it is one of package clientv3/namespace.
type builders struct{ c *clientv3.Client }

func (b builders) enter(
	ctx context.Context, conds []cond, key string, value []byte, lease clientv3.LeaseID,
) (*clientv3.TxnResponse, error) {
	return b.c.Txn(ctx).If(compares(conds)...).Then(clientv3.OpPut(key, string(value), clientv3.WithLease(lease))).Commit()
}

func (b builders) delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error) {
	return b.c.Delete(ctx, key)
}

// direct sends by the connection of a client that the driver made, and so through clientv3's interceptors. Its builders would copy each
// key and each condition, and with them a lock would allocate a fifth more, gRPC included.
type direct struct{ conn grpc.ClientConnInterface }

// invoke does what clientv3 does around a request: it waits for a connection, and an error is converted. The limits on the size of
// messages are left out, which these are far from.
func (d direct) invoke(ctx context.Context, method string, req, resp any) error {
	return clientv3.ContextError(ctx, d.conn.Invoke(ctx, method, req, resp, patient...))
}

var patient = []grpc.CallOption{grpc.WaitForReady(true)}

// entering is a request of enter and its answer in one piece.
type entering struct {
	req      pb.TxnRequest
	resp     pb.TxnResponse
	ifs      [mostConds]*pb.Compare
	compares [mostConds]pb.Compare
	then     [1]*pb.RequestOp
	op       pb.RequestOp
	opPut    pb.RequestOp_RequestPut
	put      pb.PutRequest
}

func (d direct) enter(
	ctx context.Context, conds []cond, key string, value []byte, lease clientv3.LeaseID,
) (*clientv3.TxnResponse, error) {
	e, keys := &entering{}, newText(conds, len(key))
	for i, c := range conds {
		e.ifs[i] = &e.compares[i]
		c.fill(e.ifs[i], &keys)
	}
	e.put.Key, e.put.Value, e.put.Lease = keys.add(key, ""), value, int64(lease)
	e.then[0], e.op.Request, e.opPut.RequestPut = &e.op, &e.opPut, &e.put
	e.req.Compare, e.req.Success = e.ifs[:len(conds)], e.then[:]
	if err := d.invoke(ctx, pb.KV_Txn_FullMethodName, &e.req, &e.resp); err != nil {
		return nil, err
	}
	return (*clientv3.TxnResponse)(&e.resp), nil
}

func (d direct) delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error) {
	e := &struct {
		req  pb.DeleteRangeRequest
		resp pb.DeleteRangeResponse
	}{}
	e.req.Key = []byte(key)
	if err := d.invoke(ctx, pb.KV_DeleteRange_FullMethodName, &e.req, &e.resp); err != nil {
		return nil, err
	}
	return (*clientv3.DeleteResponse)(&e.resp), nil
}
