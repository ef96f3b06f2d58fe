package etcd

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// A waiter has to notice two things: that the entry ahead has left, and that
// its own entry was deleted. All entries of a session in one queue are below
// one prefix, with their markers. So one watch of that prefix shows all of it
// to all waiters of the session there, unless the entry ahead is another
// session's. It begins with the first of them and ends with the last.
//
// Nothing is missed, since what the watch shows is written to the memory of the
// session, which has each contender before its join is sent:
//
//   - The read when the watch begins shows which entries there were at its
//     revision. An older entry that it lacks is gone.
//   - The watch shows each later deletion. A waiter that comes after one finds
//     it in the memory.
//   - A watch that is created again, after a compaction, for another token or
//     at another member, reads again. The waiters stay.
//   - A member that is behind shows old deletions once more, which have no
//     effect: a deletion counts if it is newer than the entry.
//   - A watch that fails ends the waits with its error, and the end of the
//     session does too. The callers wait again, with a new watch.
type ownWatches struct {
	mu sync.Mutex // locked before the memory's
	of map[driver.Queue]*ownWatch
}

type ownWatch struct {
	session *session
	queue   driver.Queue
	cancel  context.CancelFunc
	since   int64 // the revision of its latest read, 0 before the first
	// waits has them by the key of their own entries and of those ahead.
	waits map[string][]*ownWait
	n     int
}

// ownWait is a wait until an entry of this session has left, or one ahead of
// it. ownWatches.mu guards it.
type ownWait struct {
	own   mine
	ahead mine      // zero if it is another session's, or none
	wake  func()    // called once
	until *ownWatch // that it is part of, or nil
	ended bool      // it was woken, or its caller has left
	gone  bool      // own has left
	left  bool      // ahead has left
	hands bool      // and has left a marker
	err   error     // of the watch
}

// belongs reports whether the own watch shows an entry: one that was not
// converted, of a contender that the session remembers. The watch may have
// shown already that an entry of a forgotten one left, so such an entry needs a
// watch that reads.
func (s *session) belongs(queue driver.Queue, p driver.Place) (e mine, ok bool) {
	e, err := s.own(queue, p)
	if err != nil || e.Rank != 0 {
		return mine{}, false
	}
	return e, s.memory.remembers(e)
}

// awaitOwn begins a wait, and the watch if it is the first.
func (s *session) awaitOwn(queue driver.Queue, w *ownWait) {
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.ended {
		return
	}
	watch := all.of[queue]
	if watch == nil {
		ctx, cancel := context.WithCancel(context.Background()) // it ends with the session, too
		watch = &ownWatch{session: s, queue: queue, cancel: cancel, waits: map[string][]*ownWait{}}
		if all.of == nil {
			all.of = map[driver.Queue]*ownWatch{}
		}
		all.of[queue] = watch
		go watch.run(ctx)
	}
	w.until = watch
	watch.n++
	watch.add(w.own.Key, w)
	if w.ahead.Key != "" {
		watch.add(w.ahead.Key, w)
	}
	watch.judge(w, nil)
}

// leaveOwn ends a wait, and the watch if it was the last.
func (s *session) leaveOwn(w *ownWait) {
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	w.ended = true
	watch := w.until
	if watch == nil {
		return
	}
	w.until = nil
	watch.remove(w.own.Key, w)
	watch.remove(w.ahead.Key, w)
	if watch.n--; watch.n == 0 {
		watch.end()
	}
}

func (w *ownWatch) add(key string, one *ownWait) { w.waits[key] = append(w.waits[key], one) }

func (w *ownWatch) remove(key string, one *ownWait) {
	waits := w.waits[key]
	for i, other := range waits {
		if other == one {
			waits[i] = waits[len(waits)-1]
			waits[len(waits)-1] = nil
			w.waits[key] = waits[:len(waits)-1]
			break
		}
	}
	if len(w.waits[key]) == 0 {
		delete(w.waits, key)
	}
}

// end is called with ownWatches.mu locked.
func (w *ownWatch) end() {
	w.cancel()
	if of := w.session.ownWatches.of; of[w.queue] == w {
		delete(of, w.queue)
	}
}

// run watches until the last wait has ended, or the watch fails.
func (w *ownWatch) run(ctx context.Context) {
	s := w.session
	prefix := s.keys.Own(w.queue, s.ID())
	err := s.Await(ctx, prefix, []clientv3.OpOption{clientv3.WithPrefix()},
		func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
			if resp.Created {
				return false, w.begins(ctx, prefix, resp.Header.Revision)
			}
			w.shows(resp.Events)
			return false, nil
		})
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	w.end()
	for _, waits := range w.waits {
		for _, one := range waits {
			one.err = err
			one.end()
		}
	}
}

// begins reads the session's entries when the watch exists, and the marker that
// the first of those that are followed may have left. A later one cannot have
// left a marker: its contender has not been admitted.
func (w *ownWatch) begins(ctx context.Context, prefix string, rev int64) error {
	s := w.session
	ops := []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())}
	all := &s.ownWatches
	if first := w.first(); first != "" {
		ops = append(ops, clientv3.OpGet(keys.Marker(first)))
	}
	r, err := s.Read(ctx, rev, ops...)
	if err != nil {
		return err
	}
	s.Learn(r.Rev)
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of[w.queue] != w { // it has ended, and another one may have read since
		return nil
	}
	w.since = r.Rev
	made := map[string]int64{}
	for _, kv := range r.Kvs {
		if key := string(kv.Key); keys.IsMarker(key) {
			s.memory.handed(made, kv)
		} else {
			s.memory.was(contenderOf(key), kv.CreateRevision, r.Rev)
		}
	}
	for _, waits := range w.waits {
		for _, one := range waits {
			w.judge(one, made)
		}
	}
	return nil
}

