package etcd

import (
	"bytes"
	"encoding/binary"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec writes and reads what joins and leaves a line by the rules of the wire alone, and leaves the rest to protobuf, which
// goes by reflection. A short join has nine messages in it: for a lock that nobody contends for, on a client and a service that
// share a machine, that took as long as two of the join's conditions. See decision 38.
type codec struct{}

// Name is that of gRPC's own codec, which the server has.
func (codec) Name() string { return "proto" }

// Marshal writes the same bytes as protobuf. No part of the message is nil.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	w := writer{known: true}
	switch m := v.(type) {
	case *pb.TxnRequest:
		w.b = make([]byte, 0, 512)
		w.txn(m)
	case *pb.DeleteRangeRequest:
		w.b = make([]byte, 0, 128)
		w.drop(m)
	default:
		w.known = false
	}
	if !w.known {
		b, err := proto.Marshal(v.(proto.Message))
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return mem.BufferSlice{mem.SliceBuffer(w.b)}, nil
}

// Unmarshal reads what protobuf does, and has it do so if that is not as simple as it nearly always is.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	if read(data, v) {
		return nil
	}
	return proto.Unmarshal(data.Materialize(), v.(proto.Message)) // which begins anew
}

func read(data mem.BufferSlice, v any) bool {
	if len(data) != 1 {
		return false
	}
	b := data[0].ReadOnlyData()
	switch m := v.(type) {
	case *pb.TxnResponse:
		m.Reset()
		return readTxn(b, m, deepest)
	case *pb.DeleteRangeResponse:
		m.Reset()
		return readDrop(b, m)
	}
	return false
}

// writer appends messages, fields in the order of their numbers, but what is one of several last.
type writer struct {
	b     []byte
	known bool // all that was to be written
}

func (w *writer) number(field protowire.Number, n int64) {
	if n != 0 {
		w.one(field, n)
	}
}

// one writes a number that is there even if it is zero, being one of several that might be.
func (w *writer) one(field protowire.Number, n int64) {
	w.b = protowire.AppendVarint(protowire.AppendTag(w.b, field, protowire.VarintType), uint64(n))
}

func (w *writer) flag(field protowire.Number, set bool) {
	if set {
		w.one(field, 1)
	}
}

func (w *writer) bytes(field protowire.Number, v []byte) {
	if len(v) > 0 {
		w.b = protowire.AppendBytes(protowire.AppendTag(w.b, field, protowire.BytesType), v)
	}
}

// open begins a message inside another, and close ends it.
func (w *writer) open(field protowire.Number) (at int) {
	w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
	return len(w.b)
}

func (w *writer) close(at int) {
	var length [binary.MaxVarintLen64]byte
	w.b = slices.Insert(w.b, at, protowire.AppendVarint(length[:0], uint64(len(w.b)-at))...)
}

func (w *writer) txn(m *pb.TxnRequest) {
	for _, c := range m.Compare {
		at := w.open(1)
		w.compare(c)
		w.close(at)
	}
	for _, op := range m.Success {
		w.op(2, op)
	}
	for _, op := range m.Failure {
		w.op(3, op)
	}
}

func (w *writer) compare(m *pb.Compare) {
	w.number(1, int64(m.Result))
	w.number(2, int64(m.Target))
	w.bytes(3, m.Key)
	w.bytes(64, m.RangeEnd)
	switch to := m.TargetUnion.(type) {
	case *pb.Compare_CreateRevision:
		w.one(5, to.CreateRevision)
	case *pb.Compare_ModRevision:
		w.one(6, to.ModRevision)
	default:
		w.known = false
	}
}

func (w *writer) op(field protowire.Number, m *pb.RequestOp) {
	at := w.open(field)
	switch of := m.Request.(type) {
	case *pb.RequestOp_RequestPut:
		in := w.open(2)
		w.put(of.RequestPut)
		w.close(in)
	case *pb.RequestOp_RequestDeleteRange:
		in := w.open(3)
		w.drop(of.RequestDeleteRange)
		w.close(in)
	case *pb.RequestOp_RequestTxn:
		in := w.open(4)
		w.txn(of.RequestTxn)
		w.close(in)
	case *pb.RequestOp_RequestRange:
		in := w.open(1)
		w.read(of.RequestRange)
		w.close(in)
	default:
		w.known = false
	}
	w.close(at)
}

func (w *writer) put(m *pb.PutRequest) {
	w.bytes(1, m.Key)
	w.bytes(2, m.Value)
	w.number(3, m.Lease)
	w.flag(4, m.PrevKv)
	w.flag(5, m.IgnoreValue)
	w.flag(6, m.IgnoreLease)
}

func (w *writer) drop(m *pb.DeleteRangeRequest) {
	w.bytes(1, m.Key)
	w.bytes(2, m.RangeEnd)
	w.flag(3, m.PrevKv)
}

