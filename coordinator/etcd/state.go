package etcd

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Head reads the queue by quorum, which makes the state as new as all that
// anybody was told before (H1), and if it is the known one waits on the first
// entry's key alone (H2). Nobody gets ahead of the first entry, so as long as
// that key is not touched the head stays as it is. An empty queue is watched
// whole, for puts: whoever comes is the head.
//
// The version is the mod revision of the first entry's key. Each entry is made
// or written in a revision of its own, so heads that are not the same never
// share one.
func (s *session) Head(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
	if err := s.alive(); err != nil {
		return driver.Head{}, err
	}
	r, err := s.first(ctx, queue, 1, s.get)
	if err != nil {
		return driver.Head{}, s.failed(ctx, err)
	}
	head := s.head(queue, r)
	if head.Version != known { // always so if known is Any
		return head, nil
	}
	first, ok := s.keys.entry(queue, head.Place)
	key, opts := first.key, []clientv3.OpOption(nil)
	if !ok {
		key, opts = s.keys.queue(queue), []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterDelete()}
	}
	err = s.await(ctx, key, opts, func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		told := newest(resp)
		if told <= r.rev {
			return false, nil // it tells of nothing that is newer than what was read
		}
		if kv := rewritten(first, resp); kv != nil {
			r = reading{rev: told, kvs: []*mvccpb.KeyValue{kv}}
		} else if newer, err := s.first(ctx, queue, 1, func(ctx context.Context, ops ...clientv3.Op) (reading, error) {
			return s.read(ctx, told, ops...)
		}); err != nil {
			return false, err
		} else {
			r = newer
		}
		head = s.head(queue, r)
		return head.Version != known, nil
	})
	if err != nil {
		return driver.Head{}, err
	}
	return head, nil
}

// head is the first of the entries that were read.
func (s *session) head(queue driver.Queue, r reading) driver.Head {
	standing := s.keys.inOrder(queue, r.kvs)
	if len(standing) == 0 {
		return driver.Head{}
	}
	return standing[0]
}

// rewritten returns the first entry's key as the message of its watch shows it,
// if what it tells last is that the entry was written: then it is the first
// still, and a read of the queue is saved. Otherwise nothing but a read says who
// is first: of an entry that left, the event does not say who is next, and who
// joined an empty queue may have left since.
func rewritten(first entry, resp clientv3.WatchResponse) *mvccpb.KeyValue {
	if len(resp.Events) == 0 {
		return nil
	}
	last := resp.Events[len(resp.Events)-1]
	if last.Type != mvccpb.PUT || last.Kv.CreateRevision != first.rev {
		return nil // a foreign key that was made again is another entry
	}
	return last.Kv
}

// maxRecord is the most that a record may have, in bytes.
const maxRecord = 64 << 10

// Record waits on the record's key. Its version is the mod revision, zero as
// long as there is no key.
//
// The look that follows the creation of the watch is a quorum read, since the
// record must be as new as what this session finished before, wherever that was
// applied (D1). After it the events say all there is to know, and no further
// read is needed.
func (s *session) Record(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
	if err := s.alive(); err != nil {
		return driver.Record{}, err
	}
	key := s.keys.record(queue)
	if known == driver.Any {
		r, err := s.get(ctx, clientv3.OpGet(key))
		if err != nil {
			return driver.Record{}, s.failed(ctx, err)
		}
		now := record(r.kvs)
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
	return now, nil
}

// record shows what a read of the record's key gave.
func record(kvs []*mvccpb.KeyValue) driver.Record {
	if len(kvs) == 0 {
		return driver.Record{}
	}
	return driver.Record{Value: kvs[0].Value, Version: driver.Version(kvs[0].ModRevision)}
}

// SetRecord puts the record if its key has the known mod revision, which is
// zero while there is no key. It has no lease and stays (D4).
//
// The sentinel is compared because nothing else would stop a request that is
// late once the session is closed (C1).
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > maxRecord {
		return 0, invalid("a record of %d bytes; it has 1 to %d", len(value), maxRecord)
	}
	key := s.keys.record(queue)
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

// setOutOfSpace finds out what became of a write that was refused for want of
// space: see madeWithoutSpace. Whoever else has written the same value
// meanwhile has done what this call was to do.
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
