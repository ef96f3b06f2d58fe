package etcd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/batch"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// TestRequestsWantALeader: whichever client sends them, and whatever metadata the caller has; but not renewals, and not the question
// how a member is.
func TestRequestsWantALeader(t *testing.T) {
	for name, open := range map[string]func(*served, *testing.T) native{"own": (*served).own, "given": (*served).given} {
		t.Run(name, func(t *testing.T) {
			f := serve(t)
			useAll(t, open(f, t))
			f.mu.Lock()
			defer f.mu.Unlock()
			for method, want := range map[string]bool{
				pb.KV_DeleteRange_FullMethodName: true, pb.KV_Range_FullMethodName: true, pb.KV_Txn_FullMethodName: true,
				pb.Lease_LeaseGrant_FullMethodName: true, pb.Lease_LeaseRevoke_FullMethodName: true, pb.Watch_Watch_FullMethodName: true,
				pb.Lease_LeaseKeepAlive_FullMethodName: false, pb.Maintenance_Status_FullMethodName: false,
			} {
				if led := f.led[method]; len(led) == 0 || slices.Contains(led, !want) {
					t.Errorf("%s: a leader was wanted by %v", method, led)
				}
				delete(f.led, method)
			}
			delete(f.led, pb.Auth_Authenticate_FullMethodName) // what has a password sends it as well
			if len(f.led) > 0 {
				t.Errorf("not looked at: %v", f.led)
			}
		})
	}
}

// useAll does a bit of everything, for callers without metadata and with.
func useAll(t *testing.T, d native) {
	d.Examine(t.Context())
	s := begin(t, d)
	for _, ctx := range []context.Context{t.Context(), metadata.AppendToOutgoingContext(t.Context(), "trace", "1")} {
		first, err := s.Join(ctx, queue, contender())
		if err != nil || !first.First {
			t.Fatalf("%+v, %v", first, err)
		}
		x := contender()
		x.Follows = true
		second, err := s.Join(ctx, queue, x)
		if err != nil || second.First {
			t.Fatalf("%+v, %v", second, err)
		}
		_, err = s.Ahead(ctx, queue, second.Place)
		check(t, err)
		_, err = s.Record(ctx, queue, driver.Any)
		check(t, err)
		check(t, s.Renew(ctx))
		check(t, s.Write(ctx, queue, second.Place, []byte("w")))
		check(t, s.Pass(ctx, queue, first.Place)) // with a plain delete, since nobody stood behind it when it joined
		_, err = s.Follow(ctx, queue, second.Place, first.Place)
		check(t, err)
		check(t, s.Leave(ctx, queue, second.Place))
		check(t, s.Forget(ctx, queue, x.ID))
	}
	check(t, s.Close(t.Context()))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// instant is a connection to an etcd that answers every request at once, as if all conditions held.
type instant struct {
	grpc.ClientConnInterface
	rev       int64
	responses []*pb.ResponseOp
}

func (i *instant) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	i.rev++
	switch reply := reply.(type) {
	case *pb.TxnResponse:
		reply.Header, reply.Succeeded = &pb.ResponseHeader{Revision: i.rev}, true
		reply.Responses = i.responses
	case *pb.DeleteRangeResponse:
		reply.Header, reply.Deleted = &pb.ResponseHeader{Revision: i.rev}, 1
	}
	return nil
}

// offline is a session whose requests are answered at once.
func offline(tb testing.TB, responses ...*pb.ResponseOp) *session {
	conn := &instant{rev: 1 << 20, responses: responses}
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKVFromKVClient(pb.NewKVClient(conn), c)
	l := lease.New(lease.Conn{Client: c, Lead: (&source{}).lead}, keys.New("apps/orders"), 1, time.Second)
	l.Sentinel = keys.Entry{Key: "apps/orders/./sessions/1", Rev: 1 << 20}
	l.Joins.Raise(1 << 20)
	tb.Cleanup(l.End)
	return newSession(l, keys.New("apps/orders"), batch.New(c))
}

// BenchmarkJoinPass is what the driver itself does for a lock that nobody else wants, without gRPC. Two of the allocations are
// those of the answers.
func BenchmarkJoinPass(b *testing.B) {
	s, ctx, x := offline(b), context.Background(), contender()
	const queue = "mutex/a-name-of-some-length"
	b.ReportAllocs()
	for b.Loop() {
		j, err := s.Join(ctx, queue, x)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Pass(ctx, queue, j.Place); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJoinBehind is what the driver itself does to join a queue in which others stand.
func BenchmarkJoinBehind(b *testing.B) {
	const queue = "mutex/a-name-of-some-length"
	tail := &pb.PutResponse{PrevKv: &mvccpb.KeyValue{Value: []byte("0000000000000001-0123456789abcdef-x"), ModRevision: 1}}
	look := &pb.TxnResponse{Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponsePut{ResponsePut: tail}}}}
	s := offline(b, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: look}})
	ctx, x := context.Background(), contender()
	x.Follows = true
	s.memory.contended[queue] = true
	b.ReportAllocs()
	for b.Loop() {
		j, err := s.Join(ctx, queue, x)
		if err != nil || j.First {
			b.Fatal(j, err)
		}
	}
}

// BenchmarkPass is what the driver itself does to hand a lock on.
func BenchmarkPass(b *testing.B) {
	s := offline(b, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: 1}}})
	ctx := context.Background()
	const queue = "mutex/a-name-of-some-length"
	a := &attempt{Contender: driver.Contender{Follows: true}, queue: queue, entry: s.keys.Contender(queue, contender().ID, s.Lease, "x")}
	a.prefix = strings.TrimSuffix(a.entry, "x")
	e := mine{Entry: keys.Entry{Key: a.entry, Rev: 1 << 20}, contender: a.prefix}
	p, ahead := s.keys.Place(queue, e.Entry), keys.Mark(s.keys.Contender(queue, contender().ID, s.Lease, "x"))
	b.ReportAllocs()
	for b.Loop() {
		s.memory.joined(a, e.Entry, false)
		s.memory.noteMark(e, ahead)
		if err := s.Pass(ctx, queue, p); err != nil {
			b.Fatal(err)
		}
	}
}
