package etcd

import (
	"context"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// A waiter has to notice two things: that the entry ahead has left, and that
// its own entry was deleted. All entries of a session in one queue are below
// one prefix. So one watch of the deletions below that prefix shows both to all
// waiters of the session there, unless the entry ahead is another session's. It
// begins with the first of them and ends with the last.
//
// A follower also has to know whether the entry ahead was the first. It need
// not see a marker, since this session itself calls Pass: see passes. So the
// server leaves out puts, and no join wakes the session.
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
	mu   sync.Mutex // locked before the memory's
	of   map[driver.Queue]*ownWatch
	lone map[driver.Queue]bool // see waitsAlone
}

type ownWatch struct {
	session *session
	queue   driver.Queue
	cancel  context.CancelFunc
	since   int64 // the revision of its latest read, 0 before the first
	// waits has them by the key of their own entries and of those ahead.
	waits map[string][]*waitFor
	n     int
}

// ownWait is a wait until an entry of this session has left, or one ahead of
// it. ownWatches.mu guards it.
type ownWait struct {
	own    mine
	ahead  mine       // zero if it is another session's, or none
	wake   func()     // called once
	until  *ownWatch  // that it is part of, or nil
	fors   [2]waitFor // own and ahead
	ended  bool       // it was woken, or its caller has left
	gone   bool       // own has left
	left   bool       // ahead has left
	passes bool       // Pass was called for ahead
	err    error      // of the watch
}

// waitFor is a wait for one entry, at its index among those for that key.
type waitFor struct {
	*ownWait
	at int
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
		watch = &ownWatch{session: s, queue: queue, cancel: cancel, waits: map[string][]*waitFor{}}
		if all.of == nil {
			all.of = map[driver.Queue]*ownWatch{}
		}
		all.of[queue] = watch
		go watch.run(ctx)
	}
	w.until = watch
	watch.n++
	watch.add(w.own.Key, w, 0)
	if w.ahead.Key != "" {
		watch.add(w.ahead.Key, w, 1)
		s.memory.about(w.ahead, func(k *known) { w.passes = k.passes == w.ahead.Rev })
	}
	watch.judge(w)
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
	watch.remove(w.own.Key, &w.fors[0])
	if w.ahead.Key != "" {
		watch.remove(w.ahead.Key, &w.fors[1])
	}
	if watch.n--; watch.n == 0 {
		watch.end()
	}
}

func (w *ownWatch) add(key string, one *ownWait, i int) {
	one.fors[i] = waitFor{one, len(w.waits[key])}
	w.waits[key] = append(w.waits[key], &one.fors[i])
}

func (w *ownWatch) remove(key string, one *waitFor) {
	waits := w.waits[key]
	last := len(waits) - 1
	if last == 0 {
		delete(w.waits, key)
		return
	}
	waits[one.at], waits[last].at = waits[last], one.at
	waits[last] = nil
	w.waits[key] = waits[:last]
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
	err := s.Await(ctx, prefix, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterPut()},
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

// begins reads the session's entries when the watch exists.
func (w *ownWatch) begins(ctx context.Context, prefix string, rev int64) error {
	s := w.session
	r, err := s.Read(ctx, rev, clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return err
	}
	s.Learn(r.Rev)
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of[w.queue] != w { // it has ended, and another one may have read since
		return nil
	}
	w.since = r.Rev
	for _, kv := range r.Kvs {
		if key := string(kv.Key); !keys.IsMarker(key) {
			s.memory.was(contenderOf(key), kv.CreateRevision, r.Rev)
		}
	}
	for _, waits := range w.waits {
		for _, one := range waits {
			w.judge(one.ownWait)
		}
	}
	return nil
}

// shows handles deletions. A marker is deleted when it is not needed any more.
func (w *ownWatch) shows(events []*clientv3.Event) {
	s := w.session
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, ev := range events {
		key := string(ev.Kv.Key)
		if ev.Type != mvccpb.DELETE || keys.IsMarker(key) {
			continue
		}
		s.memory.went(contenderOf(key), ev.Kv.ModRevision)
		for _, one := range w.waits[key] {
			one.gone = one.gone || one.own.IsDeletedBy(ev)
			one.left = one.left || one.ahead.IsDeletedBy(ev)
			if one.gone || one.left {
				s.Learn(ev.Kv.ModRevision)
				one.end()
			}
		}
	}
}

// judge wakes a wait if one of its entries has left. The caller holds
// ownWatches.mu.
func (w *ownWatch) judge(one *ownWait) {
	s := w.session
	one.gone = one.gone || s.hasLeft(one.own, w.since)
	one.left = one.left || one.ahead.Key != "" && s.hasLeft(one.ahead, w.since)
	if one.gone || one.left {
		one.end()
	}
}

// passes notes that Pass is called for an entry of this session, or that it has
// failed. Pass is for an entry that is the first, which it stays until it
// leaves. So its follower is the first when it is gone, whichever request has
// deleted it. The reply to Pass may be later than the event that shows that.
func (s *session) passes(queue driver.Queue, e mine, passes bool) {
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	s.memory.about(e, func(k *known) {
		if k.passes = 0; passes {
			k.passes = e.Rev
		}
	})
	watch := all.of[queue]
	if watch == nil {
		return
	}
	for _, one := range watch.waits[e.Key] {
		if one.ahead.Entry == e.Entry {
			one.passes = passes
		}
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

// waitsAlone reports whether a Watch is the first wait for entries of the
// session in a queue. If so, it has a watch of its own, in the caller's
// goroutine, which costs less than one to share. The others share one. The
// caller calls doneAlone later.
func (s *session) waitsAlone(queue driver.Queue) bool {
	all := &s.ownWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of[queue] != nil || all.lone[queue] {
		return false
	}
	if all.lone == nil {
		all.lone = map[driver.Queue]bool{}
	}
	all.lone[queue] = true
	return true
}

func (s *session) doneAlone(queue driver.Queue) {
	s.ownWatches.mu.Lock()
	defer s.ownWatches.mu.Unlock()
	delete(s.ownWatches.lone, queue)
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
		return w.passes, nil
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

// remembers reports whether an entry is one of a contender that the session has
// not forgotten, not of an earlier one with its name.
func (m *memory) remembers(e mine) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.contenders[e.contender]
	return k != nil && e.Rev > k.after
}

// hasLeft reports whether an entry has left, as far as the watch knows whose
// latest read had the revision since. A contender that the session has
// forgotten has left: the service has said so.
func (s *session) hasLeft(e mine, since int64) bool {
	m := &s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.contenders[e.contender]
	switch {
	case k == nil || e.Rev <= k.after:
		s.LearnRemoved()
		return true
	case k.went > e.Rev:
		s.Learn(k.went)
		return true
	}
	return since >= e.Rev && (k.thereAt != since || k.there != e.Rev)
}
