package lease

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
)

// Txn begins a transaction.
func (s *Session) Txn(ctx context.Context) clientv3.Txn {
	return s.Conn.Client.Txn(s.Conn.Lead(ctx))
}

// Do sends one operation.
func (s *Session) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return s.Conn.Client.Do(s.Conn.Lead(ctx), op)
}

// Reading is what one request read, all of it at one revision.
type Reading struct {
	Rev   int64
	Kvs   []*mvccpb.KeyValue // of all ranges that the request asked for
	Count int64              // of all keys in the first range, whatever options left out
}

// Read gets a view that is at least as new as revision floor: from the member
// at hand if it has come that far, as the revision in its answer says, and by
// quorum otherwise. Asking it for the very revision would do, too, but fails
// once that is compacted.
func (s *Session) Read(ctx context.Context, floor int64, ops ...clientv3.Op) (Reading, error) {
	local := slices.Clone(ops)
	for i := range local {
		clientv3.WithSerializable()(&local[i])
	}
	r, err := s.Get(ctx, local...)
	if err == nil && r.Rev < floor {
		return s.Get(ctx, ops...)
	}
	return r, err
}

// Get reads ranges in one request: by quorum, unless all of them ask for less.
// A transaction of reads is answered from one revision. For a single range it
// is not needed, and the client repeats a plain read by itself when a
// connection breaks.
func (s *Session) Get(ctx context.Context, ops ...clientv3.Op) (Reading, error) {
	if len(ops) == 1 {
		resp, err := s.Do(ctx, ops[0])
		if err != nil {
			return Reading{}, err
		}
		r := resp.Get()
		return Reading{r.Header.Revision, r.Kvs, r.Count}, nil
	}
	resp, err := s.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Rev: resp.Header.Revision, Count: resp.Responses[0].GetResponseRange().Count}
	for _, one := range resp.Responses {
		r.Kvs = append(r.Kvs, one.GetResponseRange().Kvs...)
	}
	return r, nil
}

// MadeWithoutSpace reads the entry that a request refused for want of space
// should have made; if there is none the error is that of the request. The
// request with which an etcd finds that it is out of space, after it has
// admitted it, is applied and refused all the same; those after it are not
// applied.
func (s *Session) MadeWithoutSpace(
	ctx context.Context, refused error, reads ...clientv3.Op,
) (keys.Entry, error) {
	r, err := s.Get(ctx, reads...)
	if err != nil {
		return keys.Entry{}, s.Failed(ctx, err)
	}
	if len(r.Kvs) == 0 {
		return keys.Entry{}, s.Failed(ctx, refused)
	}
	return keys.Entry{Key: string(r.Kvs[0].Key), Rev: r.Kvs[0].CreateRevision}, nil
}

// Named is Layout.Named on a live session. What can name no entry is ErrGone.
func (s *Session) Named(
	queue driver.Queue, key string, token driver.Token,
) (keys.Entry, error) {
	if err := s.Alive(); err != nil {
		return keys.Entry{}, err
	}
	e, ok := s.layout.Named(queue, key, token)
	if !ok {
		return keys.Entry{}, driver.ErrGone
	}
	return e, nil
}

// Check reads one key, by quorum: another session may have seen the entry go,
// wherever that was applied (K1). The create revision tells whether the key is
// still in the life that the handle names.
func (s *Session) Check(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	e, err := s.Named(queue, key, token)
	if err != nil {
		return err
	}
	r, err := s.Get(ctx, clientv3.OpGet(e.Key, clientv3.WithKeysOnly()))
	if err != nil {
		return s.Failed(ctx, err)
	}
	if !e.In(r.Kvs) {
		return driver.ErrGone
	}
	return nil
}

