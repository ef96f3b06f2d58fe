package etcd

import (
	"bytes"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// dice makes messages of all kinds that the codec may meet.
type dice struct{ *rand.Rand }

func (d dice) text() []byte {
	b := make([]byte, []int{0, 1, 20, 127, 128, 300}[d.IntN(6)])
	for i := range b {
		b[i] = byte(d.Uint32())
	}
	return b
}

func (d dice) number() int64 {
	return []int64{0, 1, 127, 128, 1 << 40, -1, int64(d.Uint64())}[d.IntN(7)]
}

func (d dice) often() bool  { return d.IntN(8) > 0 }
func (d dice) seldom() bool { return d.IntN(40) == 0 }

func some[T any](d dice, most int, one func() T) []T {
	var all []T
	for range d.IntN(most + 1) {
		all = append(all, one())
	}
	return all
}

func (d dice) compare() *pb.Compare {
	c := &pb.Compare{Result: pb.Compare_CompareResult(d.IntN(4)), Target: pb.Compare_CompareTarget(d.IntN(5)), Key: d.text()}
	if d.often() {
		c.RangeEnd = d.text()
	}
	switch {
	case d.seldom():
		c.TargetUnion = &pb.Compare_Version{Version: d.number()}
	case d.seldom():
		c.TargetUnion = &pb.Compare_Value{Value: d.text()}
	case d.often():
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: d.number()}
	default:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: d.number()}
	}
	return c
}

func (d dice) requestOp(deep int) *pb.RequestOp {
	switch n := d.IntN(4); {
	case n == 0:
		p := &pb.PutRequest{Key: d.text(), Value: d.text(), Lease: d.number(), PrevKv: !d.often()}
		p.IgnoreValue, p.IgnoreLease = d.seldom(), d.seldom()
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: p}}
	case n == 1:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d.dropRequest()}}
	case n == 2 && deep > 0:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: d.txnRequest(deep - 1)}}
	}
	r := &pb.RangeRequest{Key: d.text(), RangeEnd: d.text(), Limit: d.number(), KeysOnly: d.often()}
	r.Serializable, r.CountOnly = d.seldom(), d.seldom()
	if d.seldom() {
		r.Revision, r.SortOrder, r.SortTarget = d.number(), pb.RangeRequest_DESCEND, pb.RangeRequest_MOD
		r.MinModRevision, r.MaxModRevision, r.MinCreateRevision, r.MaxCreateRevision = d.number(), d.number(), d.number(), d.number()
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func (d dice) dropRequest() *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: d.text(), RangeEnd: d.text(), PrevKv: d.seldom()}
}

func (d dice) txnRequest(deep int) *pb.TxnRequest {
	op := func() *pb.RequestOp { return d.requestOp(deep) }
	return &pb.TxnRequest{Compare: some(d, 4, d.compare), Success: some(d, 3, op), Failure: some(d, 2, op)}
}

func (d dice) header() *pb.ResponseHeader {
	if d.seldom() {
		return nil
	}
	return &pb.ResponseHeader{ClusterId: d.Uint64(), MemberId: d.Uint64(), Revision: d.number(), RaftTerm: uint64(d.number())}
}

func (d dice) entry() *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: d.text(), CreateRevision: d.number(), ModRevision: d.number(), Version: d.number(), Value: d.text(), Lease: d.number(),
	}
}

func (d dice) dropResponse() *pb.DeleteRangeResponse {
	r := &pb.DeleteRangeResponse{Header: d.header(), Deleted: d.number()}
	if d.seldom() {
		r.PrevKvs = some(d, 2, d.entry)
	}
	return r
}

func (d dice) responseOp(deep int) *pb.ResponseOp {
	switch n := d.IntN(8); {
	case n < 3:
		p := &pb.PutResponse{Header: d.header()}
		if d.often() {
			p.PrevKv = d.entry()
		}
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: p}}
	case n < 6 && deep > 0:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: d.txnResponse(deep - 1)}}
	case d.seldom():
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: some(d, 2, d.entry), Count: d.number()}}}
	}
	return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: d.dropResponse()}}
}

func (d dice) txnResponse(deep int) *pb.TxnResponse {
	return &pb.TxnResponse{Header: d.header(), Succeeded: d.often(), Responses: some(d, 3, func() *pb.ResponseOp { return d.responseOp(deep) })}
}

// TestCodecWritesWhatProtobufDoes: byte for byte, whether it knows the message or not.
func TestCodecWritesWhatProtobufDoes(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	for range 5000 {
		for _, m := range []proto.Message{d.txnRequest(2), d.dropRequest(), d.entry()} {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			check(t, err)
			got, err := lean.Marshal(m)
			if err != nil || !bytes.Equal(got.Materialize(), want) {
				t.Fatalf("%.200s:\n%.200x, %v, want\n%.200x", m, got.Materialize(), err, want)
			}
		}
	}
}

// TestCodecReadsWhatProtobufDoes: messages, those in pieces, those that are cut off or of which a bit is another.
func TestCodecReadsWhatProtobufDoes(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(3, 4))}
	for range 3000 {
		for _, m := range []proto.Message{d.txnResponse(2), d.dropResponse(), d.entry()} {
			b, err := proto.Marshal(m)
			check(t, err)
			readsAlike(t, b, m)
			if len(b) > 0 {
				readsAlike(t, b[:d.IntN(len(b))], m)
				b = bytes.Clone(b)
				b[d.IntN(len(b))] ^= 1 << d.IntN(8)
				readsAlike(t, b, m)
			}
		}
	}
}

// readsAlike reads a message, into one that is not empty, as protobuf does.
func readsAlike(t *testing.T, b []byte, full proto.Message) {
	t.Helper()
	want := full.ProtoReflect().New().Interface()
	fail := proto.Unmarshal(b, want)
	cut := len(b) / 2
	for _, data := range []mem.BufferSlice{
		{mem.SliceBuffer(bytes.Clone(b))},
		{mem.SliceBuffer(bytes.Clone(b[:cut])), mem.SliceBuffer(bytes.Clone(b[cut:]))},
	} {
		got := proto.Clone(full)
		err := lean.Unmarshal(data, got)
		for _, part := range data { // as it is used again
			clear(part.ReadOnlyData())
		}
		if (err == nil) != (fail == nil) || err == nil && !proto.Equal(got, want) {
			t.Fatalf("%.200x:\n%.200s, %v, want\n%.200s, %v", b, got, err, want, fail)
		}
	}
}

func FuzzCodec(f *testing.F) {
	d := dice{rand.New(rand.NewPCG(5, 6))}
	for range 20 {
		b, err := proto.Marshal(d.txnResponse(2))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		readsAlike(t, b, &pb.TxnResponse{})
		readsAlike(t, b, &pb.DeleteRangeResponse{Deleted: 1})
	})
}

// TestCodecKnowsWhatJoinsAndLeaves: none of it goes by reflection.
func TestCodecKnowsWhatJoinsAndLeaves(t *testing.T) {
	s := offline(t)
	x := contender()
	for _, a := range []*attempt{
		{Contender: x, line: line}, {Contender: x, line: line, behind: true},
	} {
		a.entry = s.keys.contender(line, x.ID, s.lease, x.Mode)
		w := writer{known: true}
		if w.txn(&s.joining(a).req); !w.known {
			t.Errorf("%+v", a)
		}
	}
	for _, again := range []bool{false, true} {
		w := writer{known: true}
		e := entry{s.keys.contender(line, x.ID, s.lease, x.Mode), 7}
		if w.txn(&s.leaving(line, e, again, true, []string{"m~"}).req); !w.known {
			t.Error(again)
		}
	}
}
