package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestRequestsWantALeader: whichever client sends them, and whatever metadata the caller has; but not renewals, and not the question
// how a member is.
func TestRequestsWantALeader(t *testing.T) {
	for name, open := range map[string]func(*served, *testing.T) *service{"own": (*served).own, "given": (*served).given} {
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
func useAll(t *testing.T, d *service) {
	d.Examine(t.Context())
	s := begin(t, d)
	for _, ctx := range []context.Context{t.Context(), metadata.AppendToOutgoingContext(t.Context(), "trace", "1")} {
		first, err := s.Join(ctx, line, contender())
		if err != nil || !first.First {
			t.Fatalf("%+v, %v", first, err)
		}
		x := contender()
		x.Follows = true
		second, err := s.Join(ctx, line, x)
		if err != nil || second.First {
			t.Fatalf("%+v, %v", second, err)
		}
		_, err = s.Ahead(ctx, line, second.Place)
		check(t, err)
		_, err = s.Record(ctx, line, driver.Any)
		check(t, err)
		check(t, s.Renew(ctx))
		check(t, s.Write(ctx, line, second.Place, []byte("w")))
		check(t, s.Pass(ctx, line, first.Place)) // with a plain delete, since nobody stood behind it when it joined
		_, err = s.Follow(ctx, line, second.Place, first.Place)
		check(t, err)
		check(t, s.Leave(ctx, line, second.Place))
		check(t, s.Forget(ctx, line, x.ID))
	}
	check(t, s.Close(t.Context()))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// TestWiresSendTheSame: the driver's own client and one that was given make the same requests of a lock, with the same outcome.
func TestWiresSendTheSame(t *testing.T) {
	f := serve(t)
	var sent []string // as text, which is the same for the same throughout a process
	f.before = func(_ context.Context, r *pb.TxnRequest) error {
		sent = append(sent, r.String())
		return nil
	}
	c := f.client(t)
	conds := []cond{unchanged("sentinel", 7), {stem: "s", key: "+tail"}, {stem: "s", key: "/", end: "0"}, absent("p-")}
	for n := range conds {
		sent = nil
		for _, w := range []wire{builders{c}, direct{c.ActiveConnection()}} {
			if resp, err := w.enter(t.Context(), conds[n:], "key", []byte("value"), 0); err != nil || resp.Succeeded != (n > 0) {
				t.Errorf("%T: %v, %v", w, resp, err)
			}
			for deleted := int64(0); deleted < 2; deleted++ { // as a transaction of the fake
				resp, err := w.delete(t.Context(), "key")
				if want := int64(min(n, 1)) - deleted; err != nil || resp.Deleted != max(0, want) {
					t.Errorf("%T: %v, %v", w, resp, err)
				}
			}
		}
		if len(sent) != 6 || sent[0] != sent[3] || sent[1] != sent[4] {
			t.Errorf("%v: sent %v", conds[n:], sent)
		}
	}
}

// TestWiresFailAlike: an error is the same, whoever has sent the request.
func TestWiresFailAlike(t *testing.T) {
	f := serve(t)
	c := f.client(t)
	ended, end := context.WithCancel(t.Context())
	defer end()
	for _, fail := range []error{
		rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCLeaseNotFound, rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCTimeout,
		rpctypes.ErrGRPCPermissionDenied, status.Error(codes.ResourceExhausted, "too much"), errors.New("unheard of"), context.Canceled,
	} {
		ctx := t.Context()
		if errors.Is(fail, context.Canceled) {
			ctx = ended
		}
		f.before = func(context.Context, *pb.TxnRequest) error {
			if ctx == ended {
				end()
				<-ctx.Done()
			}
			return fail
		}
		outcomes := make(map[string]bool)
		for _, w := range []wire{builders{c}, direct{c.ActiveConnection()}} {
			_, enter := w.enter(ctx, nil, "key", nil, 0)
			_, leave := w.delete(ctx, "key")
			outcomes[fmt.Sprintf("%T %v; %T %v; %v", enter, enter, leave, leave, kindOf(enter))] = true
		}
		if len(outcomes) != 1 {
			t.Errorf("%v becomes %v", fail, outcomes)
		}
	}
}

// instant is a connection to an etcd that answers every request at once, as if all conditions held.
type instant struct {
	grpc.ClientConnInterface
	rev int64
}

func (i *instant) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	i.rev++
	switch reply := reply.(type) {
	case *pb.TxnResponse:
		reply.Header, reply.Succeeded = &pb.ResponseHeader{Revision: i.rev}, true
	case *pb.DeleteRangeResponse:
		reply.Header, reply.Deleted = &pb.ResponseHeader{Revision: i.rev}, 1
	}
	return nil
}

// BenchmarkJoinPass is what the driver itself does for a lock that nobody else wants, without gRPC. Two of the allocations are
// those of the answers.
func BenchmarkJoinPass(b *testing.B) {
	d := newService("apps/orders", given{clientv3.NewCtxClient(context.Background())})
	s := newSession(d, d.clients.(given).c, 1, time.Second)
	s.sentinel = entry{d.keys.sentinel(1, newNonce()), 1 << 20}
	s.wire, s.lead, s.joins.epoch = direct{&instant{rev: 1 << 20}}, (*dialer)(nil).lead, 1<<20
	defer s.end()
	ctx, x := context.Background(), contender()
	const line = "mutex/a-name-of-some-length"
	b.ReportAllocs()
	for b.Loop() {
		j, err := s.Join(ctx, line, x)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Pass(ctx, line, j.Place); err != nil {
			b.Fatal(err)
		}
	}
}
