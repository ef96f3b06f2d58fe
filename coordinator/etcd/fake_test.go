package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
)

// fake is the part of etcd that the driver uses, in memory: revisions,
// transactions, leases, watches. The conformance suite tests etcd's real
// behaviour; the fake produces rare interleavings at will.
type fake struct {
	pb.KVClient // panics in methods not implemented below

	mu       sync.Mutex
	rev      int64
	kvs      map[string]*mvccpb.KeyValue
	leases   map[clientv3.LeaseID]int64
	watchers map[*watcher]bool
	requests int
	reads    map[string]int     // requests that read a single key, by key
	kept     []clientv3.LeaseID // by keep-alives
	led      map[string][]bool  // whether each call of a method required a leader

	txns     []*pb.TxnRequest
	compared int // keys
	fetched  int // keys in the ranges of reads

	compacted         int64 // the newest revision that reads do not get
	onCompacted       func()
	maxReply, largest int     // bytes of a reply to a read of one range
	atRevs            []int64 // the revisions for which such reads asked

	minTTL  int64
	cluster atomic.Uint64
	term    uint64
	held    []held                                              // events not yet sent by a member that is behind
	past    *fake                                               // the state of the member that is behind, if one is
	others  int                                                 // how many members are not behind, besides
	mute    bool                                                // the member that is behind answers nothing
	turn    int                                                 // whose turn it is
	behind  map[string]bool                                     // whether a stream is at the member that is behind
	before  func(ctx context.Context, txn *pb.TxnRequest) error // called without mu
	opens   func()                                              // called without mu, before a watch is created
	// refuses returns why a watch on a stream is refused, or nil.
	refuses func(stream string) error
}

type held struct {
	events []*clientv3.Event
	rev    int64
}

type watcher struct {
	op     clientv3.Op
	out    chan clientv3.WatchResponse
	stream string // see fake.stream
}

func newFake(t *testing.T) (*fake, *clientv3.Client) {
	t.Helper()
	f := &fake{
		rev: 1, kvs: map[string]*mvccpb.KeyValue{}, leases: map[clientv3.LeaseID]int64{},
		watchers: map[*watcher]bool{}, reads: map[string]int{}, led: map[string][]bool{},
	}
	c := clientv3.NewCtxClient(context.Background())
	c.KV, c.Lease, c.Watcher = clientv3.NewKVFromKVClient(f, c), fakeLease{f: f}, fakeWatcher{f}
	return f, c
}

func open(t *testing.T, f *fake, c *clientv3.Client) *session {
	t.Helper()
	return openWith(t, f, c, Namespace("ns")).(*session)
}

func openWith(t *testing.T, f *fake, c *clientv3.Client, opts ...Option) driver.Session {
	t.Helper()
	d, err := FromClient(c, opts...)
	check(t, err)
	s, err := d.Open(t.Context(), 10*time.Second)
	check(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	f.settled(t, s)
	return s
}

// lag keeps the only member that the client knows at its present state: it
// answers serializable reads and serves the watches. catchUp ends that.
func (f *fake) lag() (catchUp func()) { return f.stall(0) }

// stall lets one of several members stop to apply: the one that has served the
// watches. Its quorum reads are never answered. New streams and reads go to the
// members in turn, next to another one.
func (f *fake) stall(others int) (catchUp func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past, f.others, f.turn = &fake{rev: f.rev, kvs: maps.Clone(f.kvs)}, others, 0
	f.behind = map[string]bool{}
	for w := range f.watchers {
		f.behind[w.stream] = true
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, h := range f.past.held {
			f.notify(h.events, h.rev, true)
		}
		f.past, f.behind = nil, nil
	}
}

// next takes a turn, and reports whether it is that of the member that is
// behind. The caller holds f.mu.
func (f *fake) next() (behind bool) {
	if f.past == nil {
		return false
	}
	f.turn++
	return f.turn%(f.others+1) == 0
}

// stream names the gRPC stream of a watch, and returns the member that serves
// it. The caller holds f.mu.
func (f *fake) stream(ctx context.Context) (name string, member *fake) {
	md, _ := metadata.FromOutgoingContext(ctx)
	name = strings.Join(md["baton-stream"], "")
	if f.past == nil {
		return name, f
	}
	behind, known := f.behind[name]
	if !known {
		behind = f.next()
		f.behind[name] = behind
	}
	if behind {
		return name, f.past
	}
	return name, f
}

// ask takes the turn for a read and returns the member that answers it, or
// ctx's error if none does.
func (f *fake) ask(ctx context.Context, serializable bool) (*fake, error) {
	f.mu.Lock()
	behind := f.next()
	silent := behind && (f.mute || !serializable && f.others > 0)
	member := f
	if behind && serializable {
		member = f.past
	}
	f.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return member, nil
}

func contender() driver.Contender {
	b := make([]byte, 8)
	_, _ = rand.Read(b)
	return driver.Contender{ID: hex.EncodeToString(b), Mode: "x", Value: []byte("v")}
}

func (f *fake) inRange(key, end []byte) []*mvccpb.KeyValue {
	var kvs []*mvccpb.KeyValue
	for k, kv := range f.kvs {
		if k == string(key) || len(end) > 0 && k >= string(key) && k < string(end) {
			kvs = append(kvs, &mvccpb.KeyValue{
				Key: kv.Key, Value: kv.Value, Lease: kv.Lease,
				CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
			})
		}
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return slices.Compare(a.Key, b.Key) })
	return kvs
}

