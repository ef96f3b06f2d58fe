package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

var errWatchEnded = errors.New("etcd: the watch ended")

// wait is what one call of Watch waits for.
type wait struct {
	key    string // what to watch: the one entry's key,
	end    string // or the range from key to end
	places map[string]int64
	newest int64 // the greatest create revision of the places
	shown  int64 // a revision at which a view showed the one entry, or 0
}

// newWait watches one key. Its events are those of the one entry and, of a foreign
// key that is made again, of later ones.
func newWait(e entry) *wait {
	return &wait{key: e.key, places: map[string]int64{e.key: e.rev}, newest: e.rev}
}

// wait finds what to watch for the given places. Several of them take one watch on the
// line and not one each: creating watches takes a round trip each, one after the other,
// and each would want a look and a goroutine. What it costs is that the deletions of
// others in the line arrive here too; they go no further (W2).
//
// It returns nil if the places themselves show that one is gone.
func (s *session) wait(line driver.Line, places []driver.Place) (*wait, error) {
	if len(places) == 0 {
		return nil, invalid("no places to watch")
	}
	w := &wait{places: make(map[string]int64, len(places))}
	for _, p := range places {
		e, ok := s.keys.entry(line, p)
		if !ok {
			return nil, invalid("%q is no place of line %q", p.Key, line)
		}
		if old, twice := w.places[e.key]; twice && old != e.rev {
			return nil, nil // two lives of one foreign key: the older one is over
		}
		w.key, w.newest = e.key, max(w.newest, e.rev)
		w.places[e.key] = e.rev
	}
	if len(w.places) > 1 {
		w.key = s.keys.line(line)
		w.end = clientv3.GetPrefixRangeEnd(w.key)
	} else if near := s.nearest.Load(); near != nil && near.key == places[0].Key {
		w.shown = near.rev
	}
	return w, nil
}

// Watch waits on the caller's own goroutine, once the watch is there. When ctx ends, the client tells the server
// to drop the watch (W3).
//
// While the service cannot be reached at all the client goes on trying by itself, and so does
// the wait; ErrUnavailable is for a service that answers without having a quorum (W4).
func (s *session) Watch(ctx context.Context, line driver.Line, places ...driver.Place) error {
	if err := s.alive(); err != nil {
		return err
	}
	w, err := s.wait(line, places)
	if err != nil || w == nil {
		return err
	}
	return s.await(ctx, w)
}

// await returns nil when one of the places is gone.
//
// The watch starts from now, not from the revision of the view that showed the places:
// etcd serves a start that has passed in rounds of 100 ms. A leaving between the view
// and the watch is found by looking, once the server says that the watch is there.
//
// A compaction cancels a watch that was resumed, after a reconnect, from before it. A
// new one from now, and a look, miss nothing.
func (s *session) await(ctx context.Context, w *wait) error {
	for {
		err := s.awaitOnce(ctx, w)
		if err == nil || !isAnswer(err, rpctypes.ErrCompacted) {
			return err
		}
	}
}

func (s *session) awaitOnce(ctx context.Context, w *wait) error {
	stream := s.streams.current()
	wctx, cancel := s.watchContext(stream)
	events := s.openWatch(ctx, wctx, cancel, w)
	if events == nil {
		return s.watchFailed(ctx, errWatchEnded)
	}
	defer cancel()
	for {
		select {
		case resp, ok := <-events:
			if !ok {
				// The client ends a watch without a word when it is closed itself. Watching
				// again at once would spin, so the coordinator decides.
				return s.watchFailed(ctx, errWatchEnded)
			}
			if err := resp.Err(); err != nil {
				s.streams.failed(stream, err)
				return s.watchFailed(ctx, err)
			}
			gone, err := s.told(ctx, w, resp)
			if err != nil {
				return s.watchFailed(ctx, err)
			}
			if gone {
				return nil
			}
		case <-ctx.Done():
			return s.watchFailed(ctx, errWatchEnded)
		case <-wctx.Done():
			return s.watchFailed(ctx, errWatchEnded)
		}
	}
}

// openWatch asks for a watch and waits until the server says that it is there, or returns nil when ctx or the
// session ends first.
//
// A watch may be cancelled only after that. The client forgets one that is cancelled before
// and sends no cancel, since it has no number yet; the server, which makes it all the same, then keeps it until the key
// changes. Callers with little patience that come again and again would pile them up there. So
// a goroutine waits for the answer, and gives the watch to the caller or cancels it.
func (s *session) openWatch(ctx, wctx context.Context, cancel func(), w *wait) clientv3.WatchChan {
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithFilterPut()}
	if w.end != "" {
		opts = append(opts, clientv3.WithRange(w.end))
	}
	opened := make(chan clientv3.WatchChan)
	go func() { // ends with the session at the latest, whose context is above wctx
		events := s.c.Watch(wctx, w.key, opts...)
		select {
		case opened <- events:
		case <-ctx.Done():
			cancel()
		}
	}()
	select {
	case events := <-opened:
		return events
	case <-ctx.Done():
		return nil
	}
}

// told handles one message of the watch.
func (s *session) told(ctx context.Context, w *wait, resp clientv3.WatchResponse) (gone bool, err error) {
	if resp.Created {
		return s.look(ctx, w, resp.Header.Revision)
	}
	for _, ev := range resp.Events {
		rev, mine := w.places[string(ev.Kv.Key)]
		// A watch that was resumed may show the end of an earlier life of a foreign key.
		if mine && ev.Type == mvccpb.DELETE && ev.Kv.ModRevision > rev {
			s.learn(ev.Kv.ModRevision)
			return true, nil
		}
	}
	return false, nil
}

// look reads the places once, at or after the revision at which their watch existed.
// Without it a leaving just before the watch would never be told. The client's own
// resuming relies on it as well: it starts again at that revision, not at the one from
// which the server's watch really counted, which may be a little older.
func (s *session) look(ctx context.Context, w *wait, since int64) (gone bool, err error) {
	if w.shown >= since {
		return false, nil // nothing happened in between
	}
	opts := []clientv3.OpOption{clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(w.newest)}
	if w.end != "" {
		opts = append(opts, clientv3.WithRange(w.end))
	}
	resp, err := s.read(ctx, since, w.key, opts...)
	if err != nil {
		return false, err
	}
	standing := 0
	for _, kv := range resp.Kvs {
		if rev, ok := w.places[string(kv.Key)]; ok && rev == kv.CreateRevision {
			standing++
		}
	}
	if standing < len(w.places) {
		s.learn(resp.Header.Revision)
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

// watchFailed says why a wait ended: because ctx did, because the session did, or
// because of the service.
func (s *session) watchFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.alive() != nil:
		return driver.ErrSessionLost
	}
	return s.failed(ctx, err)
}
