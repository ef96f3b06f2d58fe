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

// Ahead reads the queue from the member at hand, without a quorum. Who stands
// ahead can only disappear, so a view that is old shows at worst one who has
// left; but it must not be older than own's join, or it lacks some who stand
// ahead, and not older than what Watch told, or the caller waits for one whose leaving
// it knows (V1).
//
// Entries behind own are left out by the server, except those that were
// converted: they are few, and their create revisions do not tell on which side
// they stand. The count is of all.
func (s *session) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
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
	ops := s.queueOps(queue, clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(s.keys.Rank(queue, me)))
	r, err := s.Read(ctx, max(me.Rev, s.Seen()), ops...)
	if err != nil {
		return driver.View{}, s.Failed(ctx, err)
	}
	if own, err := s.own(queue, own); err == nil {
		for _, kv := range r.Kvs { // left over, or whoever follows would have removed it
			if keys.IsMark(string(kv.Key)) {
				s.memory.noteMark(own.contender, string(kv.Key))
			}
		}
	}
	standing := s.keys.InOrder(queue, r.Kvs)
	i := slices.IndexFunc(standing, func(h driver.Head) bool { return h.Key == me.Handle() })
	if i < 0 {
		return driver.View{}, driver.ErrGone
	}
	return driver.View{Ahead: keys.Places(standing[:i]), Last: r.Count == int64(i)+1}, nil
}

// whole reads all places by quorum (V4).
func (s *session) whole(ctx context.Context, queue driver.Queue) (driver.View, error) {
	r, err := s.Get(ctx, clientv3.OpGet(s.keys.Queue(queue), clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return driver.View{}, s.Failed(ctx, err)
	}
	return driver.View{Ahead: keys.Places(s.keys.InOrder(queue, r.Kvs)), Last: true}, nil
}

// List reads by quorum, which makes it as new as anything that anybody finished
// before (S1).
func (s *session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
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

// firstOps reads the first limit entries of a queue with their values, and maybe others; all of
// them if limit is 0.
//
// With a limit the server sorts, so that only what is wanted travels; that work
// is done once and off the apply path, since a transaction that only reads is
// not applied. It sorts by create revision. One that was not converted is no
// further back by that than in the queue, since a conversion only raises the
// create revision, of another. So none of the first is missed.
func (s *session) firstOps(queue driver.Queue, limit int) []clientv3.Op {
	if limit == 0 {
		return []clientv3.Op{clientv3.OpGet(s.keys.Queue(queue), clientv3.WithPrefix())}
	}
	return s.queueOps(queue, clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// first reads the first limit entries of a queue, and maybe others; all if limit
// is 0. Marks count for the service's limit, and if they leave too little of
// it, all is read.
func (s *session) first(
	ctx context.Context, queue driver.Queue, limit int, get func(context.Context, ...clientv3.Op) (lease.Reading, error),
) (lease.Reading, error) {
	r, err := get(ctx, s.firstOps(queue, limit)...)
	if err == nil && limit > 0 && r.Count > int64(limit) && slices.ContainsFunc(r.Kvs, func(kv *mvccpb.KeyValue) bool { return keys.IsMark(string(kv.Key)) }) {
		return get(ctx, s.firstOps(queue, 0)...)
	}
	return r, err
}

// lineOps reads what the options select of a queue, and in any case all that was converted.
func (s *session) queueOps(queue driver.Queue, opts ...clientv3.OpOption) []clientv3.Op {
	key, end := s.keys.AllConverted(queue)
	var values []clientv3.OpOption
	all := clientv3.OpGet(s.keys.Queue(queue), append(opts, clientv3.WithPrefix())...)
	if all.IsKeysOnly() {
		values = append(values, clientv3.WithKeysOnly())
	}
	return []clientv3.Op{all, clientv3.OpGet(key, append(values, clientv3.WithRange(end))...)}
}
