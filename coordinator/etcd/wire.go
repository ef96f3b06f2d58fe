package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/baton-go/baton/coordinator/driver"
)

// wire sends what lets entries come and go, which is most of what programs send.
type wire interface {
	commit(ctx context.Context, r *request) (*clientv3.TxnResponse, error)
	// enter commits what joins a line if that is empty.
	enter(ctx context.Context, line driver.Line, r *request) (*clientv3.TxnResponse, error)
	delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error)
}

// builders send by a client that was given. Its keys may be others on the wire, if it is one of package clientv3/namespace.
type builders struct{ c *clientv3.Client }

func (b builders) commit(ctx context.Context, r *request) (*clientv3.TxnResponse, error) {
	cmps, then, otherwise := rebuilt(&r.req)
	return b.c.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
}

// rebuilt is a transaction for clientv3's builders. It may have puts with a lease, deletes of one key, reads without values,
// and transactions.
func rebuilt(r *pb.TxnRequest) (cmps []clientv3.Cmp, then, otherwise []clientv3.Op) {
	cmps = make([]clientv3.Cmp, len(r.Compare))
	for i, c := range r.Compare { // FromCompare makes more copies
		to := cmps[i].GetCompare()
		to.Key, to.RangeEnd, to.Result, to.Target, to.TargetUnion = c.Key, c.RangeEnd, c.Result, c.Target, c.TargetUnion
	}
	return cmps, rebuiltOps(r.Success), rebuiltOps(r.Failure)
}

func rebuiltOps(from []*pb.RequestOp) []clientv3.Op {
	ops := make([]clientv3.Op, len(from))
	for i, op := range from {
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			p := op.RequestPut
			opts := []clientv3.OpOption{clientv3.WithLease(clientv3.LeaseID(p.Lease)), clientv3.WithPrevKV()}
			if !p.PrevKv {
				opts = opts[:1]
			}
			ops[i] = clientv3.OpPut(string(p.Key), string(p.Value), opts...)
		case *pb.RequestOp_RequestDeleteRange:
			ops[i] = clientv3.OpDelete(string(op.RequestDeleteRange.Key))
		case *pb.RequestOp_RequestRange:
			r := op.RequestRange
			ops[i] = clientv3.OpGet(string(r.Key), clientv3.WithRange(string(r.RangeEnd)), clientv3.WithLimit(r.Limit), clientv3.WithKeysOnly())
		case *pb.RequestOp_RequestTxn:
			ops[i] = clientv3.OpTxn(rebuilt(op.RequestTxn))
		}
	}
	return ops
}

func (b builders) enter(ctx context.Context, _ driver.Line, r *request) (*clientv3.TxnResponse, error) {
	return b.commit(ctx, r)
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

// With a codec of one's own the content type is application/grpc+proto in full.
var patient = []grpc.CallOption{grpc.WaitForReady(true), grpc.ForceCodecV2(codec{})}

func (d direct) commit(ctx context.Context, r *request) (*clientv3.TxnResponse, error) {
	if err := d.invoke(ctx, pb.KV_Txn_FullMethodName, &r.req, &r.resp); err != nil {
		return nil, err
	}
	return (*clientv3.TxnResponse)(&r.resp), nil
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
