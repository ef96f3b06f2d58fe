package etcd

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// queuesPage is how many keys one request of Queues reads. The member walks its
// index of the rest of the namespace for each request, so many queues need
// large pages. Of a queue longer than a page only one page is read.
const queuesPage = 512

// Queues reads the names of keys, page by page, by quorum. After a page that
// ends inside a queue with an entry, the next page begins behind that queue.
func (s *session) Queues(ctx context.Context) ([]driver.Queue, error) {
	var queues []driver.Queue
	from, end := s.keys.All()
	for {
		if err := s.Alive(); err != nil {
			return nil, err
		}
		page := clientv3.OpGet(from, clientv3.WithRange(end),
			clientv3.WithLimit(queuesPage), clientv3.WithKeysOnly())
		r, err := s.Get(ctx, page)
		if err != nil {
			return nil, s.Failed(ctx, err)
		}
		for _, kv := range r.Kvs {
			queue, ok := s.keys.QueueOf(string(kv.Key))
			if !ok {
				from = string(kv.Key) + "\x00"
				continue
			}
			from = clientv3.GetPrefixRangeEnd(s.keys.Queue(queue))
			queues = append(queues, queue)
		}
		if r.Count <= int64(len(r.Kvs)) {
			return slices.Compact(queues), nil // the keys of a queue are contiguous
		}
	}
}

// Remove deletes one key if it is still the entry that the handle names. Like
// Leave, it writes no handoff marker and deletes a tail key that names the
// entry.
func (s *session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	e, err := s.Named(queue, key, token)
	if err != nil {
		return err
	}
	return s.Delete(ctx, e, s.onLeaving(queue, e, false, nil)...)
}
