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

const maxRecord = 64 << 10 // bytes

// Record waits for a change of the record's key. The version is the mod
// revision, or zero if there is no key.
//
// The read after the creation of the watch is by quorum: the record must be as
// new as the calls that this session has finished, on any member (D1). From
// then on the events are enough.
func (s *session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	if err := s.Alive(); err != nil {
		return driver.Record{}, err
	}
	key := s.keys.Record(queue)
	var now driver.Record
	var rev int64 // the revision of now
	read := func(ctx context.Context) error {
		r, err := s.Get(ctx, clientv3.OpGet(key))
		now, rev = record(r.Kvs), r.Rev
		return err
	}
	if known == driver.Any {
		err := s.Failed(ctx, read(ctx))
		return now, err
	}
	handle := func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		if resp.Created {
			err := read(ctx)
			return err == nil && now.Version != known, err
		}
		for _, ev := range resp.Events {
			if ev.Kv.ModRevision <= rev {
				continue // older than the read
			}
			now, rev = driver.Record{}, ev.Kv.ModRevision
			if ev.Type == mvccpb.PUT {
				now = record([]*mvccpb.KeyValue{ev.Kv})
			}
		}
		return now.Version != known, nil
	}
	err := s.Await(ctx, key, nil, handle)
	return now, err
}

func record(kvs []*mvccpb.KeyValue) driver.Record {
	if len(kvs) == 0 {
		return driver.Record{}
	}
	return driver.Record{Value: kvs[0].Value, Version: driver.Version(kvs[0].ModRevision)}
}

// SetRecord puts the record if its key has the known mod revision, zero for no
// key. The key has no lease and stays (D4).
//
// The transaction compares the sentinel, which stops late requests once the
// session is closed (C1).
//
// With Any it sends nothing: Record reads by quorum, so it is as new as all
// finished calls of all sessions.
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if err := s.Alive(); err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > maxRecord {
		return 0, answer.Invalid("a record of %d bytes; it has 1 to %d", len(value), maxRecord)
	}
	if known == driver.Any {
		return 0, driver.ErrStale
	}
	key := s.keys.Record(queue)
	resp, err := s.Txn(ctx).
		If(keys.Unchanged(key, int64(known)), s.Sentinel.Exists()).
		Then(clientv3.OpPut(key, string(value))).
		Else(s.ReadSentinel()).
		Commit()
	if answer.Is(err, rpctypes.ErrNoSpace) { // see lease.Session.MadeWithoutSpace
		r, unread := s.Get(ctx, clientv3.OpGet(key))
		if unread != nil {
			return 0, driver.Wrap(driver.ErrUnavailable, s.Failed(ctx, unread))
		}
		now := record(r.Kvs)
		if now.Version != known && bytes.Equal(now.Value, value) {
			return now.Version, nil // or another session wrote the same, which is as good
		}
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
