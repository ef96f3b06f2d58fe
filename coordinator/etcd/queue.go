package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// The protocol of one queue:
//
//	        join: one transaction, in one of two forms
//	          │
//	          ├─ uncontended form: put my entry if the queue is empty
//	          │     ├─ it was ─────────────────────────────────► first
//	          │     └─ it was not: send the contended form
//	          └─ contended form: put my entry, swap the tail key
//	                ├─ the queue was empty ────────────────────► first
//	                ├─ the old tail key names my predecessor ──► Follow it
//	                └─ there is no tail key, or none is used ──► Ahead
//
//	first ── Leave, Pass ──► my entry is deleted
//
// The revision of the joining transaction is the entry's create revision, and
// thus its place in the queue and its token.
//
// Each join compares the session's epoch, which a Forget raises, and a join
// that is sent again: see lease.Joins and sendJoin. handoff.go has the tail key
// and the handoff markers.

var errNoReason = errors.New("etcd: join refused although nothing stands against it")

// attempt is one transaction of a Join.
type attempt struct {
	driver.Contender
	queue  driver.Queue
	entry  string // the key to make
	prefix string // the same without the mode
	epoch  int64
	fence  bool // raise the epoch
	// contended selects the form: the contended one finds out whether the queue
	// is empty, and swaps the tail key if not. The uncontended one is refused
	// unless the queue is empty.
	contended bool
	// anyTail: with Alone, a tail key does not show that the queue is taken.
	anyTail bool
}

// Join writes the contender's entry. See the top of this file.
//
// The service may have applied the transaction although its reply was lost.
// Then the contender's key exists, and the next Join returns that entry (J2).
//
// A sorted range in the transaction would name the predecessor, too, but every
// member would fetch and sort the whole queue while it applies the transaction.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	if !keys.IsID(c.ID) || !keys.IsMode(c.Mode) {
		return driver.Joined{}, answer.Invalid("contender ID %q, mode %q", c.ID, c.Mode)
	}
	prefix := s.keys.Contender(queue, s.ID(), c.ID)
	s.memory.expect(prefix) // before Alive: see externalSession.Close
	if err := s.Alive(); err != nil {
		return driver.Joined{}, err
	}
	a := &attempt{Contender: c, queue: queue, entry: prefix + c.Mode, prefix: prefix, fence: c.Again}
	a.contended = !c.Alone && (c.Again || s.memory.isContended(queue))
	call := s.Joins.Enter(a.prefix)
	defer s.Joins.Exit(a.prefix, call)
	if err := s.look(ctx, a); err != nil {
		return driver.Joined{}, err
	}
	for ; ; a.fence = false {
		var err error
		if a.epoch, err = s.Joins.Take(call); err != nil {
			return driver.Joined{}, err
		}
		resp, err := s.sendJoin(ctx, a)
		if err != nil {
			return s.joinFailed(ctx, a, call, err)
		}
		if resp.Succeeded {
			return s.joined(a, resp), nil
		}
		if joined, again, err := s.refused(ctx, a, resp); !again {
			return joined, err
		}
	}
}

// sendJoin sends one attempt.
//
// With fence it raises the epoch, too, even if the attempt is refused. The
// first attempt of a repeated join does that, since an earlier request of the
// contender may be delayed on its way. Applied after this attempt was answered
// with ErrTaken, or after its entry was deleted, that request would make an
// entry that no contender removes, and block the queue for the life of the
// session. Later attempts of the same call must not raise the epoch: after an
// outage all joins of a session are sent again at once, and would refuse each
// other without end.
func (s *session) sendJoin(ctx context.Context, a *attempt) (*clientv3.TxnResponse, error) {
	put := clientv3.OpPut(a.entry, string(a.Value), clientv3.WithLease(s.Lease))
	then, otherwise := []clientv3.Op{put}, s.reasons(a)
	switch {
	case a.contended && a.Follows: // before the put: without it the queue may be empty
		then = []clientv3.Op{s.swapTail(a), put}
	case a.Alone: // a tail key may outlive the entry that it names
		then = append(then, clientv3.OpDelete(s.keys.Tail(a.queue)))
	}
	if a.fence {
		then, otherwise = append(then, s.RaiseEpoch()), append(otherwise, s.RaiseEpoch())
	}
	txn := clientv3.OpTxn(s.conditions(a), then, otherwise)
	if a.contended || a.Alone {
		resp, err := s.Do(ctx, txn)
		if err == nil && a.fence {
			s.Joins.Raise(resp.Txn().Header.Revision)
		}
		return resp.Txn(), err
	}
	resp, err := s.send(ctx, a.queue, txn)
	return resp.Txn(), err
}

