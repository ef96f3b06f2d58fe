package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// wait is what one call of Watch for one place waits for. Its events are those of the one entry and, of a foreign
// key that is made again, of later ones.
type wait struct {
	entry
	shown int64 // a revision at which a view showed the entry, or 0
}

// entries reads the handles of places: the create revisions, by key, and the newest of all. gone says that the places
// themselves show that one has left.
func (s *session) entries(line driver.Line, places []driver.Place) (made map[string]int64, newest entry, gone bool, err error) {
	if len(places) == 0 {
		return nil, newest, false, invalid("no places to watch")
	}
	made = make(map[string]int64, len(places))
	for _, p := range places {
		e, ok := s.keys.entry(line, p)
		if !ok {
			return nil, newest, false, invalid("%q is no place of line %q", p.Key, line)
		}
		if old, twice := made[e.key]; twice && old != e.rev {
			return nil, newest, true, nil // two lives of one foreign key: the older one is over
		}
		made[e.key] = e.rev
		if e.rev > newest.rev {
			newest = e
		}
	}
	return made, newest, false, nil
}

// Watch waits on the caller's own goroutine, once the watch is there: of the one place, or of the line for several. Creating watches
// takes a round trip each, one after the other, and each would want a look and a goroutine. What one for all costs is that
// the events of others in the line arrive here too; they go no further (W2). When ctx ends, the client tells the server
// to drop the watch (W3).
//
// While the service cannot be reached at all the client goes on trying by itself, and so does
// the wait; ErrUnavailable is for a service that answers without having a quorum (W4).
func (s *session) Watch(ctx context.Context, line driver.Line, places ...driver.Place) error {
	if err := s.alive(); err != nil {
		return err
	}
	made, newest, gone, err := s.entries(line, places)
	switch {
	case err != nil || gone:
		return err
	case len(made) > 1:
		return s.awaitAny(ctx, line, made, newest.rev)
	}
	w := &wait{entry: newest}
	if near := s.nearest.Load(); near != nil && near.key == places[0].Key {
		w.shown = near.rev
	}
	return s.awaitLeaving(ctx, w)
}

// awaitLeaving returns nil when the one place is gone. Puts are not sent: they say nothing of a leaving.
func (s *session) awaitLeaving(ctx context.Context, w *wait) error {
	return s.await(ctx, w.key, []clientv3.OpOption{clientv3.WithFilterPut()}, func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		return s.told(ctx, w, resp)
	})
}

// told handles one message of the watch.
func (s *session) told(ctx context.Context, w *wait, resp clientv3.WatchResponse) (gone bool, err error) {
	if resp.Created {
		return s.look(ctx, w, resp.Header.Revision)
	}
	for _, ev := range resp.Events {
		// A watch that was resumed may show the end of an earlier life of a foreign key.
		if w.goes(ev) {
			s.learn(ev.Kv.ModRevision)
			return true, nil
		}
	}
	return false, nil
}

// look reads the entry once, at or after the revision at which its watch existed.
// Without it a leaving just before the watch would never be told. The client's own
// resuming relies on it as well: it starts again at that revision, not at the one from
// which the server's watch really counted, which may be a little older.
//
// The member that serves the watch may be behind the one that showed the entry, and not have it
// yet. To it the entry is not gone, so the look is no older than that.
func (s *session) look(ctx context.Context, w *wait, since int64) (gone bool, err error) {
	if w.shown >= since {
		return false, nil // nothing happened in between
	}
	r, err := s.read(ctx, max(since, w.rev), clientv3.OpGet(w.key, clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(w.rev)))
	if err != nil {
		return false, err
	}
	if !w.in(r.kvs) {
		s.learn(r.rev)
		return true, nil
	}
	return false, nil
}

// learn remembers that the session was told about revision rev.
func (s *session) learn(rev int64) {
	for old := s.seen.Load(); old < rev; old = s.seen.Load() {
		if s.seen.CompareAndSwap(old, rev) {
			return
		}
	}
}