// Delete deletes an entry and applies more, if the entry is there. A late
// request deletes nothing else, since no key has a create revision twice.
func (s *Session) Delete(ctx context.Context, e keys.Entry, more ...clientv3.Op) error {
	then := append(more, clientv3.OpDelete(e.Key))
	resp, err := s.Txn(ctx).If(e.Stands()).Then(then...).Commit()
	if err != nil {
		return s.Failed(ctx, err)
	}
	if !resp.Succeeded {
		return driver.ErrGone
	}
	return nil
}

// Seen is the newest revision that a watch has shown.
func (s *Session) Seen() int64 { return s.seen.Load() }

// Learn remembers that a watch has shown revision rev.
func (s *Session) Learn(rev int64) {
	for old := s.seen.Load(); old < rev; old = s.seen.Load() {
		if s.seen.CompareAndSwap(old, rev) {
			return
		}
	}
}

// Await is watch.Watcher.Await, with an error of the contract.
func (s *Session) Await(
	ctx context.Context, key string, opts []clientv3.OpOption, tell watch.Tell,
) error {
	err := s.watcher.Await(ctx, key, opts, tell)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.life.Err() != nil:
		return driver.ErrSessionLost
	}
	return s.Failed(ctx, err)
}

// awaitLeaving waits until one of the entries is gone, with one watch: of the
// one entry, or of all keys below prefix for several. Creating watches takes a
// round trip each, one after the other. The price of one watch for all is that
// the leavings of other entries arrive here too; they wake no caller (W2). The
// server does not send puts: they are no leaving. When ctx ends, the client
// tells the server to drop the watch (W3).
//
// While the service cannot be reached at all the client goes on trying by
// itself, and so does the wait; ErrUnavailable is for a service that answers
// without having a quorum (W4).
func (s *Session) awaitLeaving(ctx context.Context, prefix string, entries ...keys.Entry) error {
	w := leaving{session: s, made: make(map[string]int64, len(entries))}
	var newest keys.Entry
	for _, e := range entries {
		if rev, twice := w.made[e.Key]; twice && rev != e.Rev {
			return nil // two lives of one key: the older one is over
		}
		w.made[e.Key] = e.Rev
		if e.Rev > newest.Rev {
			newest = e
		}
	}
	w.newest = newest.Rev
	key, opts := newest.Key, []clientv3.OpOption(nil)
	if len(w.made) > 1 {
		key, opts = prefix, append(opts, clientv3.WithPrefix())
	}
	w.read = clientv3.OpGet(key, append(opts, clientv3.WithKeysOnly())...)
	return s.Await(ctx, key, append(opts, clientv3.WithFilterPut()), w.tell)
}

type leaving struct {
	session *Session
	made    map[string]int64 // the create revisions of the entries, by key
	newest  int64            // of them
	read    clientv3.Op      // reads all of them
}

// tell reads the entries once, at or after the revision at which the watch
// existed, and then goes by the events. The client's own resuming relies on the
// read as well: it starts again at that revision, not at the one from which the
// server's watch really counted, which may be a little older.
//
// The member that serves the watch may be behind the one that showed the
// entries, and not have them yet. So the read is no older than the newest
// entry.
func (w *leaving) tell(ctx context.Context, resp clientv3.WatchResponse) (gone bool, err error) {
	if !resp.Created {
		for _, ev := range resp.Events {
			rev, ok := w.made[string(ev.Kv.Key)]
			if e := (keys.Entry{Key: string(ev.Kv.Key), Rev: rev}); ok && e.Goes(ev) {
				w.session.Learn(ev.Kv.ModRevision)
				return true, nil
			}
		}
		return false, nil
	}
	r, err := w.session.Read(ctx, max(resp.Header.Revision, w.newest), w.read)
	if err != nil {
		return false, err
	}
	there := 0
	for _, kv := range r.Kvs {
		if rev, ok := w.made[string(kv.Key)]; ok && rev == kv.CreateRevision {
			there++
		}
	}
	if there == len(w.made) {
		return false, nil
	}
	w.session.Learn(r.Rev)
	return true, nil
}
