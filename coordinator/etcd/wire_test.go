package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
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
		for _, w := range []wire{builders{c}, newConvoys(direct{c.ActiveConnection()})} {
			if resp, err := w.commit(t.Context(), entering(conds[n:], "key", []byte("value"), 0)); err != nil || resp.Succeeded != (n > 0) {
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

// sameSent checks that both wires make of a request what is written in a test with clientv3's own means, with a client that sends
// other keys, too.
func sameSent(t *testing.T, what func() *request, plainly func(txn clientv3.Txn) clientv3.Txn) {
	t.Helper()
	f := serve(t)
	var sent []string // as text, which is the same for the same throughout a process
	f.before = func(_ context.Context, r *pb.TxnRequest) error {
		sent = append(sent, r.String())
		return errors.New("not applied")
	}
	c, prefixed := f.client(t), clientv3.NewCtxClient(t.Context())
	prefixed.KV = namespace.NewKV(c.KV, "prefix/")
	for _, w := range []wire{builders{prefixed}, builders{c}, newConvoys(direct{c.ActiveConnection()})} {
		_, _ = w.commit(t.Context(), what())
	}
	for _, c := range []*clientv3.Client{prefixed, c} {
		_, _ = plainly(c.Txn(t.Context())).Commit()
	}
	if len(sent) != 5 || sent[0] != sent[3] || sent[1] != sent[4] || sent[2] != sent[4] || sent[3] == sent[4] {
		t.Errorf("sent\n%v", strings.Join(sent, "\n"))
	}
}

func TestWiresLeaveAlike(t *testing.T) {
	s := offline(t)
	converted := s.keys.line(line) + name{s.ID(), contender().ID, "x", 5}.String()
	for _, e := range []entry{{s.keys.contender(line, contender().ID, s.lease, "x"), 7}, {converted, 8}} {
		for n := range 16 {
			again, pass, marks := n&1 > 0, n&2 > 0, []string{mark("a"), mark("b"), mark(e.key)}[:n>>2]
			t.Run(fmt.Sprint(again, pass, marks), func(t *testing.T) {
				sameSent(t, func() *request { return s.leaving(line, e, again, pass, marks) }, func(txn clientv3.Txn) clientv3.Txn {
					return leavePlainly(txn, s, e, again, pass, marks)
				})
			})
		}
	}
}

func leavePlainly(txn clientv3.Txn, s *session, e entry, again, pass bool, marks []string) clientv3.Txn {
	if again {
		txn = txn.If(clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev))
	}
	var behind []clientv3.Op
	if pass {
		behind = append(behind, clientv3.OpPut(e.key+"~", strconv.FormatInt(e.rev, 10), clientv3.WithLease(s.lease)))
	}
	tail := s.keys.tail(line)
	newer := clientv3.Compare(clientv3.ModRevision(tail), ">", s.keys.rank(line, e))
	ops := []clientv3.Op{
		clientv3.OpDelete(e.key),
		clientv3.OpTxn([]clientv3.Cmp{newer}, behind, []clientv3.Op{clientv3.OpDelete(tail)}),
	}
	for _, m := range marks {
		if m != e.key+"~" {
			ops = append(ops, clientv3.OpDelete(m))
		}
	}
	return txn.Then(ops...)
}

func TestWiresJoinAlike(t *testing.T) {
	s := offline(t)
	for n := range 64 {
		is := func(bit int) bool { return n>>bit&1 > 0 }
		a := &attempt{Contender: contender(), line: line, epoch: 7, behind: is(0), stale: is(1)}
		a.Follows, a.Again, a.Alone = is(2), is(3), is(4)
		if is(5) {
			a.Record = 9
		}
		if a.Alone && a.behind || a.stale && !a.Alone || a.Again && a.short() {
			continue // there is no such attempt
		}
		a.entry = s.keys.contender(line, a.ID, s.lease, a.Mode)
		a.key = strings.TrimSuffix(a.entry, a.Mode)
		t.Run(fmt.Sprintf("%06b", n), func(t *testing.T) {
			sameSent(t, func() *request { return s.joining(a) }, func(txn clientv3.Txn) clientv3.Txn { return joinPlainly(txn, s, a) })
		})
	}
}

func joinPlainly(txn clientv3.Txn, s *session, a *attempt) clientv3.Txn {
	tail, put := s.keys.tail(a.line), clientv3.OpPut(a.entry, string(a.Value), clientv3.WithLease(s.lease))
	var then, swap, otherwise []clientv3.Op
	if a.Follows {
		name := strings.TrimPrefix(a.entry, s.keys.line(a.line))
		swap = append(swap, clientv3.OpPut(tail, name, clientv3.WithLease(s.lease), clientv3.WithPrevKV()))
	}
	if a.behind {
		quiet := s.quiet(a.line)
		then = append(then, clientv3.OpTxn(compares(quiet[:]), nil, swap))
	}
	then = append(then, put)
	if a.stale {
		then = append(then, clientv3.OpDelete(tail))
	}
	if a.Alone || a.Again {
		otherwise = append(otherwise, s.someOf(a.line))
		otherwise = append(otherwise, s.entriesOf(a)...)
	}
	if !a.short() {
		otherwise = append(otherwise, s.readSentinel())
		if a.Record != 0 {
			otherwise = append(otherwise, clientv3.OpGet(s.keys.record(a.line), clientv3.WithKeysOnly()))
		}
	}
	return txn.If(compares(s.conditions(a))...).Then(then...).Else(otherwise...)
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
		for _, w := range []wire{builders{c}, newConvoys(direct{c.ActiveConnection()})} {
			_, enter := w.commit(ctx, entering(nil, "key", nil, 0))
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
	d := newService("apps/orders", given{c})
	s := newSession(d, c, 1, time.Second)
	s.sentinel = entry{d.keys.sentinel(1, newNonce()), 1 << 20}
	s.wire, s.lead, s.joins.epoch = newConvoys(direct{conn}), (*dialer)(nil).lead, 1<<20
	tb.Cleanup(s.end)
	return s
}

// BenchmarkJoinPass is what the driver itself does for a lock that nobody else wants, without gRPC. Two of the allocations are
// those of the answers.
func BenchmarkJoinPass(b *testing.B) {
	s, ctx, x := offline(b), context.Background(), contender()
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

// BenchmarkJoinBehind is what the driver itself does to join a line in which others stand.
func BenchmarkJoinBehind(b *testing.B) {
	const line = "mutex/a-name-of-some-length"
	tail := &pb.PutResponse{PrevKv: &mvccpb.KeyValue{Value: []byte("0000000000000001-0123456789abcdef-x"), ModRevision: 1}}
	look := &pb.TxnResponse{Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponsePut{ResponsePut: tail}}}}
	s := offline(b, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: look}})
	ctx, x := context.Background(), contender()
	x.Follows = true
	s.hand.busy[line] = quietAfter
	b.ReportAllocs()
	for b.Loop() {
		j, err := s.Join(ctx, line, x)
		if err != nil || j.First {
			b.Fatal(j, err)
		}
	}
}

// BenchmarkPass is what the driver itself does to hand a lock on.
func BenchmarkPass(b *testing.B) {
	s := offline(b, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: 1}}})
	ctx := context.Background()
	const line = "mutex/a-name-of-some-length"
	a := &attempt{Contender: driver.Contender{Follows: true}, line: line, entry: s.keys.contender(line, contender().ID, s.lease, "x")}
	a.key = strings.TrimSuffix(a.entry, "x")
	p, ahead := s.keys.place(line, entry{a.entry, 1 << 20}), mark(s.keys.contender(line, contender().ID, s.lease, "x"))
	b.ReportAllocs()
	for b.Loop() {
		s.hand.found(a, false, 1<<20)
		s.hand.noteMark(a.key, ahead)
		if err := s.Pass(ctx, line, p); err != nil {
			b.Fatal(err)
		}
	}
}