// conditions must hold for the entry to be made. If one does not, nothing is
// written and no waiter wakes.
//
// The uncontended form compares all keys of the queue with "never created",
// which holds for an empty range only (J6). It compares the tail key first: if
// there is one, etcd need not read the queue. A tail key may be left over, so a
// contender that asks to be alone then tries without it. The contended form
// compares the keys that the contender may have already (J2). A contender that
// knows the record compares its version (J7).
func (s *session) conditions(a *attempt) []clientv3.Cmp {
	conds := append(make([]clientv3.Cmp, 0, 4), s.InEpoch(a.epoch))
	switch {
	case a.Alone && a.anyTail:
		conds = append(conds, keys.Absent(s.keys.Queue(a.queue)))
	case !a.contended:
		conds = append(conds, s.empty(a.queue)...)
	case a.Again: // else it has none
		conds = append(conds, keys.Unchanged(a.entry, 0), keys.Absent(keys.Converted(a.prefix)))
	}
	if a.Record != 0 {
		conds = append(conds, keys.Unchanged(s.keys.Record(a.queue), int64(a.Record)))
	}
	return conds
}

// empty holds for a queue without a tail key and without entries.
func (s *session) empty(queue driver.Queue) []clientv3.Cmp {
	noTail := clientv3.Compare(clientv3.CreateRevision(s.keys.Tail(queue)), "=", 0)
	return []clientv3.Cmp{noTail, keys.Absent(s.keys.Queue(queue))}
}

// reasons read why an attempt is refused: the sentinel, the record and, where
// they can be the reason, the first keys of the queue and the contender's own.
// An uncontended attempt reads nothing: if it is refused, a contended one
// follows.
func (s *session) reasons(a *attempt) []clientv3.Op {
	if !a.contended && !a.Alone {
		return nil
	}
	record := clientv3.OpGet(s.keys.Record(a.queue), clientv3.WithKeysOnly())
	reads := []clientv3.Op{s.ReadSentinel(), record}
	if a.Alone || a.Again {
		reads = append(append(reads, s.someKeys(a.queue)), a.own()...)
	}
	return reads
}

// own reads the entries that the contender may have already.
func (a *attempt) own() []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet(a.entry, clientv3.WithKeysOnly()),
		clientv3.OpGet(keys.Converted(a.prefix), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	}
}

// joined reads the answer to an attempt that has made the entry. An entry of
// the uncontended form is the first. The contended form finds out whether the
// queue was empty only for a contender that follows its predecessor, by the
// tail key if there is one. Others read the queue next: comparing all of it
// would cost every member more than that read costs one of them.
func (s *session) joined(a *attempt, resp *clientv3.TxnResponse) driver.Joined {
	e := keys.Entry{Key: a.entry, Rev: resp.Header.Revision}
	j := driver.Joined{Place: s.keys.Place(a.queue, e), Token: driver.Token(e.Rev), First: true}
	if a.contended {
		swap := resp.Responses[0].GetResponseTxn() // nil without Follows
		if j.First = swap.GetSucceeded(); !j.First && a.Follows {
			j.Nearest = s.predecessor(a.queue, swap.Responses[0].GetResponsePut().PrevKv)
		}
	}
	if a.Alone {
		s.Tried(a.queue, false)
	}
	s.memory.joined(a, e, j.First)
	return j
}

// joinFailed handles an attempt that was not answered or that the service
// refuses.
func (s *session) joinFailed(
	ctx context.Context, a *attempt, c *lease.Call, err error,
) (driver.Joined, error) {
	if answer.Is(err, rpctypes.ErrNoSpace) {
		e, failed := s.MadeWithoutSpace(ctx, err, a.own()...)
		switch {
		case failed == nil: // First stays false: others may have joined before
			return s.existing(a, e), nil
		case !errors.Is(failed, driver.ErrRefused):
			return driver.Joined{}, failed
		}
	}
	switch { // by the answer: ctx's cause may be any error
	case !errors.Is(answer.Kind(err), driver.ErrRefused):
		s.Joins.Lost(a.prefix, c, a.epoch)
	case !a.Again:
		s.memory.drop(a.prefix)
	}
	return driver.Joined{}, s.Failed(ctx, err)
}

// existing is the outcome of a Join whose contender has an entry already.
func (s *session) existing(a *attempt, e keys.Entry) driver.Joined {
	s.memory.got(a.prefix, e)
	token := driver.Token(s.keys.Rank(a.queue, e))
	return driver.Joined{Place: s.keys.Place(a.queue, e), Token: token}
}

