package etcd

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// Ahead reads the queue from the member at hand, without a quorum. Entries ahead can
// only disappear, so an old view shows at worst one that is gone. But the view must
// not be older than own's join, or it lacks entries that are ahead, and not older than
// what Watch has shown, or the caller waits for an entry that it knows to be gone (V1).
//
// The server leaves out entries behind own, except converted ones: they are few, and
// their create revisions do not tell on which side they are. It counts all entries.
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	if err := s.Alive(); err != nil {
		return driver.View{}, err
	}
	if own == (driver.Place{}) {
		return s.whole(ctx, queue)
	}
	me, ok := s.keys.Entry(queue, own)
	if !ok {
		return driver.View{}, driver.ErrGone
	}
	upToMe := clientv3.WithMaxCreateRev(s.keys.Rank(queue, me))
	ops := s.queueOps(queue, clientv3.WithKeysOnly(), upToMe)
	r, err := s.Read(ctx, max(me.Rev, s.Seen()), ops...)
	if err != nil {
		return driver.View{}, s.Failed(ctx, err)
	}
	if own, err := s.own(queue, own); err == nil {
		for _, kv := range r.Kvs { // left over, or its follower would have removed it
			if keys.IsMark(string(kv.Key)) {
				s.memory.noteMark(own.contender, string(kv.Key))
			}
		}
	}
	entries := s.keys.InOrder(queue, r.Kvs)
	i := slices.IndexFunc(entries, func(h driver.Head) bool { return h.Key == me.Handle() })
	if i < 0 {
		return driver.View{}, driver.ErrGone
	}
	return driver.View{Ahead: keys.Places(entries[:i]), Last: r.Count == int64(i)+1}, nil
}

// whole reads all places by quorum (V4).
func (s *session) whole(ctx context.Context, queue driver.Queue) (driver.View, error) {
	r, err := s.Get(ctx, s.allKeys(queue))
	if err != nil {
		return driver.View{}, s.Failed(ctx, err)
	}
	return driver.View{Ahead: keys.Places(s.keys.InOrder(queue, r.Kvs)), Last: true}, nil
}

// allKeys reads the keys of a queue.
func (s *session) allKeys(queue driver.Queue) clientv3.Op {
	return clientv3.OpGet(s.keys.Queue(queue), clientv3.WithPrefix(), clientv3.WithKeysOnly())
}

// List reads by quorum, which makes it as new as anything that was finished before
// (S1).
func (s *session) List(
	ctx context.Context, queue driver.Queue, limit int,
) ([]driver.Entry, error) {
	if err := s.Alive(); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, answer.Invalid("limit %d", limit)
	}
	r, err := s.first(ctx, queue, limit, s.Get)
	if err != nil {
		return nil, s.Failed(ctx, err)
	}
	return keys.Entries(s.keys.InOrder(queue, r.Kvs), limit), nil
}

// reader is Get of a session, or Read.
type reader func(ctx context.Context, ops ...clientv3.Op) (lease.Reading, error)

// first reads the first limit entries of a queue with their values, and maybe others;
// all if limit is 0. Markers count for the service's limit, and if there are any among
// what it returns, first reads the whole queue.
//
// With a limit the server sorts, so that only what is wanted travels; that work is
// done once and off the apply path, since a transaction that only reads is not
// applied. It sorts by create revision. A conversion only raises the create revision,
// and converted entries are all read, so none of the first entries is missed.
func (s *session) first(
	ctx context.Context, queue driver.Queue, limit int, get reader,
) (lease.Reading, error) {
	all := clientv3.OpGet(s.keys.Queue(queue), clientv3.WithPrefix())
	if limit == 0 {
		return get(ctx, all)
	}
	r, err := get(ctx, s.queueOps(queue, clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))...)
	isMark := func(kv *mvccpb.KeyValue) bool { return keys.IsMark(string(kv.Key)) }
	if err == nil && r.Count > int64(limit) && slices.ContainsFunc(r.Kvs, isMark) {
		return get(ctx, all)
	}
	return r, err
}

// queueOps reads what the options select of a queue, and all converted entries.
func (s *session) queueOps(queue driver.Queue, opts ...clientv3.OpOption) []clientv3.Op {
	key, end := s.keys.AllConverted(queue)
	values := []clientv3.OpOption{clientv3.WithRange(end)}
	all := clientv3.OpGet(s.keys.Queue(queue), append(opts, clientv3.WithPrefix())...)
	if all.IsKeysOnly() {
		values = append(values, clientv3.WithKeysOnly())
	}
	return []clientv3.Op{all, clientv3.OpGet(key, values...)}
}
