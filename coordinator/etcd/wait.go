package etcd

import (
	"context"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
)

// WatchQueue reads the queue once its watch exists, by quorum, and keeps the view up
// to date by the events: nothing is read again. Written values and handoff markers
// change nothing in it.
func (s *session) WatchQueue(
	ctx context.Context, queue driver.Queue, show func([]driver.Place) bool,
) error {
	if err := s.Alive(); err != nil {
		return err
	}
	q := &queueView{keys: s.keys, queue: queue}
	tell := func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		changed := resp.Created
		if resp.Created {
			r, err := s.readWithin(ctx, s.allKeys(queue))
			if err != nil {
				return false, err
			}
			q.entries, q.rev = s.keys.InOrder(queue, r.Kvs), r.Rev
		}
		for _, ev := range resp.Events {
			if ev.Kv.ModRevision > q.rev { // else the read has shown it
				changed = q.apply(ev) || changed
			}
		}
		s.Learn(max(q.rev, watch.Newest(resp)))
		return changed && !show(keys.Places(q.entries)), nil
	}
	return s.Await(ctx, s.keys.Queue(queue), []clientv3.OpOption{clientv3.WithPrefix()}, tell)
}

// queueView is a queue as of a revision.
type queueView struct {
	keys    keys.Layout
	queue   driver.Queue
	entries []driver.Head // in order, without values
	rev     int64         // of the read that it began with
}

// apply applies one event, and reports whether it has changed the view.
func (q *queueView) apply(ev *clientv3.Event) bool {
	key := string(ev.Kv.Key)
	written := ev.Type == mvccpb.PUT && ev.Kv.CreateRevision != ev.Kv.ModRevision
	if keys.IsMark(key) || written {
		return false
	}
	if ev.Type == mvccpb.DELETE {
		n := len(q.entries)
		q.entries = slices.DeleteFunc(q.entries, func(h driver.Head) bool {
			return strings.HasPrefix(h.Key, key+"@") // which the create revision follows
		})
		return len(q.entries) < n
	}
	h := q.keys.Head(q.queue, ev.Kv)
	h.Value = nil
	i, _ := slices.BinarySearchFunc(q.entries, h, keys.Before)
	q.entries = slices.Insert(q.entries, i, h)
	return true
}

// readWithin is Get for a quarter of the TTL: a read that is stuck at a silent
// member would stop all contenders that share the watch.
func (s *session) readWithin(ctx context.Context, op clientv3.Op) (lease.Reading, error) {
	bound, cancel := context.WithTimeout(ctx, s.TTL()/4)
	defer cancel()
	r, err := s.Get(bound, op)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		err = driver.Wrap(driver.ErrUnavailable, bound.Err())
	}
	return r, err
}
