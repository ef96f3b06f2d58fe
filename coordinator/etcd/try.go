package etcd

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// look returns ErrTaken if a contender with Alone cannot be alone: see
// lease.Session.Look. A repeated join needs its transaction, which settles the
// earlier one.
func (s *session) look(ctx context.Context, a *attempt) error {
	if !a.Alone || a.Again {
		return nil
	}
	kvs, err := s.Look(ctx, a.queue, s.someKeys(a.queue))
	if err == nil && slices.ContainsFunc(kvs, isEntry) {
		err = driver.ErrTaken
	}
	if err != nil {
		s.memory.drop(a.prefix) // nothing was sent that makes an entry
	}
	return err
}

func isEntry(kv *mvccpb.KeyValue) bool { return !keys.IsMarker(string(kv.Key)) }

// someKeys reads the first keys of a queue: as many as there may be markers to
// delete.
func (s *session) someKeys(queue driver.Queue) clientv3.Op {
	return clientv3.OpGet(s.keys.Queue(queue), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithLimit(mostMarks))
}