// read writes a read of some keys, as they are now and in their own order.
func (w *writer) read(m *pb.RangeRequest) {
	w.bytes(1, m.Key)
	w.bytes(2, m.RangeEnd)
	w.number(3, m.Limit)
	w.flag(8, m.KeysOnly)
	if m.Revision != 0 || m.SortOrder != 0 || m.SortTarget != 0 || m.Serializable || m.CountOnly ||
		m.MinModRevision != 0 || m.MaxModRevision != 0 || m.MinCreateRevision != 0 || m.MaxCreateRevision != 0 {
		w.known = false
	}
}

// The last bits of a field's tag say how it is written.
const asNumber, asBytes = uint64(protowire.VarintType), uint64(protowire.BytesType)

// fields calls f with the tag of each field of a message, and its number or its bytes. False says that the message is broken or has what
// f does not know.
func fields(b []byte, f func(tag, n uint64, v []byte) bool) bool {
	for len(b) > 0 {
		tag, size := protowire.ConsumeVarint(b)
		if size < 0 {
			return false
		}
		b = b[size:]
		var n uint64
		var v []byte
		switch tag & 7 {
		case asNumber:
			n, size = protowire.ConsumeVarint(b)
		case asBytes:
			v, size = protowire.ConsumeBytes(b)
		default:
			return false
		}
		if size < 0 || !f(tag, n, v) {
			return false
		}
		b = b[size:]
	}
	return true
}

// deepest is how many transactions may be one inside the other. A convoy's are two.
const deepest = 4

func readTxn(b []byte, m *pb.TxnResponse, deep int) bool {
	return deep > 0 && fields(b, func(tag, n uint64, v []byte) bool {
		switch tag {
		case 1<<3 | asBytes:
			return readHeader(v, &m.Header)
		case 2<<3 | asNumber:
			m.Succeeded = n != 0
		case 3<<3 | asBytes:
			op := &pb.ResponseOp{}
			m.Responses = append(m.Responses, op)
			return readOp(v, op, deep-1)
		default:
			return false
		}
		return true
	})
}

// readOp reads the answer to a part of a request, unless that was a read.
func readOp(b []byte, m *pb.ResponseOp, deep int) bool {
	return fields(b, func(tag, _ uint64, v []byte) bool {
		if m.Response != nil { // and were to be one with this
			return false
		}
		switch tag {
		case 2<<3 | asBytes:
			of := &pb.PutResponse{}
			m.Response = &pb.ResponseOp_ResponsePut{ResponsePut: of}
			return readPut(v, of)
		case 3<<3 | asBytes:
			of := &pb.DeleteRangeResponse{}
			m.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: of}
			return readDrop(v, of)
		case 4<<3 | asBytes:
			of := &pb.TxnResponse{}
			m.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: of}
			return readTxn(v, of, deep)
		}
		return false
	})
}

func readPut(b []byte, m *pb.PutResponse) bool {
	return fields(b, func(tag, _ uint64, v []byte) bool {
		switch tag {
		case 1<<3 | asBytes:
			return readHeader(v, &m.Header)
		case 2<<3 | asBytes:
			if m.PrevKv == nil {
				m.PrevKv = &mvccpb.KeyValue{}
			}
			return readEntry(v, m.PrevKv)
		}
		return false
	})
}

func readDrop(b []byte, m *pb.DeleteRangeResponse) bool {
	return fields(b, func(tag, n uint64, v []byte) bool {
		switch tag {
		case 1<<3 | asBytes:
			return readHeader(v, &m.Header)
		case 2<<3 | asNumber:
			m.Deleted = int64(n)
			return true
		}
		return false
	})
}

func readEntry(b []byte, m *mvccpb.KeyValue) bool {
	return fields(b, func(tag, n uint64, v []byte) bool {
		switch tag {
		case 1<<3 | asBytes:
			m.Key = bytes.Clone(v) // the message's memory is used again
		case 2<<3 | asNumber:
			m.CreateRevision = int64(n)
		case 3<<3 | asNumber:
			m.ModRevision = int64(n)
		case 4<<3 | asNumber:
			m.Version = int64(n)
		case 5<<3 | asBytes:
			m.Value = bytes.Clone(v)
		case 6<<3 | asNumber:
			m.Lease = int64(n)
		default:
			return false
		}
		return true
	})
}

func readHeader(b []byte, to **pb.ResponseHeader) bool {
	if *to == nil {
		*to = &pb.ResponseHeader{}
	}
	m := *to
	return fields(b, func(tag, n uint64, _ []byte) bool {
		switch tag {
		case 1<<3 | asNumber:
			m.ClusterId = n
		case 2<<3 | asNumber:
			m.MemberId = n
		case 3<<3 | asNumber:
			m.Revision = int64(n)
		case 4<<3 | asNumber:
			m.RaftTerm = n
		default:
			return false
		}
		return true
	})
}
