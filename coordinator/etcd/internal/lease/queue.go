package lease

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
)

// Layout names the keys of queues. Session has the methods that need no more.
type Layout interface {
	// Queue is the prefix of all keys of a queue.
	Queue(queue driver.Queue) string
	// Entry parses the handle of a place of the queue.
	Entry(queue driver.Queue, p driver.Place) (keys.Entry, bool)
	// Named is the entry with this handle and token.
	Named(queue driver.Queue, handle string, token driver.Token) (keys.Entry, bool)
	// First reads the first entries of a queue, and maybe others.
	First(queue driver.Queue, limit int) []clientv3.Op
	// InOrder returns the entries among keys of a queue, in order.
	InOrder(queue driver.Queue, kvs []*mvccpb.KeyValue) []driver.Head
}

// Watch waits until one of the places is gone.
func (s *Session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	if err := s.Alive(); err != nil {
		return err
	}
	if len(places) == 0 {
		return answer.Invalid("no places to watch")
	}
	entries := make([]keys.Entry, len(places))
	for i, p := range places {
		var ok bool
		if entries[i], ok = s.layout.Entry(queue, p); !ok {
			return answer.Invalid("%q is no place of queue %q", p.Key, queue)
		}
	}
	return s.awaitLeaving(ctx, s.layout.Queue(queue), entries...)
}

// List reads by quorum, so it is as new as all finished calls (S1).
func (s *Session) List(
	ctx context.Context, queue driver.Queue, limit int,
) ([]driver.Entry, error) {
	if err := s.Alive(); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, answer.Invalid("limit %d", limit)
	}
	get := s.Get
	if limit == 1 {
		get = s.getFirst(queue)
	}
	r, err := s.first(ctx, queue, limit, get)
	if err != nil {
		return nil, s.Failed(ctx, err)
	}
	heads := s.layout.InOrder(queue, r.Kvs)
	s.noteFirst(queue, heads)
	if limit > 0 {
		heads = heads[:min(limit, len(heads))]
	}
	entries := make([]driver.Entry, len(heads))
	for i, h := range heads {
		entries[i] = h.Entry
	}
	return entries, nil
}

// first reads the first limit entries of a queue with their values, and maybe
// others; all by quorum if limit is 0. Markers count for the service's limit.
// If it returns any, first reads the whole queue.
func (s *Session) first(
	ctx context.Context, queue driver.Queue, limit int, get getter,
) (Reading, error) {
	if limit == 0 {
		return s.All(ctx, queue, true)
	}
	r, err := get(ctx, s.layout.First(queue, limit)...)
	isMarker := func(kv *mvccpb.KeyValue) bool { return keys.IsMarker(string(kv.Key)) }
	if err == nil && r.Count > int64(limit) && slices.ContainsFunc(r.Kvs, isMarker) {
		return s.All(ctx, queue, true)
	}
	return r, err
}

// Head reads the queue by quorum, so the state is as new as any returned before
// (H1). If it is the known one, Head watches the first entry's key alone (H2):
// no entry gets ahead of the first, so the head changes only with that key. It
// watches an empty queue as a whole, for puts: the next contender is the head.
//
// The version is the mod revision of the first entry's key. No two entries of a
// queue are created or written in one revision, so different heads never share
// a version.
func (s *Session) Head(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Head, error) {
	if err := s.Alive(); err != nil {
		return driver.Head{}, err
	}
	var r Reading
	err := s.within(ctx, func(ctx context.Context) (err error) {
		r, err = s.first(ctx, queue, 1, s.getFirst(queue))
		return err
	})
	if err != nil {
		return driver.Head{}, s.Failed(ctx, err)
	}
	head := s.head(queue, r.Kvs)
	if head.Version != known { // always if known is Any
		return head, nil
	}
	first, ok := s.layout.Entry(queue, head.Place)
	key, opts := first.Key, []clientv3.OpOption(nil)
	if !ok {
		key = s.layout.Queue(queue)
		opts = []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterDelete()}
	}
	handle := func(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error) {
		shown := watch.Newest(resp)
		if shown <= r.Rev {
			return false, nil // not newer than the read
		}
		if kv := rewritten(first, resp); kv != nil {
			r = Reading{Rev: shown, Kvs: []*mvccpb.KeyValue{kv}}
		} else {
			since := func(ctx context.Context, ops ...clientv3.Op) (Reading, error) {
				return s.Read(ctx, shown, ops...)
			}
			err = s.within(ctx, func(ctx context.Context) (err error) {
				r, err = s.first(ctx, queue, 1, since)
				return err
			})
		}
		head = s.head(queue, r.Kvs)
		return head.Version != known, err
	}
	if err := s.Await(ctx, key, opts, handle); err != nil {
		return driver.Head{}, err
	}
	return head, nil
}

func (s *Session) head(queue driver.Queue, kvs []*mvccpb.KeyValue) driver.Head {
	entries := s.layout.InOrder(queue, kvs)
	s.noteFirst(queue, entries)
	if len(entries) == 0 {
		return driver.Head{}
	}
	return entries[0]
}

// rewritten returns the first entry's key from a watch message whose last event
// is a write of the entry: then the entry is still the first, without another
// read. Otherwise only a read shows which entry is first: a deletion does not
// name the next entry, and a contender that joined an empty queue may have left
// since.
func rewritten(first keys.Entry, resp clientv3.WatchResponse) *mvccpb.KeyValue {
	if len(resp.Events) == 0 {
		return nil
	}
	last := resp.Events[len(resp.Events)-1]
	if last.Type != mvccpb.PUT || last.Kv.CreateRevision != first.Rev {
		return nil // a recreated foreign key is another entry
	}
	return last.Kv
}

// Put writes the value into the key of the session's entry, which keeps its
// create revision and thus its place; watches for a deletion do not show puts.
// It returns the new mod revision.
//
// The transaction compares the mod revision. So a late request fails once a
// later Put has succeeded (P1), or the contender has left (P2). If the revision
// differs because an earlier request without a reply was applied, the
// transaction is sent again with the new one. One earlier call causes each
// refusal, so that ends.
func (s *Session) Put(ctx context.Context, e keys.Entry, mod int64, value []byte) (int64, error) {
	for {
		resp, err := s.Txn(ctx).
			If(e.Exists(), keys.Unchanged(e.Key, mod)).
			Then(clientv3.OpPut(e.Key, string(value), clientv3.WithIgnoreLease())).
			Else(clientv3.OpGet(e.Key, clientv3.WithKeysOnly())).
			Commit()
		if err != nil {
			return 0, s.Failed(ctx, err)
		}
		if resp.Succeeded {
			return resp.Header.Revision, nil
		}
		kvs := resp.Responses[0].GetResponseRange().Kvs
		if !e.In(kvs) {
			return 0, driver.ErrGone
		}
		mod = kvs[0].ModRevision
	}
}
