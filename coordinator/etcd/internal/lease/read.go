package lease

import (
	"context"
	"slices"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
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
	Term  uint64             // that the member has shown
}

// Read gets a view that is at least as new as revision floor and as the last
// refresh of the session's waits. It asks the connected member, and then by
// quorum if the revision of the answer is older. A read at revision floor
// itself would fail once that is compacted.
func (s *Session) Read(ctx context.Context, floor int64, ops ...clientv3.Op) (Reading, error) {
	floor = max(floor, s.quorum.Load())
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

// Get reads ranges in one request, by quorum unless all of them are
// serializable. A transaction answers several ranges from one revision. A
// single range is a plain read, which the client repeats by itself when a
// connection breaks.
//
// After a request that a member has not answered, Get sends two at once, for
// two TTLs. They go to two members: see Silence.
func (s *Session) Get(ctx context.Context, ops ...clientv3.Op) (Reading, error) {
	read := func(ctx context.Context) (Reading, error) { return s.get(ctx, ops...) }
	return fastest(ctx, s.Conn.Silence.copies(), nil, 0, read)
}

// ask is Get for a transaction with conditions, all of whose operations read.
func (s *Session) ask(
	ctx context.Context, conds []clientv3.Cmp, then, otherwise []clientv3.Op,
) (*clientv3.TxnResponse, error) {
	send := func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.Txn(ctx).If(conds...).Then(then...).Else(otherwise...).Commit()
	}
	return fastest(ctx, s.Conn.Silence.copies(), nil, 0, send)
}

func (s *Session) get(ctx context.Context, ops ...clientv3.Op) (Reading, error) {
	if len(ops) == 1 {
		resp, err := s.Do(ctx, ops[0])
		if err != nil {
			return Reading{}, err
		}
		r := resp.Get()
		return Reading{r.Header.Revision, r.Kvs, r.Count, r.Header.RaftTerm}, nil
	}
	return reading(s.Txn(ctx).Then(ops...).Commit())
}

// getter is Get, Read, or another way to read ranges.
type getter func(ctx context.Context, ops ...clientv3.Op) (Reading, error)

// reading returns what a transaction has read.
func reading(resp *clientv3.TxnResponse, err error) (Reading, error) {
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Rev: resp.Header.Revision, Term: resp.Header.RaftTerm}
	r.Count = resp.Responses[0].GetResponseRange().Count
	for _, one := range resp.Responses {
		r.Kvs = append(r.Kvs, one.GetResponseRange().Kvs...)
	}
	return r, nil
}

// MadeWithoutSpace reads the entry that a request refused for want of space may
// have made all the same. If there is none it returns the error of the request.
// An etcd that runs out of space while it applies a request applies it and
// refuses it; it does not apply later ones.
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

// Named is Layout.Named on a live session. It returns ErrGone if handle and
// token can name no entry.
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

// Check reads one key by quorum, since another session may have seen the entry
// go on any member (K1). The create revision tells whether the key is still the
// entry that the handle names.
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
// request deletes nothing else: no key has a create revision twice.
func (s *Session) Delete(ctx context.Context, e keys.Entry, more ...clientv3.Op) error {
	then := append(more, clientv3.OpDelete(e.Key))
	resp, err := s.Txn(ctx).If(e.Exists()).Then(then...).Commit()
	if err != nil {
		return s.Failed(ctx, err)
	}
	s.NoteRemoved(resp.Header.Revision)
	if !resp.Succeeded {
		return driver.ErrGone
	}
	return nil
}

// Seen is the newest revision that a watch has shown.
func (s *Session) Seen() int64 { return s.seen.Load() }

// Learn remembers that a watch has shown revision rev.
func (s *Session) Learn(rev int64) { raise(&s.seen, rev) }

// NoteRemoved remembers that an entry of this session was gone at revision rev.
// Views may be older, unless LearnRemoved is called.
func (s *Session) NoteRemoved(rev int64) { raise(&s.removed, rev) }

// LearnRemoved is Learn of all that was noted by NoteRemoved.
func (s *Session) LearnRemoved() { s.Learn(s.removed.Load()) }

func raise(newest *atomic.Int64, rev int64) {
	for old := newest.Load(); old < rev; old = newest.Load() {
		if newest.CompareAndSwap(old, rev) {
			return
		}
	}
}

// awaitLeaving waits until one of the entries is gone, with one watch: of the
// entry, or for several entries of all keys below prefix. Creating one watch
// each would take a round trip each. With one watch for all, the deletions of
// other entries arrive here too, but wake no caller (W2). The server filters
// puts. When ctx ends, the client tells the server to drop the watch (W3).
//
// While no server can be reached the client retries by itself, and the wait
// goes on. ErrUnavailable is for a service that answers without a quorum (W4).
func (s *Session) awaitLeaving(ctx context.Context, prefix string, entries ...keys.Entry) error {
	await := s.Await
	if entries[0] == s.Sentinel {
		await = s.await
	}
	w := leaving{session: s, made: make(map[string]int64, len(entries))}
	var newest keys.Entry
	for _, e := range entries {
		if rev, twice := w.made[e.Key]; twice && rev != e.Rev {
			return nil // the key was made again: the older entry is gone
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
	return await(ctx, key, append(opts, clientv3.WithFilterPut()), w.tell)
}

type leaving struct {
	session *Session
	made    map[string]int64 // the create revisions of the entries, by key
	newest  int64            // of them
	read    clientv3.Op      // reads all of them
}

// tell reads the entries once, at or after the revision at which the watch
// existed, and uses the events after that. The client's resuming of a watch
// relies on this read as well: it resumes from that revision, and the server's
// watch may have started a little before.
//
// The member that serves the watch may not have the entries yet, so the read is
// no older than the newest entry.
func (w *leaving) tell(ctx context.Context, resp clientv3.WatchResponse) (gone bool, err error) {
	if !resp.Created {
		for _, ev := range resp.Events {
			rev, ok := w.made[string(ev.Kv.Key)]
			if e := (keys.Entry{Key: string(ev.Kv.Key), Rev: rev}); ok && e.IsDeletedBy(ev) {
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
