package etcd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// A release admits the successor without another read, at a cost that does not
// depend on the length of the queue. Two keys make that possible.
//
// The tail key. A contender that joins a non-empty queue writes its name to the
// tail key in the joining transaction and reads the previous value, which names
// its predecessor (J8). While there is a tail key every join swaps it, so no
// entry lies between the two. A tail key is deleted in the transaction that
// deletes the entry that it names, or with its lease. It may name an entry that
// is gone. Then the follower of that entry finds it gone and reads the queue.
//
// The handoff marker. A release of the first entry makes a marker if the tail
// key is newer than the entry: then others are behind it. The marker's key is
// the entry's key and a "~", so one watch of the two keys shows both, and one
// event says that the entry is gone and was the first. After a deletion without
// a marker the follower reads the queue. The marker's value is the entry's
// create revision, since names are used again. The follower deletes the marker
// together with its own entry. A marker that is left over goes with the lease
// of its maker, or with the entry of a contender that has read the queue.
//
// Deleting a tail key or a marker is safe at any time: contenders then read the
// queue. Writing one is not.

// mostMarks bounds the markers that one contender deletes. Others remain for
// the next.
const mostMarks = 16

// swapTail succeeds if the queue is empty. If not, and if the contender follows
// its predecessor, it writes the contender's name to the tail key and reads the
// previous value.
func (s *session) swapTail(a *attempt) clientv3.Op {
	var swap []clientv3.Op
	if a.Follows {
		name := strings.TrimPrefix(a.entry, s.keys.Queue(a.queue))
		swap = append(swap, clientv3.OpPut(s.keys.Tail(a.queue), name,
			clientv3.WithLease(s.Lease), clientv3.WithPrevKV()))
	}
	return clientv3.OpTxn(s.empty(a.queue), nil, swap)
}

// predecessor returns the entry that the previous tail key names. That tail key
// was written in the transaction that made the entry, so its mod revision is
// the entry's create revision.
func (s *session) predecessor(queue driver.Queue, tail *mvccpb.KeyValue) driver.Place {
	if tail == nil {
		return driver.Place{}
	}
	e := keys.Entry{Key: s.keys.Queue(queue) + string(tail.Value), Rev: tail.ModRevision}
	return s.keys.Place(queue, e)
}

// Pass is Leave with a handoff marker if the tail key shows that others are
// behind.
//
// An etcd that is out of space refuses the marker, since it is a put. Then the
// entry is deleted without one.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	e, err := s.own(queue, own)
	if err != nil {
		return err
	}
	s.passes(queue, e, true)
	err = s.leave(ctx, queue, e, true)
	if answer.Is(err, rpctypes.ErrNoSpace) {
		if err = s.leave(ctx, queue, e, false); errors.Is(err, driver.ErrGone) {
			return nil // the refused request was applied all the same: see lease.MadeWithoutSpace
		}
	}
	if err != nil {
		s.passes(queue, e, false)
	}
	return err
}

// onLeaving returns the operations of the transaction that deletes an entry,
// except that deletion. They delete the tail key if it names the entry, and the
// markers of others. If the tail key is newer than the entry and handoff is
// set, they make the entry's marker.
func (s *session) onLeaving(
	queue driver.Queue, e keys.Entry, handoff bool, marks []string,
) []clientv3.Op {
	tail := s.keys.Tail(queue)
	rank := s.keys.Rank(queue, e)
	newer := clientv3.Compare(clientv3.ModRevision(tail), ">", rank)
	var create []clientv3.Op
	if handoff && rank == e.Rev { // a converted entry has no marker: see attempt.own
		marker := clientv3.OpPut(keys.Marker(e.Key), madeAt(e), clientv3.WithLease(s.Lease))
		create = append(create, marker)
	}
	drop := []clientv3.Op{clientv3.OpDelete(tail)}
	ops := []clientv3.Op{clientv3.OpTxn([]clientv3.Cmp{newer}, create, drop)}
	for _, m := range marks {
		if m != keys.Marker(e.Key) { // a request may not delete and make one key
			ops = append(ops, clientv3.OpDelete(m))
		}
	}
	return ops
}

