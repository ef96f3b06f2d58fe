package etcd

import (
	"context"
	"math"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// requiresLeader reports whether a member without a leader must refuse a
// request. etcd reads the first value.
func requiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	return len(md["hasleader"]) > 0 && md["hasleader"][0] == "true"
}

// TestRequestsRequireALeader: all requests through an external client, with any
// metadata of the caller, except renewals.
func TestRequestsRequireALeader(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	for _, ctx := range []context.Context{
		t.Context(), metadata.AppendToOutgoingContext(t.Context(), "trace", "1"),
	} {
		first, err := s.Join(ctx, queue, contender())
		check(t, err)
		x := contender()
		x.Follows = true
		second, err := s.Join(ctx, queue, x)
		check(t, err)
		_, err = s.Ahead(ctx, queue, second.Place)
		check(t, err)
		_, err = s.Record(ctx, queue, driver.Any)
		check(t, err)
		check(t, s.Renew(ctx))
		check(t, s.Write(ctx, queue, second.Place, []byte("w")))
		check(t, s.Pass(ctx, queue, first.Place)) // with a plain delete
		_, err = s.Follow(ctx, queue, second.Place, first.Place)
		check(t, err)
		check(t, s.Leave(ctx, queue, second.Place))
		check(t, s.Forget(ctx, queue, x.ID))
	}
	check(t, s.Close(t.Context()))
	f.mu.Lock()
	defer f.mu.Unlock()
	for method, want := range map[string]bool{
		"DeleteRange": true, "Range": true, "Txn": true, "Grant": true, "Revoke": true, "Watch": true,
		"KeepAlive": false,
	} {
		if led := f.led[method]; len(led) == 0 || slices.Contains(led, !want) {
			t.Errorf("%s: a leader was required: %v", method, led)
		}
	}
}

// TestOwnClientRequiresALeaderAndBoundsReplies: a leader except for the status
// of a member.
func TestOwnClientRequiresALeaderAndBoundsReplies(t *testing.T) {
	d := newSource(&clientv3.Config{})
	for method, want := range map[string]bool{
		pb.KV_Txn_FullMethodName: true, pb.Lease_LeaseGrant_FullMethodName: true,
		pb.Maintenance_Status_FullMethodName: false,
	} {
		led, bound := !want, 0
		invoke := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
			led = requiresLeader(ctx)
			last, _ := opts[len(opts)-1].(grpc.MaxRecvMsgSizeCallOption)
			bound = last.MaxRecvMsgSize
			return nil
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "trace", "1")
		unbounded := grpc.MaxCallRecvMsgSize(math.MaxInt32) // clientv3's
		err := d.intercept(ctx, method, nil, nil, nil, invoke, unbounded)
		if err != nil || led != want || bound != lease.MaxReply {
			t.Errorf("%s: a leader was required: %t; replies of up to %d bytes; %v", method, led, bound, err)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