func (f *fake) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: f.cluster.Load(), Revision: f.rev, RaftTerm: f.term}
}

// note notes whether a request required a leader. The caller holds f.mu.
func (f *fake) note(ctx context.Context, method string) {
	f.led[method] = append(f.led[method], requiresLeader(ctx))
}

func (f *fake) Range(ctx context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	f.mu.Lock()
	f.note(ctx, "Range")
	f.requests++
	f.reads[string(r.Key)]++
	f.mu.Unlock()
	member, err := f.ask(ctx, r.Serializable)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Revision != 0 && r.Revision <= f.compacted {
		f.onCompacted()
		return nil, rpctypes.ErrGRPCCompacted
	}
	f.atRevs = append(f.atRevs, r.Revision)
	resp := member.get(r)
	size := 0
	for _, kv := range resp.Kvs {
		size += len(kv.Key) + len(kv.Value)
	}
	f.largest = max(f.largest, size)
	if f.maxReply > 0 && size > f.maxReply {
		return nil, status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, f.maxReply)
	}
	return resp, nil
}

func (f *fake) get(r *pb.RangeRequest) *pb.RangeResponse {
	kvs := f.inRange(r.Key, r.RangeEnd)
	f.fetched += len(kvs)
	resp := &pb.RangeResponse{Header: f.header(), Count: int64(len(kvs))}
	if r.CountOnly {
		return resp
	}
	if r.SortTarget == pb.RangeRequest_CREATE {
		slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	}
	if r.MaxCreateRevision > 0 {
		kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return kv.CreateRevision > r.MaxCreateRevision })
	}
	if n := int(r.Limit); n > 0 && n < len(kvs) {
		kvs = kvs[:n]
	}
	if r.KeysOnly { // from etcd 3.7 on it returns no leases either
		for _, kv := range kvs {
			kv.Value, kv.Lease = nil, 0
		}
	}
	resp.Kvs = kvs
	return resp
}

// loseReply applies the next transaction and loses its reply.
func (f *fake) loseReply() {
	f.before = func(ctx context.Context, r *pb.TxnRequest) error {
		f.before = nil
		_, _ = f.Txn(ctx, r)
		return rpctypes.ErrGRPCTimeout
	}
}

func (f *fake) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	if f.before != nil {
		if err := f.before(ctx, r); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.requests++
	f.note(ctx, "Txn")
	f.txns = append(f.txns, r)
	f.mu.Unlock()
	member := f
	ops := slices.Concat(r.Success, r.Failure)
	writes := slices.ContainsFunc(ops, func(op *pb.RequestOp) bool { return op.GetRequestRange() == nil })
	if !writes { // the tests write at a member that applies
		var err error
		if member, err = f.ask(ctx, !slices.ContainsFunc(ops, func(op *pb.RequestOp) bool {
			return !op.GetRequestRange().GetSerializable()
		})); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.rev + 1
	outcomes := member.compare(r)
	resp, events, err := member.txn(r, at, &outcomes)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 {
		f.rev = at
		f.notify(events, at, false)
	}
	resp.Header = member.header()
	return resp, nil
}

// DeleteRange is a transaction of one operation.
func (f *fake) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	f.mu.Lock()
	f.note(ctx, "DeleteRange")
	deleted := int64(len(f.inRange(r.Key, r.RangeEnd)))
	f.mu.Unlock()
	resp, err := f.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}}})
	if err != nil {
		return nil, err
	}
	return &pb.DeleteRangeResponse{Header: resp.Header, Deleted: deleted}, nil
}

// compare evaluates the conditions of a transaction, and of the transactions
// within it that will run, in their order: etcd compares before it writes.
func (f *fake) compare(r *pb.TxnRequest) (outcomes []bool) {
	ops, ok := r.Success, true
	for _, c := range r.Compare {
		if !ok {
			break // etcd compares no further
		}
		kvs := f.inRange(c.Key, c.RangeEnd)
		f.compared += len(kvs)
		if len(kvs) == 0 {
			kvs = []*mvccpb.KeyValue{{}}
		}
		for _, kv := range kvs {
			switch c.Target {
			case pb.Compare_CREATE:
				ok = ok && kv.CreateRevision == c.GetCreateRevision()
			case pb.Compare_LEASE:
				ok = ok && kv.Lease == c.GetLease()
			case pb.Compare_MOD:
				if c.Result == pb.Compare_GREATER {
					ok = ok && kv.ModRevision > c.GetModRevision()
				} else {
					ok = ok && kv.ModRevision == c.GetModRevision()
				}
			}
		}
	}
	if !ok {
		ops = r.Failure
	}
	outcomes = append(outcomes, ok)
	for _, op := range ops {
		if inner := op.GetRequestTxn(); inner != nil {
			outcomes = append(outcomes, f.compare(inner)...)
		}
	}
	return outcomes
}

