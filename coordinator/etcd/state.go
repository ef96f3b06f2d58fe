package etcd

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// maxRecord is the most that a record may have, in bytes.
const maxRecord = 64 << 10

// Record waits for a change of the record's key. Its version is the mod revision, zero
// as long as there is no key.
//
// The read that follows the creation of the watch is a quorum read, since the record
// must be as new as what this session finished before, wherever that was applied (D1).
// After it the events are enough.
func (s *session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	if err := s.Alive(); err != nil {
		return driver.Record{}, err
	}
	key := s.keys.Record(queue)
	if known == driver.Any {
		r, err := s.Get(ctx, clientv3.OpGet(key))
		if err != nil {
			return driver.Record{}, s.Failed(ctx, err)
		}
		return record(r.Kvs), nil
	}
	var now driver.Record
	var rev int64 // as of which now is the record
	tell := func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		if resp.Created {
			r, err := s.Get(ctx, clientv3.OpGet(key))
			if err != nil {
				return false, err
			}
			now, rev = record(r.Kvs), r.Rev
			return now.Version != known, nil
		}
		for _, ev := range resp.Events {
			switch { // a watch may show what the read has shown already
			case ev.Kv.ModRevision <= rev:
			case ev.Type == mvccpb.DELETE:
				now, rev = driver.Record{}, ev.Kv.ModRevision
			default:
				now, rev = record([]*mvccpb.KeyValue{ev.Kv}), ev.Kv.ModRevision
			}
		}
		return now.Version != known, nil
	}
	if err := s.Await(ctx, key, nil, tell); err != nil {
		return driver.Record{}, err
	}
	return now, nil
}

// record shows what a read of the record's key gave.
func record(kvs []*mvccpb.KeyValue) driver.Record {
	if len(kvs) == 0 {
		return driver.Record{}
	}
	return driver.Record{Value: kvs[0].Value, Version: driver.Version(kvs[0].ModRevision)}
}

// SetRecord puts the record if its key has the known mod revision, which is zero while
// there is no key. The key has no lease and stays (D4).
//
// The transaction compares the sentinel because nothing else would stop a late request
// once the session is closed (C1).
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if err := s.Alive(); err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > maxRecord {
		return 0, answer.Invalid("a record of %d bytes; it has 1 to %d", len(value), maxRecord)
	}
	key := s.keys.Record(queue)
	resp, err := s.Txn(ctx).
		If(keys.Unchanged(key, int64(known)), s.Living()).
		Then(clientv3.OpPut(key, string(value))).
		Else(s.ReadSentinel()).
		Commit()
	if answer.Is(err, rpctypes.ErrNoSpace) {
		return s.setOutOfSpace(ctx, key, value, known, err)
	}
	if err != nil {
		return 0, s.Failed(ctx, err)
	}
	if resp.Succeeded {
		return driver.Version(resp.Header.Revision), nil
	}
	if _, err := s.JudgeSentinel(resp.Responses[0].GetResponseRange().Kvs); err != nil {
		return 0, err
	}
	return 0, driver.ErrStale
}

// setOutOfSpace finds out what became of a write that was refused for want of space:
// see lease.Session.MadeWithoutSpace. Another session that has written the same value
// meanwhile has done what this call was to do.
func (s *session) setOutOfSpace(
	ctx context.Context, key string, value []byte, known driver.Version, refused error,
) (driver.Version, error) {
	r, err := s.Get(ctx, clientv3.OpGet(key))
	if err != nil {
		return 0, driver.Wrap(driver.ErrUnavailable, s.Failed(ctx, err)) // it may have been applied
	}
	now := record(r.Kvs)
	switch {
	case now.Version == known:
		return 0, s.Failed(ctx, refused)
	case bytes.Equal(now.Value, value):
		return now.Version, nil
	}
	return 0, driver.ErrStale
}
