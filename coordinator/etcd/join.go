package etcd

import (
	"context"
	"errors"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

var (
	errForgotten = errors.New("etcd: the contender was forgotten while it joined")
	errNoReason  = errors.New("etcd: join refused although nothing stands against it")
)

// Join writes the entry in one transaction, whose revision is the create revision of the
// entry and thus its token (J1), and counts the line in it: one means that nobody is
// ahead (J3). The service may have applied it without our hearing of it; then
// the contender's key exists, and the next Join returns that entry (J2).
//
// The count reads only etcd's index. A range in order of creation would tell who is
// ahead, too, but etcd fetches and sorts the whole line for it while it applies the
// transaction, on every member, for every one who joins.
func (s *session) Join(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error) {
	if !isID(c.ID) || !isMode(c.Mode) {
		return driver.Joined{}, invalid("contender ID %q, mode %q", c.ID, c.Mode)
	}
	contender := s.keys.contender(line, c.ID, s.lease)
	call, err := s.joins.enter(contender, s.alive)
	if err != nil {
		return driver.Joined{}, err
	}
	defer s.joins.exit(contender, call)
	for fence := c.Again; ; fence = false {
		epoch, err := s.joins.take(call)
		if err != nil {
			return driver.Joined{}, err
		}
		resp, err := s.sendJoin(ctx, line, contender, c, epoch, fence)
		if err != nil {
			return driver.Joined{}, s.failed(ctx, err)
		}
		if resp.Succeeded {
			e := entry{contender + c.Mode, resp.Header.Revision}
			return driver.Joined{
				Place: driver.Place{Key: e.handle(), ID: c.ID, Mode: c.Mode, Session: s.ID()},
				Token: driver.Token(e.rev),
				First: resp.Responses[1].GetResponseRange().Count == 1,
			}, nil
		}
		joined, again, err := s.refused(line, contender, c, epoch, resp.Responses)
		if !again {
			return joined, err
		}
	}
}

// sendJoin sends one attempt. Who must be alone compares all keys of the line with
// "never created", which holds for an empty range only; nothing is written when it
// fails, so nobody wakes (J6).
//
// With fence it raises the epoch, too, refused or not: for the first attempt of a join that
// the caller has sent before. Otherwise that earlier request, delayed on its way, could
// still be applied after this one was answered: behind ErrTaken, or after the entry that
// this one made was left. Nobody would wait for that entry or remove it, and it would
// block the line for as long as the session lives. Later attempts of the same call have
// nothing left to fence off, and must not: after an outage all joins of a session are
// sent again at once, and if each refusal raised the epoch they would refuse each other
// without end.
func (s *session) sendJoin(
	ctx context.Context, line driver.Line, contender string, c driver.Contender, epoch int64, fence bool,
) (*clientv3.TxnResponse, error) {
	free := contender
	if c.Alone {
		free = s.keys.line(line) // which includes contender
	}
	count := clientv3.OpGet(s.keys.line(line), clientv3.WithPrefix(), clientv3.WithCountOnly())
	then := []clientv3.Op{
		clientv3.OpPut(contender+c.Mode, string(c.Value), clientv3.WithLease(s.lease)),
		count, // after the put, so that it counts it
	}
	var otherwise []clientv3.Op
	if fence {
		then = append(then, s.raiseEpoch())
		otherwise = append(otherwise, s.raiseEpoch())
	}
	otherwise = append(otherwise, count,
		clientv3.OpGet(contender, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(s.sentinel.key, clientv3.WithKeysOnly()))
	resp, err := s.c.Txn(withLeader(ctx)).If(
		clientv3.Compare(clientv3.CreateRevision(free).WithPrefix(), "=", 0),
		clientv3.Compare(clientv3.ModRevision(s.sentinel.key), "=", epoch),
	).Then(then...).Else(otherwise...).Commit()
	if err == nil && fence {
		s.joins.raise(resp.Header.Revision)
	}
	return resp, err
}

// raiseEpoch gives the sentinel a new mod revision. Its create revision is compared first, lest a
// request that is late makes a new sentinel after the session's end.
func (s *session) raiseEpoch() clientv3.Op {
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.sentinel.key), "=", s.sentinel.rev)},
		[]clientv3.Op{clientv3.OpPut(s.sentinel.key, "", clientv3.WithLease(s.lease))},
		nil)
}

