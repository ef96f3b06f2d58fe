package foreign

import (
	"cmp"
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// session implements driver.Session for queues shared with package concurrency.
type session struct {
	*lease.Session
	keys   layout
	leases *leases
}

var (
	errNoReason  = errors.New("etcd: join refused for an unknown reason")
	errNoRecords = answer.Invalid("layout %s has no records", Concurrency)
)

// mostShown bounds how many entries a contender with Alone reads.
const mostShown = 16

// key is the key of a contender with this lease.
func (s *session) key(queue driver.Queue, l *oneLease) string {
	return s.keys.Queue(queue) + bareHex(l.id)
}

// contender names a contender in Session.Joins, also before it has a lease.
func (s *session) contender(queue driver.Queue, id string) string {
	return s.keys.Queue(queue) + id
}

// attempt is one transaction of a Join.
type attempt struct {
	driver.Contender
	queue driver.Queue
	lease clientv3.LeaseID
	key   string
	epoch int64
	fence bool // raise the epoch
}

// Join writes the key in one transaction, which counts the queue: a contender
// that is alone in it holds. As in the native layout, the epoch prevents late
// requests from being applied.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	switch {
	case !keys.IsID(c.ID) || !keys.IsMode(c.Mode):
		return driver.Joined{}, answer.Invalid("contender ID %q, mode %q", c.ID, c.Mode)
	case c.Record != 0:
		return driver.Joined{}, errNoRecords
	}
	if err := s.Alive(); err != nil {
		return driver.Joined{}, err
	}
	name := s.contender(queue, c.ID)
	call := s.Joins.Enter(name)
	defer s.Joins.Exit(name, call)
	if c.Alone && !c.Again {
		kvs, err := s.Look(ctx, queue, s.someKeys(queue))
		if err == nil && len(kvs) > 0 {
			err = cmp.Or(s.keys.ambiguous(queue, kvs...), driver.ErrTaken)
		}
		if err != nil {
			return driver.Joined{}, err
		}
	}
	l, err := s.leaseFor(ctx, queue, c.ID, call)
	if err != nil {
		return driver.Joined{}, err
	}
	a := &attempt{
		Contender: c, queue: queue, lease: l.id, key: s.key(queue, l), fence: c.Again,
	}
	for ; ; a.fence = false {
		if a.epoch, err = s.Joins.Take(call); err != nil {
			return driver.Joined{}, err
		}
		resp, err := s.sendJoin(ctx, a)
		if err != nil {
			return s.joinFailed(ctx, a, call, err)
		}
		if resp.Succeeded {
			n := resp.Responses[1].GetResponseRange().Count
			return s.joined(a, resp.Header.Revision, n), nil
		}
		if joined, again, err := s.refused(a, resp.Responses); !again {
			return joined, err
		}
	}
}

// someKeys reads the first keys of a queue.
func (s *session) someKeys(queue driver.Queue) clientv3.Op {
	return clientv3.OpGet(s.keys.Queue(queue), clientv3.WithPrefix(), clientv3.WithLimit(mostShown))
}

func (s *session) sendJoin(ctx context.Context, a *attempt) (*clientv3.TxnResponse, error) {
	all := s.keys.Queue(a.queue)
	absent := clientv3.Compare(clientv3.CreateRevision(a.key), "=", 0)
	if a.Alone {
		absent = keys.Absent(all)
	}
	then := []clientv3.Op{
		clientv3.OpPut(a.key, string(a.Value), clientv3.WithLease(a.lease)),
		clientv3.OpGet(all, clientv3.WithPrefix(), clientv3.WithCountOnly()),
	}
	otherwise := []clientv3.Op{
		s.ReadSentinel(),
		clientv3.OpGet(a.key, clientv3.WithKeysOnly()),
		s.someKeys(a.queue),
	}
	if a.fence {
		then, otherwise = append(then, s.RaiseEpoch()), append(otherwise, s.RaiseEpoch())
	}
	resp, err := s.Txn(ctx).If(s.InEpoch(a.epoch), absent).Then(then...).Else(otherwise...).Commit()
	if err == nil && a.fence {
		s.Joins.Raise(resp.Header.Revision)
	}
	return resp, err
}

// joined is the outcome of an attempt that has created or found the key, in a
// queue of n keys.
func (s *session) joined(a *attempt, rev, n int64) driver.Joined {
	s.leases.joined(a.queue, a.ID, rev)
	if a.Alone {
		s.Tried(a.queue, false)
	}
	e := keys.Entry{Key: a.key, Rev: rev}
	p := driver.Place{Key: e.Handle(), ID: a.ID, Mode: a.Mode, Session: s.ID()}
	return driver.Joined{Place: p, Token: driver.Token(rev), First: n == 1}
}

// joinFailed handles an attempt that was refused or got no reply.
func (s *session) joinFailed(
	ctx context.Context, a *attempt, call *lease.Call, err error,
) (driver.Joined, error) {
	if answer.Is(err, rpctypes.ErrNoSpace) {
		own := clientv3.OpGet(a.key, clientv3.WithKeysOnly())
		e, failed := s.MadeWithoutSpace(ctx, err, own)
		switch {
		case failed == nil:
			return s.joined(a, e.Rev, 0), nil
		case !errors.Is(failed, driver.ErrRefused):
			return driver.Joined{}, failed
		}
	}
	if !errors.Is(answer.Kind(err), driver.ErrRefused) {
		s.Joins.Lost(s.contender(a.queue, a.ID), call, a.epoch)
	} else if !a.Again {
		s.leases.free(a.queue, a.ID)
	}
	return driver.Joined{}, s.Failed(ctx, err)
}

