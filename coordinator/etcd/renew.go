package etcd

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// renewals replaces KeepAliveOnce of a driver's own client. clientv3's opens a
// stream for each keep-alive, which costs the server more than the keep-alive,
// and with a user name an authentication, tens of milliseconds of its CPU. Here
// a stream is used again when its keep-alive was answered.
type renewals struct {
	clientv3.Lease
	source *source
	client *clientv3.Client
	remote pb.LeaseClient
	idle   chan stream // one: more might all lead to a member that hangs
}

type stream struct {
	pb.Lease_LeaseKeepAliveClient
	end context.CancelFunc
}

type kept = clientv3.LeaseKeepAliveResponse

func newRenewals(d *source, c *clientv3.Client) *renewals {
	return &renewals{c.Lease, d, c, clientv3.RetryLeaseClient(c), make(chan stream, 1)}
}

// KeepAliveOnce fails at once if there is no connection: keep-alives that
// waited for one would all be sent together.
func (r *renewals) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*kept, error) {
	for r.client.ActiveConnection().GetState() != connectivity.Connecting {
		select {
		case s := <-r.idle:
			resp, err := r.send(ctx, s, id)
			if answer.Code(err) == codes.Unavailable && ctx.Err() == nil {
				continue // its connection was lost
			}
			return resp, err
		default:
		}
		s, err := r.open(ctx)
		if err != nil {
			return nil, err
		}
		return r.send(ctx, s, id)
	}
	return nil, r.source.explain(errors.New("no connection"))
}

func (r *renewals) open(ctx context.Context) (stream, error) {
	life, end := context.WithCancel(r.client.Ctx())
	stop := context.AfterFunc(ctx, end)
	s, err := r.remote.LeaseKeepAlive(life, grpc.WaitForReady(false))
	if err == nil && stop() {
		return stream{s, end}, nil
	}
	end()
	switch r.source.noteDialError(err); {
	case err == nil:
		err = ctx.Err()
	case answer.Code(err) == codes.Unavailable:
		err = r.source.explain(errors.New("no connection"))
	}
	return stream{}, err
}

func (r *renewals) send(ctx context.Context, s stream, id clientv3.LeaseID) (*kept, error) {
	stop := context.AfterFunc(ctx, s.end)
	_ = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}) // Recv returns why it failed
	resp, err := s.Recv()
	if err != nil {
		s.end()
		return nil, clientv3.ContextError(ctx, err)
	}
	r.source.noteDialError(nil)
	if stop() {
		select {
		case r.idle <- s:
		default:
			s.end()
		}
	}
	if resp.TTL <= 0 {
		return nil, rpctypes.ErrLeaseNotFound
	}
	return &kept{ResponseHeader: resp.Header, ID: clientv3.LeaseID(resp.ID), TTL: resp.TTL}, nil
}
