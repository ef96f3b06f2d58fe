package etcd

import (
	"bytes"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
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

// like makes another message of a kind.
func (d dice) like(m proto.Message) proto.Message {
	switch m.(type) {
	case *pb.TxnResponse:
		return d.txnResponse(2)
	case *pb.DeleteRangeResponse:
		return d.dropResponse()
	}
	return d.entry()
}

// TestCodecWritesWhatProtobufDoes: byte for byte, whether it knows the message or not.
func TestCodecWritesWhatProtobufDoes(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	for range 5000 {
		for _, m := range []proto.Message{d.txnRequest(2), d.dropRequest(), d.entry()} {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			check(t, err)
			got, err := codec{}.Marshal(m)
			if err != nil || !bytes.Equal(got.Materialize(), want) {
				t.Fatalf("%.200s:\n%.200x, %v, want\n%.200x", m, got.Materialize(), err, want)
			}
		}
	}
}

// TestCodecReadsWhatProtobufDoes: messages, those in pieces, two that are to be merged, those that are cut off or have one bit flipped.
func TestCodecReadsWhatProtobufDoes(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(3, 4))}
	for range 3000 {
		for _, m := range []proto.Message{d.txnResponse(2), d.dropResponse(), d.entry()} {
			b, err := proto.Marshal(m)
			check(t, err)
			readsAlike(t, b, m)
			twice, err := proto.Marshal(d.like(m))
			check(t, err)
			readsAlike(t, append(twice, b...), m)
			if len(b) > 0 {
				readsAlike(t, b[:d.IntN(len(b))], m)
				b = bytes.Clone(b)
				b[d.IntN(len(b))] ^= 1 << d.IntN(8)
				readsAlike(t, b, m)
			}
		}
	}
}

// TestCodecMergesWhatIsThereTwice, inside the parts of an answer.
func TestCodecMergesWhatIsThereTwice(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(7, 8))}
	for range 2000 {
		var parts []byte
		for range 2 {
			b, err := proto.Marshal(d.responseOp(1))
			check(t, err)
			parts = append(parts, b...)
		}
		var puts []byte
		for range 2 {
			b, err := proto.Marshal(&pb.PutResponse{Header: d.header(), PrevKv: d.entry()})
			check(t, err)
			puts = append(puts, b...)
		}
		for _, op := range [][]byte{parts, protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), puts)} {
			readsAlike(t, protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), op), &pb.TxnResponse{})
		}
	}
}

// TestCodecIsNotDeep: protobuf judges what no service sends.
func TestCodecIsNotDeep(t *testing.T) {
	var b []byte
	for n := range 12_000 {
		b = protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), b)
		b = protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), b)
		if n < 10 || n%4000 == 3999 {
			readsAlike(t, b, &pb.TxnResponse{})
		}
	}
}

// TestCodecKnowsAllFields of what it writes: one that a later etcd adds would be left out in silence.
func TestCodecKnowsAllFields(t *testing.T) {
	for m, n := range map[proto.Message]int{
		&pb.TxnRequest{}: 3, &pb.Compare{}: 9, &pb.RequestOp{}: 4, &pb.PutRequest{}: 6, &pb.DeleteRangeRequest{}: 3, &pb.RangeRequest{}: 13,
	} {
		if d := m.ProtoReflect().Descriptor(); d.Fields().Len() != n {
			t.Errorf("%s has %d fields, and had %d", d.FullName(), d.Fields().Len(), n)
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
		err := codec{}.Unmarshal(data, got)
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

// TestCodecKnowsWhatJoinsAndLeaves: neither requests nor answers go by reflection.
func TestCodecKnowsWhatJoinsAndLeaves(t *testing.T) {
	knows := func(request, answer proto.Message) {
		t.Helper()
		w := writer{known: true}
		switch m := request.(type) {
		case *pb.TxnRequest:
			w.txn(m)
		case *pb.DeleteRangeRequest:
			w.drop(m)
		}
		b, err := proto.Marshal(answer)
		check(t, err)
		if !w.known || len(w.b) == 0 || !read(mem.BufferSlice{mem.SliceBuffer(b)}, answer.ProtoReflect().New().Interface()) {
			t.Errorf("%v, answered with %v, goes by reflection", request, answer)
		}
	}
	header := &pb.ResponseHeader{ClusterId: 1, MemberId: 2, Revision: 3, RaftTerm: 4}
	put := func(before *mvccpb.KeyValue) *pb.ResponseOp {
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: header, PrevKv: before}}}
	}
	drop := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Header: header, Deleted: 1}}}
	txn := func(parts ...*pb.ResponseOp) *pb.TxnResponse {
		return &pb.TxnResponse{Header: header, Succeeded: true, Responses: parts}
	}
	part := func(of *pb.TxnResponse) *pb.ResponseOp {
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: of}}
	}

	s, x := offline(t), contender()
	e := entry{s.keys.contender(line, x.ID, s.lease, x.Mode), 7}
	a := &attempt{Contender: x, line: line, entry: e.key}
	short := &s.joining(a).req
	knows(short, txn(put(nil)))
	a.behind, a.Follows = true, true
	knows(&s.joining(a).req, txn(part(txn(put(&mvccpb.KeyValue{Key: []byte("tail"), Value: []byte("ahead"), ModRevision: 5, Lease: 6}))), put(nil)))
	for _, again := range []bool{false, true} {
		knows(&s.leaving(line, e, again, true, []string{"m~"}).req, txn(drop, part(txn(put(nil))), drop))
	}
	knows(&pb.DeleteRangeRequest{Key: []byte(e.key)}, &pb.DeleteRangeResponse{Header: header, Deleted: 1})
	aboard := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: short}}
	knows(&pb.TxnRequest{Success: []*pb.RequestOp{aboard, aboard}}, txn(part(txn(put(nil))), part(txn(put(nil)))))
}