// refused finds out from the else branch why nothing was written. again is true
// when only the epoch had moved: another contender of this session was forgotten meanwhile.
func (s *session) refused(
	line driver.Line, contender string, c driver.Contender, epoch int64, ops []*pb.ResponseOp,
) (joined driver.Joined, again bool, err error) {
	ops = ops[len(ops)-3:] // without the raising of the epoch
	count := ops[0].GetResponseRange().Count
	own, sentinel := ops[1].GetResponseRange().Kvs, ops[2].GetResponseRange().Kvs
	switch {
	case len(sentinel) == 0 || sentinel[0].CreateRevision != s.sentinel.rev:
		// J5. The lease is gone, and the entries with it. If somebody deleted only the
		// sentinel, the session is unusable all the same, and Close revokes the lease.
		s.end()
		return joined, false, driver.ErrSessionLost
	case len(own) > 0:
		place := s.keys.place(line, own[0])
		return driver.Joined{
			Place: place, Token: driver.Token(own[0].CreateRevision), First: count == 1,
		}, false, nil
	case c.Alone && count > 0:
		s.joins.removed(contender)
		return joined, false, driver.ErrTaken
	case sentinel[0].ModRevision <= epoch:
		return joined, false, driver.Wrap(driver.ErrUnavailable, errNoReason)
	}
	s.joins.raise(sentinel[0].ModRevision)
	return joined, true, nil
}

// Leave deletes the entry if it is the one that own names: the same key in the same
// life (L2). A key of another session or line is not even asked for.
func (s *session) Leave(ctx context.Context, line driver.Line, own driver.Place) error {
	if err := s.alive(); err != nil {
		return err
	}
	e, ok := s.keys.entry(line, own)
	id, lease, _, _ := parseName(strings.TrimPrefix(e.key, s.keys.line(line)))
	if !ok || lease != s.ID() {
		return driver.ErrGone
	}
	resp, err := s.c.Txn(withLeader(ctx)).
		If(clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev)).
		Then(clientv3.OpDelete(e.key)).
		Commit()
	if err != nil {
		return s.failed(ctx, err)
	}
	if !resp.Succeeded {
		return driver.ErrGone
	}
	s.joins.removed(s.keys.contender(line, id, s.lease))
	return nil
}

// Forget deletes whatever entry the contender has and raises the epoch in the same
// transaction, so that a join of it that is still on its way finds an epoch that has
// passed, whenever it arrives (F1). Joins of others that were on their way
// fail likewise and are sent again by Join itself (F2).
//
// A reply that is lost does no harm: the next join finds the new epoch in its own answer.
//
// Without the sentinel no join can be applied either, and the deletion finds an entry only
// if the sentinel was deleted by hand.
//
// An etcd that is out of space refuses the epoch, being a put. The entry alone can
// still be deleted, so that it blocks nobody, but that is no promise for later, and
// the caller is told to try again.
func (s *session) Forget(ctx context.Context, line driver.Line, id string) error {
	if err := s.alive(); err != nil {
		return err
	}
	if !isID(id) {
		return invalid("contender ID %q", id)
	}
	contender := s.keys.contender(line, id, s.lease)
	s.joins.forget(contender)
	drop := clientv3.OpDelete(contender, clientv3.WithPrefix())
	resp, err := s.c.Txn(withLeader(ctx)).Then(s.raiseEpoch(), drop).Commit()
	if isAnswer(err, rpctypes.ErrNoSpace) {
		if _, err := s.c.Do(withLeader(ctx), drop); err != nil {
			return s.failed(ctx, err)
		}
		return driver.Wrap(driver.ErrUnavailable, err)
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	s.joins.removed(contender)
	if !resp.Responses[0].GetResponseTxn().Succeeded {
		s.end()
		return driver.ErrSessionLost
	}
	s.joins.raise(resp.Header.Revision)
	return nil
}
