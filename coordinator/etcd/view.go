package etcd

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// sighting is a place and a revision at which a view showed it.
type sighting struct {
	key string
	rev int64
}

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
	if err := s.alive(); err != nil {
		return driver.View{}, err
	}
	if own == (driver.Place{}) {
		return s.whole(ctx, queue)
	}
	me, ok := s.keys.entry(queue, own)
	if !ok {
		return driver.View{}, driver.ErrGone
	}
	ops := s.queueOps(queue, clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(s.keys.rank(queue, me)))
	r, err := s.read(ctx, max(me.rev, s.seen.Load()), ops...)
	if err != nil {
		return driver.View{}, s.failed(ctx, err)
	}
	if own, err := s.own(queue, own); err == nil {
		for _, kv := range r.kvs { // left over, or whoever follows would have removed it
			if isMark(string(kv.Key)) {
				s.memory.noteMark(own.contender, string(kv.Key))
			}
		}
	}
	standing := s.keys.inOrder(queue, r.kvs)
	i := slices.IndexFunc(standing, func(h driver.Head) bool { return h.Key == me.handle() })
	if i < 0 {
		return driver.View{}, driver.ErrGone
	}
	v := driver.View{Ahead: places(standing[:i]), Last: r.count == int64(i)+1}
	if i > 0 {
		s.nearest.Store(&sighting{v.Ahead[i-1].Key, r.rev})
	}
	return v, nil
}

// whole reads all places by quorum (V4).
func (s *session) whole(ctx context.Context, queue driver.Queue) (driver.View, error) {
	r, err := s.get(ctx, clientv3.OpGet(s.keys.queue(queue), clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return driver.View{}, s.failed(ctx, err)
	}
	return driver.View{Ahead: places(s.keys.inOrder(queue, r.kvs)), Last: true}, nil
}

func places(standing []driver.Head) []driver.Place {
	places := make([]driver.Place, len(standing))
	for i, h := range standing {
		places[i] = h.Place
	}
	return places
}

// List reads by quorum, which makes it as new as anything that anybody finished
// before (S1).
func (s *session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, invalid("limit %d", limit)
	}
	r, err := s.first(ctx, queue, limit, s.get)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	standing := s.keys.inOrder(queue, r.kvs)
	if limit > 0 {
		standing = standing[:min(limit, len(standing))]
	}
	entries := make([]driver.Entry, len(standing))
	for i, h := range standing {
		entries[i] = h.Entry
	}
	return entries, nil
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
		return []clientv3.Op{clientv3.OpGet(s.keys.queue(queue), clientv3.WithPrefix())}
	}
	return s.queueOps(queue, clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// first reads the first limit entries of a queue, and maybe others; all if limit
// is 0. Marks count for the service's limit, and if they leave too little of
// it, all is read.
func (s *session) first(
	ctx context.Context, queue driver.Queue, limit int, get func(context.Context, ...clientv3.Op) (reading, error),
) (reading, error) {
	r, err := get(ctx, s.firstOps(queue, limit)...)
	if err == nil && limit > 0 && r.count > int64(limit) && slices.ContainsFunc(r.kvs, func(kv *mvccpb.KeyValue) bool { return isMark(string(kv.Key)) }) {
		return get(ctx, s.firstOps(queue, 0)...)
	}
	return r, err
}

// lineOps reads what the options select of a queue, and in any case all that was converted.
func (s *session) queueOps(queue driver.Queue, opts ...clientv3.OpOption) []clientv3.Op {
	key, end := s.keys.allConverted(queue)
	var values []clientv3.OpOption
	all := clientv3.OpGet(s.keys.queue(queue), append(opts, clientv3.WithPrefix())...)
	if all.IsKeysOnly() {
		values = append(values, clientv3.WithKeysOnly())
	}
	return []clientv3.Op{all, clientv3.OpGet(key, append(values, clientv3.WithRange(end))...)}
}

// reading is what one request read, all of it at one revision.
type reading struct {
	rev   int64
	kvs   []*mvccpb.KeyValue // of all ranges that it asked for
	count int64              // of all keys in the first range, those that options left out included
}

// read gets a view that is at least as new as revision floor: from the member at hand if it
// has come that far, as the revision in its answer says, and by quorum
// otherwise. Asking it for the very revision would do, too, but fails once that
// is compacted.
func (s *session) read(ctx context.Context, floor int64, ops ...clientv3.Op) (reading, error) {
	local := slices.Clone(ops)
	for i := range local {
		clientv3.WithSerializable()(&local[i])
	}
	r, err := s.get(ctx, local...)
	if err == nil && r.rev < floor {
		return s.get(ctx, ops...)
	}
	return r, err
}

// get reads ranges in one request: by quorum, unless all of them ask for less.
// A transaction of reads is answered from one revision. For a single range it
// is not needed, and the client repeats a plain read by itself when a
// connection breaks.
func (s *session) get(ctx context.Context, ops ...clientv3.Op) (reading, error) {
	ctx = s.lead(ctx)
	if len(ops) == 1 {
		resp, err := s.c.Do(ctx, ops[0])
		if err != nil {
			return reading{}, err
		}
		r := resp.Get()
		return reading{r.Header.Revision, r.Kvs, r.Count}, nil
	}
	resp, err := s.c.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return reading{}, err
	}
	r := reading{rev: resp.Header.Revision, count: resp.Responses[0].GetResponseRange().Count}
	for _, one := range resp.Responses {
		r.kvs = append(r.kvs, one.GetResponseRange().Kvs...)
	}
	return r, nil
}
