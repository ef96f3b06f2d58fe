package etcd

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// Ahead reads the queue from the member at hand, without a quorum. Entries
// ahead can only disappear, so at worst a stale view shows an entry that is
// gone. But a view older than own's join could lack entries that are ahead. And
// a view older than the events of Watch would make the caller wait for an entry
// that it knows to be gone (V1).
//
// The server omits entries behind own, except converted ones: they are few, and
// their create revisions do not show their places. It counts all entries.
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	if err := s.Alive(); err != nil {
		return driver.View{}, err
	}
	if own == (driver.Place{}) {
		r, err := s.All(ctx, queue, false) // by quorum (V4)
		return driver.View{
			Ahead: keys.Places(s.keys.InOrder(queue, r.Kvs)), Last: true,
		}, s.Failed(ctx, err)
	}
	me, ok := s.keys.Entry(queue, own)
	if !ok {
		return driver.View{}, driver.ErrGone
	}
	upToMe := clientv3.WithMaxCreateRev(s.keys.Rank(queue, me))
	ops := s.keys.Read(queue, clientv3.WithKeysOnly(), upToMe)
	// Only where it counts: a user may be allowed to read the queue alone.
	terms, record := false, s.keys.Record(queue)
	mine, notMine := s.own(queue, own)
	s.memory.about(mine, func(k *known) { terms = k.terms })
	if terms {
		ops = append(ops, clientv3.OpGet(record, clientv3.WithKeysOnly()))
	}
	r, err := s.Read(ctx, max(me.Rev, s.Seen()), ops...)
	if err != nil {
		return driver.View{}, s.Failed(ctx, err)
	}
	var version driver.Version
	if n := len(r.Kvs); terms && n > 0 && string(r.Kvs[n-1].Key) == record {
		version, r.Kvs = driver.Version(r.Kvs[n-1].ModRevision), r.Kvs[:n-1]
	}
	if notMine == nil {
		for _, kv := range r.Kvs { // left over: its follower has not removed it
			if keys.IsMarker(string(kv.Key)) {
				s.memory.noteMark(mine, string(kv.Key))
			}
		}
	}
	entries := s.keys.InOrder(queue, r.Kvs)
	i := slices.IndexFunc(entries, func(h driver.Head) bool { return h.Key == me.Handle() })
	if i < 0 {
		return driver.View{}, driver.ErrGone
	}
	last := r.Count == int64(i)+1
	if i == 0 && last {
		s.memory.isAlone(queue)
	}
	return driver.View{Ahead: keys.Places(entries[:i]), Last: last, Record: version}, nil
}
