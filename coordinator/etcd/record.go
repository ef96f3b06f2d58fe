package etcd

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// maxRecord is the most that a record may have, in bytes.
const maxRecord = 64 << 10

// Record waits on the record's key. Its version is the mod revision, zero as long as there is no key.
//
// The look that follows the creation of the watch is a quorum read, since the record must be as new as
// what this session finished before, wherever that was applied (D1). After it the events say
// all there is to know, and no further read is needed.
func (s *session) Record(ctx context.Context, line driver.Line, known driver.Version) (driver.Record, error) {
	if err := s.alive(); err != nil {
		return driver.Record{}, err
	}
	key := s.keys.record(line)
	if known == driver.Any {
		r, err := s.get(ctx, clientv3.OpGet(key))
		if err != nil {
			return driver.Record{}, s.failed(ctx, err)
		}
		now := record(r.kvs)
		s.finished(line, int64(now.Version))
		return now, nil
	}
	var now driver.Record
	var rev int64 // as of which now is the record
	err := s.await(ctx, key, nil, func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		if resp.Created {
			r, err := s.get(ctx, clientv3.OpGet(key))
			if err != nil {
				return false, err
			}
			now, rev = record(r.kvs), r.rev
			return now.Version != known, nil
		}
		for _, ev := range resp.Events {
			switch { // a watch may tell of what the look has shown already
			case ev.Kv.ModRevision <= rev:
			case ev.Type == mvccpb.DELETE:
				now, rev = driver.Record{}, ev.Kv.ModRevision
			default:
				now, rev = record([]*mvccpb.KeyValue{ev.Kv}), ev.Kv.ModRevision
			}
		}
		return now.Version != known, nil
	})
	if err != nil {
		return driver.Record{}, err
	}
	s.finished(line, rev)
	return now, nil
}

// record shows what a read of the record's key gave.
func record(kvs []*mvccpb.KeyValue) driver.Record {
	if len(kvs) == 0 {
		return driver.Record{}
	}
	return driver.Record{Value: kvs[0].Value, Version: driver.Version(kvs[0].ModRevision)}
}

// SetRecord puts the record if its key has the known mod revision, which is zero while there is no key.
// It has no lease and stays (D4).
//
// The sentinel is compared because nothing else would stop a request that is late once the session is closed (C1).
func (s *session) SetRecord(
	ctx context.Context, line driver.Line, value []byte, known driver.Version,
) (driver.Version, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > maxRecord {
		return 0, invalid("a record of %d bytes; it has 1 to %d", len(value), maxRecord)
	}
	key := s.keys.record(line)
	resp, err := s.c.Txn(s.lead(ctx)).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(known)), s.living()).
		Then(clientv3.OpPut(key, string(value))).
		Else(s.readSentinel()).
		Commit()
	if isAnswer(err, rpctypes.ErrNoSpace) {
		return s.setOutOfSpace(ctx, key, value, known, err)
	}
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	if resp.Succeeded {
		return driver.Version(resp.Header.Revision), nil
	}
	if err := s.judgeSentinel(resp.Responses[0].GetResponseRange().Kvs); err != nil {
		return 0, err
	}
	return 0, driver.ErrStale
}

// setOutOfSpace finds out what became of a write that was refused for want of space: see madeWithoutSpace. Whoever else has
// written the same value meanwhile has done what this call was to do.
func (s *session) setOutOfSpace(
	ctx context.Context, key string, value []byte, known driver.Version, refused error,
) (driver.Version, error) {
	r, err := s.get(ctx, clientv3.OpGet(key))
	if err != nil {
		return 0, driver.Wrap(driver.ErrUnavailable, s.failed(ctx, err)) // it may have been applied
	}
	now := record(r.kvs)
	switch {
	case now.Version == known:
		return 0, s.failed(ctx, refused)
	case bytes.Equal(now.Value, value):
		return now.Version, nil
	}
	return 0, driver.ErrStale
}