// sweep deletes what was read of a queue if that is nothing but markers, and
// reports whether they are gone. A follower of one of them reads the queue
// instead.
func (s *session) sweep(ctx context.Context, kvs []*mvccpb.KeyValue) (bool, error) {
	var same []clientv3.Cmp
	var drop []clientv3.Op
	for _, kv := range kvs {
		if !keys.IsMarker(string(kv.Key)) {
			return false, nil
		}
		same = append(same, keys.Unchanged(string(kv.Key), kv.ModRevision))
		drop = append(drop, clientv3.OpDelete(string(kv.Key)))
	}
	resp, err := s.Txn(ctx).If(same...).Then(drop...).Commit()
	if err != nil {
		return false, s.Failed(ctx, err)
	}
	return resp.Succeeded, nil
}

// Follow waits for an entry of this session with the session's own watch: see
// ownWatches. It watches an entry of another session, and its marker. When that
// watch exists, one read tells whether the entry is there or has left its
// marker. The events tell the rest. If the wait lasts, own is waited for with
// the session's own watch, which may have to be made: most waits are short.
func (s *session) Follow(
	ctx context.Context, queue driver.Queue, own, ahead driver.Place,
) (passed bool, err error) {
	me, err := s.own(queue, own)
	if err != nil {
		return false, err
	}
	e, ok := s.keys.Entry(queue, ahead)
	if !ok || me.Rank != 0 { // a converted entry holds, and follows nobody
		return false, answer.Invalid("%q is no place that %q follows", ahead.Key, own.Key)
	}
	s.memory.noteMark(me, keys.Marker(e.Key))
	if its, ok := s.belongs(queue, ahead); ok {
		return s.waitOwn(ctx, queue, me, its)
	}
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &ownWait{own: me, wake: cancel}
	defer time.AfterFunc(ownWatchDelay, func() { s.awaitOwn(queue, w) }).Stop()
	f := &following{s: s, ahead: e, since: max(e.Rev, me.Rev)}
	both := clientv3.WithRange(keys.Marker(e.Key) + "\x00")
	f.both = clientv3.OpGet(e.Key, both)
	err = s.Await(bound, e.Key, []clientv3.OpOption{both}, f.isGone)
	return s.outcome(ctx, w, f.passed, err)
}

// ownWatchDelay is how long a follower of another session's entry waits before
// it also waits for its own.
const ownWatchDelay = time.Second

type following struct {
	s      *session
	ahead  keys.Entry
	both   clientv3.Op // reads the entry ahead and its marker
	since  int64       // the revision at which both entries existed
	passed bool
}

// isGone reports whether a message of the watch shows that the entry ahead is
// gone.
func (f *following) isGone(
	ctx context.Context, resp clientv3.WatchResponse,
) (gone bool, err error) {
	for _, ev := range resp.Events {
		switch {
		case ev.Type == mvccpb.PUT && f.isMarker(ev.Kv):
			f.passed = true
		case f.ahead.IsDeletedBy(ev):
			f.s.Learn(ev.Kv.ModRevision)
			gone = true
		}
	}
	if !resp.Created {
		return gone, nil
	}
	r, err := f.s.Read(ctx, max(resp.Header.Revision, f.since), f.both)
	if err != nil {
		return false, err
	}
	gone = true
	for _, kv := range r.Kvs {
		switch {
		case f.ahead.Is(kv):
			gone = false
		case f.isMarker(kv):
			f.passed = true
		}
	}
	f.s.Learn(r.Rev)
	return gone, nil
}

// isMarker tells whether a key is the marker of the entry ahead. An earlier
// entry of that name may have left one, too.
func (f *following) isMarker(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == keys.Marker(f.ahead.Key) && string(kv.Value) == madeAt(f.ahead)
}

// madeAt is the value of an entry's marker.
func madeAt(e keys.Entry) string { return strconv.FormatInt(e.Rev, 10) }
