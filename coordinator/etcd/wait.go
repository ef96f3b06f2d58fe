package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
)

var errWatchEnded = errors.New("etcd: the watch ended")

// teller handles one message of a watch. done ends the wait.
type teller func(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error)

// await watches a key, or the range that opts make of it, until told says that it is done.
//
// The watch starts from now, not from the revision of the view before it:
// etcd serves a start that has passed in rounds of 100 ms. A change between the view
// and the watch is found by looking, once the server says that the watch is there: with its
// first message, which is Created.
//
// A compaction cancels a watch that was resumed, after a reconnect, from before it. A
// new one from now, and a look, miss nothing.
func (s *session) await(ctx context.Context, key string, opts []clientv3.OpOption, told teller) error {
	opts = append(opts, clientv3.WithCreatedNotify())
	for {
		err := s.awaitOnce(ctx, key, opts, told)
		if err == nil || !isAnswer(err, rpctypes.ErrCompacted) {
			return err
		}
	}
}

func (s *session) awaitOnce(ctx context.Context, key string, opts []clientv3.OpOption, told teller) error {
	stream := s.streams.current()
	wctx, cancel := s.watchContext(stream)
	watch := openWatch(cancel, func() clientv3.WatchChan { return s.c.Watch(wctx, key, opts...) })
	defer watch.close()
	events := watch.wait(ctx)
	if events == nil {
		return s.watchFailed(ctx, errWatchEnded)
	}
	for {
		select {
		case resp, ok := <-events:
			if err := s.broken(ctx, stream, resp, ok); err != nil {
				return err
			}
			done, err := told(ctx, resp)
			if err != nil {
				return s.watchFailed(ctx, err)
			}
			if done {
				return nil
			}
		case <-ctx.Done():
			return s.watchFailed(ctx, errWatchEnded)
		case <-wctx.Done():
			return s.watchFailed(ctx, errWatchEnded)
		}
	}
}

// broken is the error of a watch that ends with this message, or without one; nil if it goes on.
func (s *session) broken(ctx context.Context, stream metadata.MD, resp clientv3.WatchResponse, ok bool) error {
	if !ok {
		// The client ends a watch without a word when it is closed itself. Watching
		// again at once would spin, so the coordinator decides.
		return s.watchFailed(ctx, errWatchEnded)
	}
	if err := resp.Err(); err != nil {
		s.streams.failed(stream, err)
		return s.watchFailed(ctx, err)
	}
	return nil
}

// opening is a watch that was asked for.
//
// A watch may be cancelled only when the server has said that it is there. The
// client forgets one that is cancelled before and sends no cancel, since it has
// no number yet; the server, which makes it all the same, then keeps it until
// the key changes. Callers with little patience that come again and again would
// pile them up there. So a goroutine waits for the answer, and gives the watch
// to the caller or cancels it.
type opening struct {
	stands chan clientv3.WatchChan // has a receiver only while the caller waits
	over   chan struct{}           // closed by the caller
	cancel context.CancelFunc
	stood  bool // the caller has it; only whoever has the watch reads and writes this
}

// openWatch asks for a watch whose context cancel ends. The caller must close what it returns.
func openWatch(cancel context.CancelFunc, open func() clientv3.WatchChan) *opening {
	o := &opening{stands: make(chan clientv3.WatchChan), over: make(chan struct{}), cancel: cancel}
	go func() { // ends once the caller has closed it, when the watch stands or the session, whose context is above that of the watch, is over
		events := open()
		select {
		case o.stands <- events:
		case <-o.over:
			cancel()
		}
	}()
	return o
}

// wait waits until the server says that the watch is there, or returns nil when ctx ends first.
func (o *opening) wait(ctx context.Context) (events clientv3.WatchChan) {
	select {
	case events = <-o.stands:
		o.stood = true
	case <-ctx.Done():
	}
	return events
}

// close ends the watch, if need be later, and never waits.
func (o *opening) close() {
	if o.stood {
		o.cancel()
	}
	close(o.over)
}

