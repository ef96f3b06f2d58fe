package etcd

import (
	"cmp"
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

// Ahead reads the line from the member at hand, without a quorum. Who stands
// ahead can only disappear, so a view that is old shows at worst one who has
// left; but it must not be older than own's join, or it lacks some who stand
// ahead, and not older than what Watch told, or the caller waits for one whose leaving
// it knows (V1).
//
// Entries behind own are left out by the server.
func (s *session) Ahead(ctx context.Context, line driver.Line, own driver.Place) ([]driver.Place, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	me, ok := s.keys.entry(line, own)
	if !ok {
		return nil, driver.ErrGone
	}
	resp, err := s.read(ctx, max(me.rev, s.seen.Load()), s.keys.line(line),
		clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(me.rev))
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	kvs := resp.Kvs
	byAge(kvs)
	last := len(kvs) - 1
	if last < 0 || string(kvs[last].Key) != me.key || kvs[last].CreateRevision != me.rev {
		return nil, driver.ErrGone
	}
	places := make([]driver.Place, last)
	for i, kv := range kvs[:last] {
		places[i] = s.keys.place(line, kv)
	}
	if last > 0 {
		s.nearest.Store(&sighting{places[last-1].Key, resp.Header.Revision})
	}
	return places, nil
}

// read gets a view that is at least as new as revision floor: from the member at hand if it
// has come that far, as the revision in its answer says, and by quorum
// otherwise. Asking it for the very revision would do, too, but fails once that
// is compacted.
func (s *session) read(
	ctx context.Context, floor int64, key string, opts ...clientv3.OpOption,
) (*clientv3.GetResponse, error) {
	ctx = withLeader(ctx)
	resp, err := s.c.Get(ctx, key, append(slices.Clip(opts), clientv3.WithSerializable())...)
	if err == nil && resp.Header.Revision < floor {
		return s.c.Get(ctx, key, opts...)
	}
	return resp, err
}

// List reads by quorum, which makes it as new as anything that anybody finished
// before (S1). With a limit the server sorts, so that only what is wanted travels; outside
// a transaction that work is done once and off the apply path.
func (s *session) List(ctx context.Context, line driver.Line, limit int) ([]driver.Entry, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, invalid("limit %d", limit)
	}
	opts := []clientv3.OpOption{clientv3.WithPrefix()}
	if limit > 0 {
		opts = append(opts, clientv3.WithLimit(int64(limit)),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	}
	resp, err := s.c.Get(withLeader(ctx), s.keys.line(line), opts...)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	byAge(resp.Kvs)
	entries := make([]driver.Entry, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		entries[i] = driver.Entry{
			Place: s.keys.place(line, kv), Token: driver.Token(kv.CreateRevision), Value: kv.Value,
		}
	}
	return entries, nil
}

// byAge sorts keys in the order of the line. Equal create revisions come only from a
// foreign transaction that made several keys; their names settle it.
func byAge(kvs []*mvccpb.KeyValue) {
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int {
		return cmp.Or(cmp.Compare(a.CreateRevision, b.CreateRevision), slices.Compare(a.Key, b.Key))
	})
}