// refused finds out from the else branch why nothing was written. again says
// that another attempt, with the epoch of a Forget, may succeed.
func (s *session) refused(
	a *attempt, ops []*pb.ResponseOp,
) (joined driver.Joined, again bool, err error) {
	epoch, err := s.JudgeSentinel(ops[0].GetResponseRange().Kvs)
	if err != nil {
		return joined, false, err
	}
	own, inQueue := ops[1].GetResponseRange().Kvs, ops[2].GetResponseRange()
	switch {
	case len(own) > 0 && a.Again:
		return s.joined(a, own[0].CreateRevision, inQueue.Count), false, nil
	case len(own) > 0:
		s.leases.free(a.queue, a.ID)
		return joined, false, driver.Wrap(driver.ErrRefused,
			errors.New("etcd: another program has made a key for the session's lease: "+a.key))
	case a.Alone && inQueue.Count > 0:
		s.leases.free(a.queue, a.ID)
		s.Tried(a.queue, true)
		if err := s.keys.ambiguous(a.queue, inQueue.Kvs...); err != nil {
			return joined, false, err
		}
		return joined, false, driver.ErrTaken
	case epoch > a.epoch:
		return joined, true, nil
	}
	return joined, false, driver.Wrap(driver.ErrUnavailable, errNoReason)
}

// Ahead reads the entries before own from the member at hand, at least as new
// as own's join and the events of Watch (V1).
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	if err := s.Alive(); err != nil {
		return driver.View{}, err
	}
	if own == (driver.Place{}) {
		r, err := s.All(ctx, queue, true)
		if err != nil {
			return driver.View{}, s.Failed(ctx, err)
		}
		ahead := keys.Places(s.keys.InOrder(queue, r.Kvs))
		return driver.View{Ahead: ahead, Last: true}, s.keys.ambiguous(queue, r.Kvs...)
	}
	me, ok := s.keys.Entry(queue, own)
	if !ok {
		return driver.View{}, driver.ErrGone
	}
	ahead := clientv3.OpGet(s.keys.Queue(queue), clientv3.WithPrefix(),
		clientv3.WithMaxCreateRev(me.Rev)) // with values: without them it would lack the leases
	r, err := s.Read(ctx, max(me.Rev, s.Seen()), ahead)
	if err != nil {
		return driver.View{}, s.Failed(ctx, err)
	}
	entries := s.keys.InOrder(queue, r.Kvs)
	i := slices.IndexFunc(entries, func(h driver.Head) bool { return h.Key == own.Key })
	if i < 0 {
		return driver.View{}, driver.ErrGone
	}
	view := driver.View{Ahead: keys.Places(entries[:i]), Last: r.Count == int64(i)+1}
	return view, s.keys.ambiguous(queue, r.Kvs...)
}

// own finds the entry of this session at a place, or returns ErrGone. It
// compares the create revision too, since keys and IDs are reused.
func (s *session) own(queue driver.Queue, p driver.Place) (keys.Entry, error) {
	if err := s.Alive(); err != nil {
		return keys.Entry{}, err
	}
	e, ok := s.keys.Entry(queue, p)
	l, rev := s.leases.find(queue, p.ID)
	if !ok || p.ID == "" || p.Session != s.ID() || l == nil ||
		e != (keys.Entry{Key: s.key(queue, l), Rev: rev}) {
		return keys.Entry{}, driver.ErrGone
	}
	return e, nil
}

// Leave deletes the key if it is still own's.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	e, err := s.own(queue, own)
	if err != nil {
		return err
	}
	if err = s.Delete(ctx, e); err == nil || errors.Is(err, driver.ErrGone) {
		s.leases.free(queue, own.ID)
	}
	return err
}

func (s *session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	e, err := s.own(queue, own)
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, e, e.Rev, value)
	return err
}

// Forget deletes the contender's key and raises the epoch. A contender without
// a lease has sent nothing. Its running joins are stopped before that is found
// out, and from then on get no lease.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	if err := s.Alive(); err != nil {
		return err
	}
	if !keys.IsID(id) {
		return answer.Invalid("contender ID %q", id)
	}
	name := s.contender(queue, id)
	s.StopJoins(name)
	l, _ := s.leases.find(queue, id)
	if l == nil {
		return nil
	}
	err := s.Session.Forget(ctx, name, clientv3.OpDelete(s.key(queue, l)))
	switch {
	case err == nil || errors.Is(err, driver.ErrSessionLost):
		s.leases.free(queue, id)
	case !errors.Is(err, driver.ErrRefused):
		s.leases.doubt(queue, id)
	}
	return err
}

// Capabilities lack handoffs, which the other clients do not support, and
// conversions, which no recipe of the layout needs.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{Writer: s, HeadWatcher: s, Operator: s, ReuseIDs: true}
}

// Remove deletes one key if it is still the entry that the handle names.
func (s *session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	e, err := s.Named(queue, key, token)
	if err != nil {
		return err
	}
	return s.Delete(ctx, e)
}

func (s *session) Queues(context.Context) ([]driver.Queue, error) {
	return nil, answer.Invalid("queues cannot be listed in layout %s, "+
		"whose keys do not show what is a queue: name the queue", Concurrency)
}

func (s *session) Record(context.Context, driver.Queue, driver.Version) (driver.Record, error) {
	return driver.Record{}, errNoRecords
}

func (s *session) SetRecord(
	context.Context, driver.Queue, []byte, driver.Version,
) (driver.Version, error) {
	return 0, errNoRecords
}

// Close revokes all leases, the session's own first: without its sentinel no
// late join is applied.
func (s *session) Close(ctx context.Context) error {
	err := s.Session.Close(ctx)
	rest := forAll(s.leases.rest(), func(id clientv3.LeaseID) error { return s.Conn.Revoke(ctx, id) })
	if err == nil {
		err = rest
	}
	return err
}