// first is the key of the first entry that is followed, or empty.
func (w *ownWatch) first() string {
	all := &w.session.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	var first mine
	for _, waits := range w.waits {
		for _, one := range waits {
			if a := one.ahead; a.Key != "" && (first.Key == "" || a.Rev < first.Rev) {
				first = a
			}
		}
	}
	return first.Key
}

// shows handles events. The marker of an entry is made in the transaction that
// deletes it, before that.
func (w *ownWatch) shows(events []*clientv3.Event) {
	s := w.session
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	made := map[string]int64{}
	for _, ev := range events {
		key := string(ev.Kv.Key)
		switch marks := keys.IsMarker(key); {
		case marks && ev.Type == mvccpb.PUT:
			s.memory.handed(made, ev.Kv)
			continue
		case marks || ev.Type == mvccpb.PUT: // a marker goes when it is not needed any more
			continue
		}
		s.memory.went(contenderOf(key), ev.Kv.ModRevision)
		for _, one := range w.waits[key] {
			one.gone = one.gone || one.own.IsDeletedBy(ev)
			if !one.left && one.ahead.IsDeletedBy(ev) {
				one.left, one.hands = true, made[key] == one.ahead.Rev
			}
			if one.gone || one.left {
				s.Learn(ev.Kv.ModRevision)
				one.end()
			}
		}
	}
}

// judge wakes a wait if one of its entries has left. made has the markers that
// were read. The caller holds ownWatches.mu.
func (w *ownWatch) judge(one *ownWait, made map[string]int64) {
	s := w.session
	var marked int64
	if !one.gone {
		one.gone, _ = s.hasLeft(one.own, w.since)
	}
	if !one.left && one.ahead.Key != "" {
		one.left, marked = s.hasLeft(one.ahead, w.since)
		one.hands = one.left && max(marked, made[one.ahead.Key]) == one.ahead.Rev
	}
	if one.gone || one.left {
		one.end()
	}
}

// end wakes the caller, once.
func (w *ownWait) end() {
	if !w.ended {
		w.ended = true
		w.wake()
	}
}

// waitOwn waits until one of two entries of this session has left, of which
// ahead may be zero. The error is ErrGone if own has.
func (s *session) waitOwn(
	ctx context.Context, queue driver.Queue, own, ahead mine,
) (handed bool, err error) {
	woken := make(chan struct{})
	w := &ownWait{own: own, ahead: ahead, wake: func() { close(woken) }}
	s.awaitOwn(queue, w)
	select {
	case <-woken:
	case <-ctx.Done():
	case <-s.Done():
	}
	return s.outcome(ctx, w, false, driver.ErrSessionLost)
}

// outcome ends a wait. handed and err are the outcome of the watch of another
// session's entry.
func (s *session) outcome(
	ctx context.Context, w *ownWait, handed bool, err error,
) (bool, error) {
	s.leaveOwn(w) // from here on its caller alone uses it
	switch {
	case w.gone:
		if err = s.Alive(); err == nil {
			err = driver.ErrGone
		}
		return false, err
	case w.left:
		return w.hands, nil
	case err == nil:
		return handed, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case w.err != nil:
		return false, w.err
	}
	return false, err
}

// contenderOf is the prefix of an entry's key to which its contender's mode is
// added.
func contenderOf(key string) string { return key[:strings.LastIndexByte(key, '-')+1] }

// was notes that a contender's key was there at a revision, with its create
// revision.
func (m *memory) was(contender string, made, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.contenders[contender]; k != nil {
		k.there, k.thereAt = made, at
	}
}

// went notes that a contender's key was deleted.
func (m *memory) went(contender string, rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.contenders[contender]; k != nil {
		k.went = max(k.went, rev)
	}
}

// handed notes a marker, here and in made by the key of its entry. The value is
// the create revision of that entry; a key that was read alone has none.
func (m *memory) handed(made map[string]int64, marker *mvccpb.KeyValue) {
	rev, err := strconv.ParseInt(string(marker.Value), 10, 64)
	if err != nil {
		return
	}
	entry := keys.MarkedBy(string(marker.Key))
	made[entry] = rev
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.contenders[contenderOf(entry)]; k != nil {
		k.handed = max(k.handed, rev)
	}
}

// remembers reports whether an entry is one of a contender that the session has
// not forgotten, not of an earlier one with its name.
func (m *memory) remembers(e mine) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.contenders[e.contender]
	return k != nil && e.Rev > k.after
}

// hasLeft reports whether an entry has left, as far as the watch knows whose
// latest read had the revision since, and returns the create revision in the
// latest marker of its contender. A contender that the session has forgotten
// has left: the service has said so.
func (s *session) hasLeft(e mine, since int64) (left bool, handed int64) {
	m := &s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.contenders[e.contender]
	switch {
	case k == nil || e.Rev <= k.after:
		s.LearnRemoved()
		return true, 0
	case k.went > e.Rev:
		s.Learn(k.went)
		return true, k.handed
	}
	return since >= e.Rev && (k.thereAt != since || k.there != e.Rev), k.handed
}