// txn removes the outcomes that it uses from the front.
func (f *fake) txn(r *pb.TxnRequest, at int64, outcomes *[]bool) (*pb.TxnResponse, []*clientv3.Event, error) {
	ops, ok := r.Success, (*outcomes)[0]
	*outcomes = (*outcomes)[1:]
	if !ok {
		ops = r.Failure
	}
	resp, events := &pb.TxnResponse{Succeeded: ok}, []*clientv3.Event(nil)
	for _, op := range ops {
		one := &pb.ResponseOp{}
		switch q := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			one.Response = &pb.ResponseOp_ResponseRange{ResponseRange: f.get(q.RequestRange)}
		case *pb.RequestOp_RequestPut:
			if lease := clientv3.LeaseID(q.RequestPut.Lease); lease != 0 && f.leases[lease] == 0 {
				return nil, nil, rpctypes.ErrGRPCLeaseNotFound
			}
			kv := &mvccpb.KeyValue{
				Key: q.RequestPut.Key, Value: q.RequestPut.Value, Lease: q.RequestPut.Lease,
				CreateRevision: at, ModRevision: at,
			}
			put := &pb.PutResponse{}
			if old := f.kvs[string(kv.Key)]; old != nil {
				kv.CreateRevision = old.CreateRevision
				if q.RequestPut.IgnoreLease {
					kv.Lease = old.Lease
				}
				if q.RequestPut.PrevKv {
					put.PrevKv = old
				}
			}
			one.Response = &pb.ResponseOp_ResponsePut{ResponsePut: put}
			f.kvs[string(kv.Key)] = kv
			events = append(events, &clientv3.Event{Type: mvccpb.PUT, Kv: kv})
		case *pb.RequestOp_RequestDeleteRange:
			gone := f.remove(f.inRange(q.RequestDeleteRange.Key, q.RequestDeleteRange.RangeEnd), at)
			one.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: int64(len(gone))}}
			events = append(events, gone...)
		case *pb.RequestOp_RequestTxn:
			inner, more, err := f.txn(q.RequestTxn, at, outcomes)
			if err != nil {
				return nil, nil, err
			}
			one.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}
			events = append(events, more...)
		}
		resp.Responses = append(resp.Responses, one)
	}
	return resp, events, nil
}

func (f *fake) remove(kvs []*mvccpb.KeyValue, at int64) (events []*clientv3.Event) {
	for _, kv := range kvs {
		delete(f.kvs, string(kv.Key))
		events = append(events, &clientv3.Event{
			Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: kv.Key, ModRevision: at},
		})
	}
	return events
}

// notify sends events to their watches. Those of a member that is behind get
// them late.
func (f *fake) notify(events []*clientv3.Event, rev int64, late bool) {
	if f.past != nil && !late {
		f.past.held = append(f.past.held, held{events, rev})
	}
	for w := range f.watchers {
		if f.behind[w.stream] != late {
			continue
		}
		resp := clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: rev}}
		for _, ev := range events {
			k, end := string(ev.Kv.Key), string(w.op.RangeBytes())
			hit := k == string(w.op.KeyBytes()) || end != "" && k >= string(w.op.KeyBytes()) && k < end
			if hit && (ev.Type == mvccpb.DELETE && !w.op.IsFilterDelete() || ev.Type == mvccpb.PUT && !w.op.IsFilterPut()) {
				resp.Events = append(resp.Events, ev)
			}
		}
		if len(resp.Events) > 0 {
			w.out <- resp
		}
	}
}

// watched counts the watches on keys that contain the given text.
func (f *fake) watched(text string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watchers {
		if strings.Contains(string(w.op.KeyBytes()), text) {
			n++
		}
	}
	return n
}

// watching waits until there are n watches on keys that contain the given text.
func (f *fake) watching(t *testing.T, n int, text string) {
	t.Helper()
	until(t, fmt.Sprintf("%d watches on %q", n, text), func() bool { return f.watched(text) == n })
}

func wantDone(t *testing.T, s driver.Session) {
	t.Helper()
	until(t, "Done is closed", func() bool {
		select {
		case <-s.Done():
			return true
		default:
			return false
		}
	})
}

// settled waits until a session watches its sentinel and has read it, so that
// this read is not counted later.
func (f *fake) settled(t *testing.T, s driver.Session) {
	t.Helper()
	until(t, "the sentinel was read", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for key, n := range f.reads {
			if n > 0 && strings.Contains(key, "/sessions/"+s.ID()) {
				return true
			}
		}
		return false
	})
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen: ", what)
		}
	}
}

// sent counts the requests of do.
func (f *fake) sent(do func()) int {
	f.mu.Lock()
	n := f.requests
	f.mu.Unlock()
	do()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests - n
}