// newest is the revision that a message of a watch tells of.
func newest(resp clientv3.WatchResponse) (rev int64) {
	if resp.Created {
		return resp.Header.Revision
	}
	for _, ev := range resp.Events {
		rev = max(rev, ev.Kv.ModRevision)
	}
	return rev
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

// Follow watches the entry ahead and its mark. The watch is from now. When it exists, one
// read tells whether the entry is there, or has left its mark; events tell the rest.
func (s *session) Follow(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (passed bool, err error) {
	if err := s.alive(); err != nil {
		return false, err
	}
	e, ok := s.keys.entry(queue, ahead)
	if !ok {
		return false, invalid("%q is no place of queue %q", ahead.Key, queue)
	}
	me, err := s.own(queue, own)
	if err != nil {
		return false, err
	}
	s.memory.noteMark(me.contender, mark(e.key))
	f := &following{session: s, ahead: e, since: max(e.rev, me.rev)}
	err = s.await(ctx, e.key, []clientv3.OpOption{clientv3.WithRange(mark(e.key) + "\x00")}, f.isGone)
	return f.passed && err == nil, err
}

// following is one Follow.
type following struct {
	*session
	ahead  entry
	since  int64 // the revision at which both entries existed
	passed bool
}

// isGone tells by a message of the watch whether the entry ahead has left.
func (f *following) isGone(ctx context.Context, resp clientv3.WatchResponse) (gone bool, err error) {
	if resp.Created {
		return f.read(ctx, resp.Header.Revision)
	}
	for _, ev := range resp.Events {
		switch {
		case ev.Type == mvccpb.PUT && f.isMark(ev.Kv):
			f.passed = true
		case f.ahead.goes(ev):
			f.learn(ev.Kv.ModRevision)
			gone = true
		}
	}
	return gone, nil
}

// read reads the entry ahead and its mark, as of one moment after since.
func (f *following) read(ctx context.Context, since int64) (gone bool, err error) {
	r, err := f.session.read(ctx, max(since, f.since), clientv3.OpGet(f.ahead.key, clientv3.WithRange(mark(f.ahead.key)+"\x00")))
	if err != nil {
		return false, err
	}
	gone = true
	for _, kv := range r.kvs {
		switch {
		case f.ahead.is(kv):
			gone = false
		case f.isMark(kv):
			f.passed = true
		}
	}
	f.learn(r.rev)
	return gone, nil
}

// isMark tells whether a key is the mark of the entry ahead, and not of an
// earlier one of that name.
func (f *following) isMark(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == mark(f.ahead.key) && string(kv.Value) == revision(f.ahead.rev)
}

// watchContext is the context of a watch: it ends with the session, and when the watch is given up.
//
// The client puts all watches whose contexts have the same outgoing metadata on
// one stream, which keeps the values of the context that came first. So it
// is derived from the session and has nothing of the caller's, neither metadata nor a trace.
func (s *session) watchContext(md metadata.MD) (context.Context, context.CancelFunc) {
	return context.WithCancel(metadata.NewOutgoingContext(s.life, md))
}

// streams chooses the gRPC stream that a client's watches share.
//
// A stream has the auth token with which it was opened, for ever, while tokens expire and
// change with the roles. The server checks it for every new watch, so on an old
// stream each of them would be refused until the last watch there ends, and
// a session's own watch never does. Other metadata make another stream.
type streams struct {
	gen atomic.Int64
}

const streamKey = "baton-stream"

func (st *streams) current() metadata.MD {
	gen := st.gen.Load()
	if gen == 0 {
		return requireLeader // one for all: a copy would be a good part of what a watch takes
	}
	md := requireLeader.Copy()
	md.Set(streamKey, strconv.FormatInt(gen, 10))
	return md
}

// failed moves on from a stream whose token is refused. Of all that fail
// on one stream only the first moves on.
func (st *streams) failed(md metadata.MD, err error) {
	if !isAnswer(err, rpctypes.ErrInvalidAuthToken) && !isAnswer(err, rpctypes.ErrAuthOldRevision) {
		return
	}
	var gen int64
	if v := md.Get(streamKey); len(v) > 0 {
		gen, _ = strconv.ParseInt(v[0], 10, 64)
	}
	st.gen.CompareAndSwap(gen, gen+1)
}

// wait is what one call of Watch waits for: the end of one of several entries.
type wait struct {
	made   map[string]int64 // their create revisions, by key
	newest entry            // of them
	shown  int64            // a revision at which a view showed the only one, or 0
}

// entries reads the handles of places. gone says that the places themselves
// show that one has left.
func (s *session) entries(queue driver.Queue, places []driver.Place) (w *wait, gone bool, err error) {
	if len(places) == 0 {
		return nil, false, invalid("no places to watch")
	}
	w = &wait{made: make(map[string]int64, len(places))}
	for _, p := range places {
		e, ok := s.keys.entry(queue, p)
		if !ok {
			return nil, false, invalid("%q is no place of queue %q", p.Key, queue)
		}
		if old, twice := w.made[e.key]; twice && old != e.rev {
			return nil, true, nil // two lives of one foreign key: the older one is over
		}
		w.made[e.key] = e.rev
		if e.rev > w.newest.rev {
			w.newest = e
		}
	}
	return w, false, nil
}

// Watch waits on the caller's own goroutine, once the watch is there: of the
// one place, or of the whole queue for several. Creating watches takes a round
// trip each, one after the other. What one for all costs is that the leavings
// of others arrive here too; they go no further (W2). Puts are not sent: they
// say nothing of a leaving. When ctx ends, the client tells the server to drop
// the watch (W3).
//
// While the service cannot be reached at all the client goes on trying by itself, and so does
// the wait; ErrUnavailable is for a service that answers without having a quorum (W4).
func (s *session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	if err := s.alive(); err != nil {
		return err
	}
	w, gone, err := s.entries(queue, places)
	if err != nil || gone {
		return err
	}
	if near := s.nearest.Load(); len(w.made) == 1 && near != nil && near.key == places[0].Key {
		w.shown = near.rev
	}
	return s.awaitLeaving(ctx, s.keys.queue(queue), w)
}

// awaitLeaving returns nil when one of the entries is gone. Several are all below prefix.
func (s *session) awaitLeaving(ctx context.Context, prefix string, w *wait) error {
	key, opts := w.newest.key, []clientv3.OpOption{clientv3.WithFilterPut()}
	read := clientv3.OpGet(key, clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(w.newest.rev))
	if len(w.made) > 1 {
		key, opts = prefix, append(opts, clientv3.WithPrefix())
		read = clientv3.OpGet(key, clientv3.WithKeysOnly(), clientv3.WithPrefix())
	}
	return s.await(ctx, key, opts, func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		if resp.Created {
			return s.look(ctx, w, read, resp.Header.Revision)
		}
		for _, ev := range resp.Events {
			// A watch that was resumed may show the end of an earlier life of a foreign key.
			if made, ok := w.made[string(ev.Kv.Key)]; ok && ev.Type == mvccpb.DELETE && ev.Kv.ModRevision > made {
				s.learn(ev.Kv.ModRevision)
				return true, nil
			}
		}
		return false, nil
	})
}

// look reads the entries once, at or after the revision at which their watch existed.
// Without it a leaving just before the watch would never be told. The client's own
// resuming relies on it as well: it starts again at that revision, not at the one from
// which the server's watch really counted, which may be a little older.
//
// The member that serves the watch may be behind the one that showed the entries, and not have
// them yet. To it they are not gone, so the look is no older than the newest.
func (s *session) look(ctx context.Context, w *wait, op clientv3.Op, since int64) (gone bool, err error) {
	if w.shown >= since {
		return false, nil // nothing happened in between
	}
	r, err := s.read(ctx, max(since, w.newest.rev), op)
	if err != nil {
		return false, err
	}
	there := 0
	for _, kv := range r.kvs {
		if made, ok := w.made[string(kv.Key)]; ok && made == kv.CreateRevision {
			there++
		}
	}
	if there < len(w.made) {
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

// WatchQueue reads the queue once its watch is there, by quorum, and keeps the
// view up to date by the events: nothing is read again. A value that was
// written, and a marker, change nothing in it.
func (s *session) WatchQueue(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
	if err := s.alive(); err != nil {
		return err
	}
	q := &queueView{keys: s.keys, queue: queue}
	return s.await(ctx, s.keys.queue(queue), []clientv3.OpOption{clientv3.WithPrefix()}, func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		changed := resp.Created
		if resp.Created {
			r, err := s.readWithin(ctx, clientv3.OpGet(s.keys.queue(queue), clientv3.WithPrefix(), clientv3.WithKeysOnly()))
			if err != nil {
				return false, err
			}
			q.heads, q.rev = s.keys.inOrder(queue, r.kvs), r.rev
		}
		for _, ev := range resp.Events {
			if ev.Kv.ModRevision > q.rev { // else the read has shown it
				changed = q.take(ev) || changed
			}
		}
		s.learn(max(q.rev, newest(resp)))
		return changed && !show(places(q.heads)), nil
	})
}

// queueView is a queue as of a revision.
type queueView struct {
	keys  layout
	queue driver.Queue
	heads []driver.Head // in order, without values
	rev   int64         // of the read that it began with
}

// take takes one event in, and reports whether it has changed the view.
func (q *queueView) take(ev *clientv3.Event) bool {
	key := string(ev.Kv.Key)
	if isMark(key) || ev.Type == mvccpb.PUT && ev.Kv.CreateRevision != ev.Kv.ModRevision {
		return false
	}
	if ev.Type == mvccpb.DELETE {
		n, handle := len(q.heads), key+"@" // which the create revision follows
		q.heads = slices.DeleteFunc(q.heads, func(h driver.Head) bool { return strings.HasPrefix(h.Key, handle) })
		return len(q.heads) < n
	}
	h := q.keys.head(q.queue, ev.Kv)
	h.Value = nil
	i, _ := slices.BinarySearchFunc(q.heads, h, before)
	q.heads = slices.Insert(q.heads, i, h)
	return true
}

// readWithin is get for a quarter of the TTL: a read that is stuck at a silent
// member would stop all contenders that share the watch.
func (s *session) readWithin(ctx context.Context, op clientv3.Op) (reading, error) {
	bound, cancel := context.WithTimeout(ctx, s.ttl/4)
	defer cancel()
	r, err := s.get(bound, op)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		err = driver.Wrap(driver.ErrUnavailable, bound.Err())
	}
	return r, err
}