// refused tells from what reasons has read why nothing was written. again is
// true if another attempt may succeed: in the contended form, with the epoch
// that a Forget of another contender has raised, or without left-over markers.
// An entry that exists already is the outcome, whatever has happened in the
// queue since.
func (s *session) refused(
	ctx context.Context, a *attempt, resp *clientv3.TxnResponse,
) (joined driver.Joined, again bool, err error) {
	if !a.contended && !a.Alone {
		a.contended = true
		return joined, true, nil
	}
	ops := resp.Responses
	read := func(i int) []*mvccpb.KeyValue { return ops[i].GetResponseRange().Kvs }
	epoch, err := s.JudgeSentinel(read(0))
	if err != nil { // J5
		return joined, false, err
	}
	var inQueue int64
	var own []*mvccpb.KeyValue
	if a.Alone || a.Again {
		inQueue = ops[2].GetResponseRange().Count
		own = append(read(3), read(4)...)
	}
	if len(own) == 0 { // an earlier attempt's entry, if it made one, is gone
		s.NoteRemoved(resp.Header.Revision)
	}
	switch {
	case len(own) > 0:
		e := keys.Entry{Key: string(own[0].Key), Rev: own[0].CreateRevision}
		joined = s.existing(a, e)
		joined.First = inQueue == 1
		return joined, false, nil
	case a.Record != 0 && record(read(1)).Version != a.Record:
		s.memory.drop(a.prefix)
		return joined, false, driver.ErrStale
	case a.Alone && inQueue > 0:
		if again, err = s.sweep(ctx, read(2)); !again && err == nil {
			s.memory.drop(a.prefix)
			s.Tried(a.queue, true)
			err = driver.ErrTaken
		}
		return joined, again, err
	case epoch > a.epoch:
		return joined, true, nil
	case a.Alone && !a.anyTail:
		a.anyTail = true
		return joined, true, nil
	}
	return joined, false, driver.Wrap(driver.ErrUnavailable, errNoReason)
}

// mine is an entry of a contender of this session.
type mine struct {
	keys.Entry
	keys.Name
	contender string // the prefix of the key with which it joined
}

// own returns the entry of this session that a place names. A place of another
// session or queue names none: to the caller it is gone, without a request
// (L2).
func (s *session) own(queue driver.Queue, p driver.Place) (mine, error) {
	if err := s.Alive(); err != nil {
		return mine{}, err
	}
	e, ok := s.keys.Entry(queue, p)
	n, named := s.keys.Name(queue, e)
	if !ok || !named || n.Lease != s.ID() {
		return mine{}, driver.ErrGone
	}
	return mine{e, n, s.keys.Contender(queue, s.ID(), n.ID)}, nil
}

// Leave deletes the entry that own names.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	e, err := s.own(queue, own)
	if err != nil {
		return err
	}
	return s.leave(ctx, queue, e, false)
}

func (s *session) leave(ctx context.Context, queue driver.Queue, e mine, handoff bool) error {
	err := s.delete(ctx, queue, e, handoff)
	switch {
	case err == nil:
		s.memory.drop(e.contender)
	case errors.Is(err, driver.ErrGone):
		s.memory.gone(e)
	}
	return err
}

// delete sends one attempt to delete an entry. It returns ErrGone if there was
// none.
//
// The first attempt for an entry that no tail key has named is a plain delete
// of the key. No other session makes that key, and no other request can be
// under way that deletes it, since an ID is used again only after an answer.
// All other attempts compare the entry's create revision.
func (s *session) delete(ctx context.Context, queue driver.Queue, e mine, handoff bool) error {
	var plain bool
	var marks []string
	s.memory.about(e, func(k *known) {
		plain, marks = k.plain, k.marks
		k.plain = false
	})
	if !plain {
		return s.Delete(ctx, e.Entry, s.onLeaving(queue, e.Entry, handoff, marks)...)
	}
	resp, err := s.send(ctx, "", clientv3.OpDelete(e.Key))
	if err != nil {
		return s.Failed(ctx, err)
	}
	s.NoteRemoved(resp.Del().Header.Revision)
	if resp.Del().Deleted == 0 {
		return driver.ErrGone
	}
	return nil
}

// Forget deletes the contender's entries for good: see lease.Session.Forget. A
// tail key that still names one is deleted with the lease, or by the next
// contender that joins alone.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return s.forget(ctx, queue, id)
}

// forget is Forget with more operations.
func (s *session) forget(
	ctx context.Context, queue driver.Queue, id string, more ...clientv3.Op,
) error {
	if err := s.Alive(); err != nil {
		return err
	}
	if !keys.IsID(id) {
		return answer.Invalid("contender ID %q", id)
	}
	contender := s.keys.Contender(queue, s.ID(), id)
	err := s.Session.Forget(ctx, contender, append(more,
		clientv3.OpDelete(contender, clientv3.WithPrefix()),
		clientv3.OpDelete(keys.Converted(contender), clientv3.WithPrefix()))...)
	if err == nil {
		s.memory.drop(contender)
	}
	return err
}
