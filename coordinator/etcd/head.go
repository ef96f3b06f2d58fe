package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Head reads the line by quorum, which makes the state as new as all that anybody was told before (H1), and if
// it is the known one waits on the first entry's key alone (H2). Nobody gets ahead of the first entry, so
// as long as that key is not touched the head stays as it is. An empty line is
// watched whole, for puts: whoever comes is the head.
//
// The version is the mod revision of the first entry's key. Each entry is made or written in a revision
// of its own, so heads that are not the same never share one.
func (s *session) Head(ctx context.Context, line driver.Line, known driver.Version) (driver.Head, error) {
	if err := s.alive(); err != nil {
		return driver.Head{}, err
	}
	r, err := s.first(ctx, line, 1, s.get)
	if err != nil {
		return driver.Head{}, s.failed(ctx, err)
	}
	head := s.head(line, r)
	if head.Version != known { // always so if known is Any
		return head, nil
	}
	first, ok := s.keys.entry(line, head.Place)
	key, opts := first.key, []clientv3.OpOption(nil)
	if !ok {
		key, opts = s.keys.line(line), []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterDelete()}
	}
	err = s.await(ctx, key, opts, func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		told := newest(resp)
		if told <= r.rev {
			return false, nil // it tells of nothing that is newer than what was read
		}
		if kv := rewritten(first, resp); kv != nil {
			r = reading{rev: told, kvs: []*mvccpb.KeyValue{kv}}
		} else if newer, err := s.first(ctx, line, 1, func(ctx context.Context, ops ...clientv3.Op) (reading, error) {
			return s.read(ctx, told, ops...)
		}); err != nil {
			return false, err
		} else {
			r = newer
		}
		head = s.head(line, r)
		return head.Version != known, nil
	})
	if err != nil {
		return driver.Head{}, err
	}
	return head, nil
}

// head is the first of the entries that were read.
func (s *session) head(line driver.Line, r reading) driver.Head {
	standing := s.keys.inOrder(line, r.kvs)
	if len(standing) == 0 {
		return driver.Head{}
	}
	return standing[0]
}

// rewritten returns the first entry's key as the message of its watch shows it, if what it tells last is that the
// entry was written: then it is the first still, and a read of the line is saved. Otherwise nothing but a read says who is
// first: of an entry that left, the event does not say who is next, and who joined an empty line may have left since.
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
