package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
)

// Watch waits for one entry of this session with the session's own watch, if
// there are other waits for its entries: see waitsAlone.
func (s *session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	if len(places) != 1 {
		return s.Session.Watch(ctx, queue, places...)
	}
	e, ok := s.belongs(queue, places[0])
	if !ok {
		return s.Session.Watch(ctx, queue, places...)
	}
	if s.waitsAlone(queue) {
		defer s.doneAlone(queue)
		return s.Session.Watch(ctx, queue, places...)
	}
	if _, err := s.waitOwn(ctx, queue, e, mine{}); !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}

// WatchQueue reads the queue by quorum once its watch exists, and then updates
// the view by the events, without another read. It ignores written values and
// handoff markers.
func (s *session) WatchQueue(
	ctx context.Context, queue driver.Queue, show func([]driver.Place) bool,
) error {
	if err := s.Alive(); err != nil {
		return err
	}
	var entries []driver.Head // in order, without values
	var rev int64             // of the read
	handle := func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		changed := resp.Created
		if resp.Created {
			r, err := s.All(ctx, queue, false)
			if err != nil {
				return false, err
			}
			entries, rev = s.keys.InOrder(queue, r.Kvs), r.Rev
		}
		for _, ev := range resp.Events {
			written := ev.Type == mvccpb.PUT && ev.Kv.CreateRevision != ev.Kv.ModRevision
			if ev.Kv.ModRevision > rev && !written && !keys.IsMarker(string(ev.Kv.Key)) {
				entries, changed = s.apply(queue, entries, ev), true
			}
		}
		s.Learn(max(rev, watch.Newest(resp)))
		return changed && !show(keys.Places(entries)), nil
	}
	return s.Await(ctx, s.keys.Queue(queue), []clientv3.OpOption{clientv3.WithPrefix()}, handle)
}

// apply applies the event of a created or deleted entry.
func (s *session) apply(
	queue driver.Queue, entries []driver.Head, ev *clientv3.Event,
) []driver.Head {
	if ev.Type == mvccpb.DELETE {
		return slices.DeleteFunc(entries, func(h driver.Head) bool {
			return strings.HasPrefix(h.Key, string(ev.Kv.Key)+"@") // the create revision follows
		})
	}
	h := s.keys.Head(queue, ev.Kv)
	h.Value = nil
	i, _ := slices.BinarySearchFunc(entries, h, keys.Before)
	return slices.Insert(entries, i, h)
}
